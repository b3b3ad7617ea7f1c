"""Client processes that write to a cluster and read from it, and the verdict on what they saw.

Every connection is made by a process of its own, behind `prefix`, so that clients can be in another
network namespace than the test.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.cluster.chaos.anomalies import Expectations, check, longest_gap_s
from tests.cluster.chaos.anomaly import Anomaly, FinalRead, Kind
from tests.cluster.chaos.clients.process import ENDING_S, Options
from tests.cluster.chaos.history import (
    Acknowledged,
    Assigned,
    Event,
    OffsetsCommitted,
    Partition,
    Polled,
    Record,
    Sent,
    Transaction,
    decode,
    read_history,
)
from tests.cluster.chaos.word_count import WordCount
from tests.support.paths import ROOT

CLIENTS = "tests.cluster.chaos.clients"
RECORDS, TRANSACTIONS, COPIES = "records", "transactions", "copies"
WORDS, COUNTS = "words", "counts"
# Written by faults; no client and no checker reads it.
PROBES = "probes"
PARTITIONS = 3
VOCABULARY = 50
# Both read everything that is written, with read_committed.
CLASSIC_GROUP, CONSUMER_GROUP, COPIERS = "classic-members", "consumer-members", "copiers"
START_S = 90.0
SHOWN_MAX = 20
POLL_S = 0.1
# A read and the end of clients have at least this time, even if groups that did not catch up have
# used up all the time of a finish.
READ_S = 30.0
LEVELS = ("committed", "uncommitted")


@dataclass(frozen=True)
class Verdict:
    """`longest_gap_s` is the longest time between two acknowledgements of one partition."""

    anomalies: Sequence[Anomaly]
    sent: int
    acknowledged: int
    read: int
    transactions: int
    longest_gap_s: float

    def __str__(self) -> str:
        line = (
            f"{len(self.anomalies)} anomalies; {self.sent} sent, {self.acknowledged} acknowledged, "
            f"{self.read} read, {self.transactions} transactions, "
            f"longest gap {self.longest_gap_s:.1f} s"
        )
        shown = [str(each) for each in self.anomalies[:SHOWN_MAX]]
        return "\n  ".join([line, *shown])


class ClientProcess:
    """A client that runs until it is stopped. Its history is read as it grows."""

    def __init__(self, module: str, options: Options, prefix: Sequence[str]) -> None:
        self.name = options.name
        self.path = Path(options.history)
        self.path.touch()
        self._errors = self.path.with_suffix(".err")
        self._read_to = 0
        self._acknowledged: list[Acknowledged] = []
        command = [*prefix, sys.executable, "-m", f"{CLIENTS}.{module}", options.encode()]
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors
            )

    def acknowledged(self) -> Sequence[Acknowledged]:
        """All so far."""
        with self.path.open("rb") as file:
            file.seek(self._read_to)
            whole = file.read().rpartition(b"\n")[0]
        self._read_to += len(whole)
        for line in whole.splitlines():
            if b'"event": "Acknowledged"' in line:
                event = decode(line.decode())
                assert isinstance(event, Acknowledged)
                self._acknowledged.append(event)
        return self._acknowledged

    def has(self, kind: type[Event]) -> bool:
        return f'"event": "{kind.__name__}"' in self.path.read_text(encoding="utf-8")

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def errors(self) -> str:
        return self._errors.read_text(encoding="utf-8", errors="replace")[-2000:]

    def ask_to_end(self) -> None:
        self._process.terminate()

    def end(self, deadline: float) -> bool:
        """Waits for it, and kills it if it is late. False then, or if it failed."""
        try:
            code = self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            code = -1
        self.kill()
        return code == 0

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Workload:
    """Idempotent and transactional producers, a copy in transactions, and two groups.

    `acks` other than "all" gives producers without idempotence: they may lose what a broker has
    acknowledged, which the verdict has to name.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        directory: Path,
        *,
        prefix: Sequence[str] = (),
        seed: int,
        streams: bool = False,
        acks: str = "all",
    ) -> None:
        self._servers = bootstrap_servers
        self._directory = directory
        self._prefix = tuple(prefix)
        self._seed = seed
        self.acks = acks
        self._streams: WordCount | None = None
        if streams:
            self._streams = WordCount(bootstrap_servers, directory, prefix, (WORDS, COUNTS))
        self._producers: list[ClientProcess] = []
        self._copiers: list[ClientProcess] = []
        self._members: list[ClientProcess] = []
        self._anomalies: list[Anomaly] = []

    @property
    def _topics(self) -> tuple[str, ...]:
        own = (RECORDS, TRANSACTIONS, COPIES)
        return (*own, WORDS, COUNTS) if self._streams else own

    def start(self) -> None:
        """Creates the topics and starts the clients. All have written or read when it returns."""
        self._directory.mkdir(parents=True, exist_ok=True)
        topics = (*self._topics, PROBES)
        self._run("topics", self._servers, str(PARTITIONS), *topics, timeout_s=START_S)
        self._start_producers()
        for number in (1, 2):
            options = self._options(f"copier-{number}", (TRANSACTIONS,))
            options = replace(options, group=COPIERS, target=COPIES)
            self._start(self._copiers, "copier", options)
        for group, protocol in ((CLASSIC_GROUP, "classic"), (CONSUMER_GROUP, "consumer")):
            for number in (1, 2):
                options = self._options(f"{protocol}-{number}", (RECORDS, TRANSACTIONS, COPIES))
                options = replace(options, group=group, protocol=protocol)
                self._start(self._members, "member", options)
        if self._streams:
            options = replace(self._options("words", (WORDS,)), words=VOCABULARY, per_second=20)
            self._start(self._producers, "idempotent", options)
            self._streams.start()
        self._wait_until_all_work()

    def _start_producers(self) -> None:
        patient = self._options("patient", (RECORDS,))
        self._start(self._producers, "idempotent", patient)
        # It gives up records while a partition has no leader: their outcomes are unknown. Not
        # librdkafka: when it gives up a record it takes another producer epoch, and sends records
        # that were in flight again, which no broker can know.
        impatient = replace(self._options("impatient", (RECORDS,)), delivery_s=4.0)
        self._start(self._producers, "aio_kafka", impatient)
        self._start(self._producers, "kafka_python", self._options("kafka-python", (RECORDS,)))
        self._start(self._producers, "aio_kafka", self._options("aiokafka", (RECORDS,)))
        transactional = self._options("transactional", (TRANSACTIONS,))
        self._start(self._producers, "transactional", transactional)

    def _options(self, name: str, topics: tuple[str, ...]) -> Options:
        return Options(
            servers=self._servers,
            name=name,
            history=str(self._directory / f"{name}.jsonl"),
            seed=self._seed,
            topics=topics,
            partitions=PARTITIONS,
            acks=self.acks,
        )

    def _start(self, among: list[ClientProcess], module: str, options: Options) -> None:
        among.append(ClientProcess(module, options, self._prefix))

    @property
    def _clients(self) -> list[ClientProcess]:
        return [*self._producers, *self._copiers, *self._members]

    def _wait_until_all_work(self) -> None:
        deadline = time.monotonic() + START_S
        waiting: list[tuple[ClientProcess, type[Event]]] = []
        waiting += [(client, Acknowledged) for client in self._producers]
        waiting += [(client, Assigned) for client in (*self._copiers, *self._members)]
        while waiting:
            waiting = [(client, kind) for client, kind in waiting if not client.has(kind)]
            ended = [client for client in self._clients if client.has_ended]
            if ended or time.monotonic() > deadline:
                shown = [f"{each.name}: {each.errors()}" for each in ended]
                names = [client.name for client, _ in waiting]
                raise RuntimeError(f"clients do nothing: {names}; ended: {shown}")
            time.sleep(POLL_S)
        self._wait(deadline, lambda: {COPIERS, CLASSIC_GROUP, CONSUMER_GROUP} <= self._polling())

    def _polling(self) -> set[str | None]:
        return {event.group for event in self._events() if isinstance(event, Polled)}

    def acknowledged(self) -> int:
        """Records acknowledged so far, over all producers and copiers."""
        return sum(len(client.acknowledged()) for client in (*self._producers, *self._copiers))

    def acknowledged_since(self, time_s: float) -> set[Partition]:
        """The partitions of the producers' topic of which a record was acknowledged since then."""
        return {each.partition for each in self._records_acknowledged() if each.time_s > time_s}

    def longest_gap_s(self, since_s: float) -> float:
        """As that of the verdict, of the gaps that have ended since then."""
        return longest_gap_s(self._records_acknowledged(), (RECORDS,), since_s)

    def _records_acknowledged(self) -> Iterable[Acknowledged]:
        for client in self._producers:
            yield from (each for each in client.acknowledged() if each.partition.topic == RECORDS)

    def finish(self, timeout_s: float) -> Verdict:
        """After the faults were healed: ends all clients, reads everything back, and checks."""
        deadline = time.monotonic() + timeout_s
        self._note_ended()
        self._end(self._producers, deadline)
        early = self._read_back("first", deadline)
        if self._streams:
            early = self._let_streams_count(early, deadline)
        self._let_catch_up(COPIERS, (TRANSACTIONS,), early, deadline)
        self._end(self._copiers, deadline)
        final = self._read_back("last", deadline)
        for group in (CLASSIC_GROUP, CONSUMER_GROUP):
            self._let_catch_up(group, (RECORDS, TRANSACTIONS, COPIES), final, deadline)
        self._end(self._members, deadline)
        self.close()
        return self._verdict(early, final)

    def close(self) -> None:
        for client in self._clients:
            client.kill()
        if self._streams:
            self._streams.kill()

    def _run(self, module: str, *arguments: str, timeout_s: float) -> None:
        command = [*self._prefix, sys.executable, "-m", f"{CLIENTS}.{module}", *arguments]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"{module}: {done.stderr[-2000:]}")

    def _read_back(self, name: str, deadline: float) -> FinalRead:
        """Fails if transactions stay open or a partition cannot be read: nothing can be checked."""
        file = self._directory / f"{name}-read.json"
        left_s = max(READ_S, deadline - time.monotonic())
        arguments = (self._servers, str(file), str(left_s), *self._topics)
        self._run("reader", *arguments, timeout_s=left_s + START_S)
        found = json.loads(file.read_text(encoding="utf-8"))
        return FinalRead(*([Record(*each) for each in found[level]] for level in LEVELS))

    def _wait(self, deadline: float, is_so: Callable[[], bool]) -> bool:
        while not is_so():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True

    def _note_ended(self) -> None:
        """Clients go on whatever happens: none ends by itself."""
        for client in self._clients:
            if client.has_ended:
                detail = client.errors()
                self._anomalies.append(
                    Anomaly(Kind.CLIENT_ENDED, clients=(client.name,), detail=detail)
                )

    def _end(self, clients: Sequence[ClientProcess], deadline: float) -> None:
        for client in clients:
            client.ask_to_end()
        last = max(min(deadline, time.monotonic() + 2 * ENDING_S), time.monotonic() + READ_S)
        for client in clients:
            was_running = not any(client.name in each.clients for each in self._anomalies)
            if not client.end(last) and was_running:
                detail = f"did not end when it was told to: {client.errors()}"
                self._anomalies.append(Anomaly(Kind.STUCK, clients=(client.name,), detail=detail))

    def _let_catch_up(
        self, group: str, topics: Iterable[str], final: FinalRead, deadline: float
    ) -> None:
        """Until the group has committed the last records; what it missed is for the checker."""
        ends: dict[Partition, int] = {}
        for record in final.committed:
            if record.topic in topics:
                ends[record.where] = max(ends.get(record.where, 0), record.offset + 1)

        def behind() -> dict[Partition, int]:
            committed = self._committed(group)
            return {each: end for each, end in ends.items() if committed.get(each, 0) < end}

        if not self._wait(deadline, lambda: not behind()):
            committed = self._committed(group)
            for partition, end in behind().items():
                offsets = (committed.get(partition, 0), end)
                self._anomalies.append(
                    Anomaly(Kind.STUCK, (), partition, offsets, (group,), "not at the end in time")
                )

    def _let_streams_count(self, early: FinalRead, deadline: float) -> FinalRead:
        """Until as many counts are committed as there are words."""
        while time.monotonic() < deadline and _count(early, COUNTS) < _count(early, WORDS):
            early = self._read_back("first", deadline)
        return early

    def _committed(self, group: str) -> dict[Partition, int]:
        found: dict[Partition, int] = {}
        for event in self._events():
            if isinstance(event, OffsetsCommitted) and event.group == group:
                for partition, offset in event.offsets:
                    found[partition] = max(found.get(partition, 0), offset)
        return found

    def _events(self) -> list[Event]:
        return [event for client in self._clients for event in read_history(client.path)]

    def _verdict(self, early: FinalRead, final: FinalRead) -> Verdict:
        events = self._events()
        # A record that one reader saw must be there for the next one.
        now_s = time.monotonic()
        for records, is_committed in ((early.committed, True), (early.uncommitted, False)):
            own = tuple(each for each in records if each.topic != COUNTS)
            name = f"first reader ({LEVELS[0] if is_committed else LEVELS[1]})"
            events.append(
                Polled(client=name, time_s=now_s, records=own, is_read_committed=is_committed)
            )
        groups = dict.fromkeys((CLASSIC_GROUP, CONSUMER_GROUP), (RECORDS, TRANSACTIONS, COPIES))
        expected = Expectations(
            groups=groups,
            copies=[(TRANSACTIONS, COPIES)],
            counts=[(WORDS, COUNTS)] if self._streams else [],
        )
        found = [*self._anomalies, *check(events, final, expected)]
        transactions = {each.transaction for each in events if isinstance(each, Transaction)}
        return Verdict(
            anomalies=found,
            sent=sum(isinstance(event, Sent) for event in events),
            acknowledged=sum(isinstance(event, Acknowledged) for event in events),
            read=len(final.committed),
            transactions=len(transactions),
            longest_gap_s=longest_gap_s(events, (RECORDS,)),
        )


def _count(read: FinalRead, topic: str) -> int:
    return sum(record.topic == topic for record in read.committed)
