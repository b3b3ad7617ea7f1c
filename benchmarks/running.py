"""Runs rows: both sides alternate; only the runs are measured."""

import contextlib
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from confluent_kafka import KafkaException

from benchmarks import measuring
from benchmarks.cache import ToolMissing
from benchmarks.loads import java, rdkafka
from benchmarks.loads.generators import EndToEnd, RawFetch, SmallProduces
from benchmarks.loads.groups import ClassicMembers, Commits, ConsumerMembers
from benchmarks.loads.transactions import Transactions
from benchmarks.peers.peer import BrokerFailed, Peer
from benchmarks.results import Result, Side
from benchmarks.row import Load, LoadFailed, Row, Scope

TROUBLE_CHARACTERS_MAX = 200
# These failures end a row, but not the others.
FAILURES = (LoadFailed, ToolMissing, BrokerFailed, KafkaException, OSError)


@dataclass(frozen=True, slots=True)
class Contest:
    """The two brokers, the number of runs per row, and the scale."""

    kafka: Peer
    ours: Peer
    runs: int
    scale: float
    is_short: bool

    def scope(self, row: Row) -> Scope:
        return Scope(self.scale * (row.short_share if self.is_short else 1))


@dataclass(slots=True)
class Progress:
    """Reports the current row and an estimate of the remaining time."""

    total: int
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    done: int = 0
    began: float = field(init=False)
    row_began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.row_began = self.clock()

    def begin(self, row: Row) -> None:
        self.row_began = self.clock()
        left = "time left not known yet"
        if self.done:
            seconds = (self.clock() - self.began) / self.done * (self.total - self.done)
            left = f"about {seconds / 60:.0f} min left" if seconds > 90 else f"{seconds:.0f} s left"
        self.say(f"row {self.done + 1} of {self.total}, {left}: {row.group}: {row.name}")

    def end(self) -> None:
        self.done += 1
        self.say(f"  took {self.clock() - self.row_began:.0f} s")


def run_rows(
    rows: Sequence[Row],
    contest: Contest,
    say: Callable[[str], None],
    keep: Callable[[Result], None] = lambda _: None,
) -> list[Result]:
    """Runs all rows; a row that fails is reported and does not end the others.

    `keep` gets each result at once, so that a run that is ended early has not been in vain.
    """
    progress = Progress(len(rows), say)
    results = []
    for row in rows:
        progress.begin(row)
        results.append(result := run_row(row, contest))
        if result.trouble:
            say(f"  no figure: {result.trouble}")
        progress.end()
        keep(result)
    return results


def run_row(row: Row, contest: Contest) -> Result:
    scope = contest.scope(row)
    result = Result(row, share=scope.scale)
    base_peer = contest.ours if row.base else contest.kafka
    sides = (
        (result.base, base_peer, row.base or row.load),
        (result.ours, contest.ours, row.load),
    )
    with contextlib.ExitStack() as cleaning:
        try:
            for _, peer, load in sides:
                cleaning.callback(_finish, load, peer)
                load.prepare(peer, scope)
            for _ in range(contest.runs):
                for side, peer, load in sides:
                    _measure(side, peer, load, scope)
        except FAILURES as error:
            words = " ".join(str(error).split())[-TROUBLE_CHARACTERS_MAX:]
            result.trouble = f"{type(error).__name__}: {words}"
    return result


def _measure(side: Side, peer: Peer, load: Load, scope: Scope) -> None:
    before = measuring.cpu_s(*peer.pids)
    ran = load.run(peer, scope)
    side.cpu_s.append(measuring.cpu_s(*peer.pids) - before)
    side.runs.append(ran)


def _finish(load: Load, peer: Peer) -> None:
    # A topic that was not created cannot be deleted either; the row has already reported it.
    with contextlib.suppress(Exception):
        load.finish(peer)


def warm_up(peer: Peer, seconds: float, loads: Sequence[Load]) -> set[str]:
    """Runs small versions of the kinds of load repeatedly: a cold JVM is 2 to 5 times slower.

    Returns errors: missing tools and failed loads. They do not stop the benchmark.
    """
    scope, wrong, deadline = Scope(1.0), set(), time.monotonic() + seconds
    with contextlib.ExitStack() as cleaning:
        usable = []
        for load in loads:
            cleaning.callback(_finish, load, peer)
            try:
                load.prepare(peer, scope)
                usable.append(load)
            except (ToolMissing, LoadFailed) as error:
                wrong.add(str(error))
        for turn, load in enumerate(itertools.cycle(usable)):
            # Each load runs at least once.
            if time.monotonic() > deadline and turn >= len(usable):
                break
            try:
                load.run(peer, scope)
            except (ToolMissing, LoadFailed) as error:
                wrong.add(str(error))
    return wrong


def warming_loads() -> tuple[Load, ...]:
    """For one broker: all kinds of load."""
    idempotent = (*rdkafka.BATCH_16_KB, "enable.idempotence=true")
    return (
        rdkafka.Produce(
            count=300_000, size=100, partitions=1, acks=1, settings=rdkafka.BATCH_16_KB
        ),
        rdkafka.Produce(count=50_000, size=1024, partitions=6, acks=-1, settings=idempotent),
        rdkafka.Fetch(count=300_000, size=100),
        java.Produce(count=100_000, size=1024, partitions=6, settings=("acks=all",)),
        SmallProduces(connections=10, seconds=2),
        RawFetch(megabytes=100),
        EndToEnd(rate=1000, seconds=1),
        ClassicMembers(members=20),
        ConsumerMembers(members=20),
        Commits(members=20, seconds=1),
        Transactions(producers=10, seconds=1, has_offsets=True),
    )


def cluster_warming_loads() -> tuple[Load, ...]:
    """For three brokers: both clients, with few and with many records per batch."""
    idempotent = (*rdkafka.BATCH_16_KB, "enable.idempotence=true")
    acks_all = ("acks=all", "enable.idempotence=true")
    return (
        rdkafka.Produce(count=100_000, size=1024, partitions=1, acks=-1, settings=idempotent),
        java.Produce(count=100_000, size=1024, partitions=6, settings=acks_all),
        java.Produce(count=300_000, size=100, partitions=6, settings=acks_all),
    )
