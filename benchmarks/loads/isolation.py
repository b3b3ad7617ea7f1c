"""Fetches of committed and after aborted transactions, with either isolation level."""

from typing import Protocol

from benchmarks.loads import rdkafka
from benchmarks.loads.coordinator import await_transaction_coordinator
from benchmarks.loads.generators import MIB, generate
from benchmarks.peers.peer import Peer
from benchmarks.row import Ran, Scope

READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
TRANSACTION_VERSION = 2
# Brokers that complete transactions in the background reach their rate with many producers only.
PRODUCERS = 50
COMMITTED_RECORDS, COMMITTED_RECORD_BYTES = 100, 1000
ABORTED_RECORD_BYTES = 100
# Plain records after the aborted ones: more than a fetch at the end returns, in small batches.
TAIL_RECORDS, TAIL_RECORD_BYTES = 1000, 1024
TAIL_FETCH_BYTES = 1 << 16

_filled: set[tuple[str, str]] = set()


class FilledTopic(Protocol):
    """A topic of one partition that is filled once, and shared by all loads."""

    def fill(self, peer: Peer, scope: Scope) -> str: ...


class CommittedTopic:
    """Committed transactions of 100 records of 1,000 B; deleted with the broker."""

    def __init__(self, *, transactions: int) -> None:
        self.transactions = transactions

    def fill(self, peer: Peer, scope: Scope) -> str:
        count = scope.count(self.transactions)
        name = f"bench-committed-{count}"
        if _is_new(peer, name):
            size = (COMMITTED_RECORDS, COMMITTED_RECORD_BYTES)
            _write(peer, name, *size, "commit", count)
        return name


class AbortedTopic:
    """Aborted transactions of one record, then plain records; deleted with the broker."""

    def __init__(self, *, transactions: int) -> None:
        self.transactions = transactions

    def fill(self, peer: Peer, scope: Scope) -> str:
        count = scope.count(self.transactions)
        name = f"bench-aborted-{count}"
        if _is_new(peer, name):
            _write(peer, name, 1, ABORTED_RECORD_BYTES, "abort", count)
            rdkafka.produce(peer, name, count=TAIL_RECORDS, size=TAIL_RECORD_BYTES)
        return name


def _is_new(peer: Peer, topic: str) -> bool:
    """Creates the topic if no load has done so."""
    if (peer.address, topic) in _filled:
        return False
    await_transaction_coordinator(peer)
    peer.create_topic(topic, 1)
    peer.await_served(topic, 1)
    _filled.add((peer.address, topic))
    return True


def _write(
    peer: Peer, topic: str, records: int, record_bytes: int, end: str, transactions: int
) -> None:
    load = (topic, 1, PRODUCERS, topic, TRANSACTION_VERSION, records, record_bytes, end)
    generate("transactions", peer, *load, "count", transactions)


class _Fetches:
    """A client that decodes nothing; the topic stays, since other rows read it too."""

    def __init__(self, filled: FilledTopic, isolation: str) -> None:
        self.filled, self.isolation = filled, isolation
        self.topic = ""

    def prepare(self, peer: Peer, scope: Scope) -> None:
        self.topic = self.filled.fill(peer, scope)

    def finish(self, peer: Peer) -> None:
        pass

    def fetch(self, peer: Peer, bytes_max: int, where: str, count: float) -> dict[str, float]:
        load = (self.topic, 0, bytes_max, where, count, self.isolation)
        return generate("fetch", peer, *load)


class Scan(_Fetches):
    """A topic read from its start to its end several times, 1 MiB per request."""

    def __init__(self, filled: FilledTopic, isolation: str, *, times: int) -> None:
        super().__init__(filled, isolation)
        self.times = times

    def run(self, peer: Peer, scope: Scope) -> Ran:  # noqa: ARG002 - the topic is scaled
        said = [self.fetch(peer, MIB, "scan", 1_000_000) for _ in range(self.times)]
        payload_bytes = sum(each["bytes"] for each in said)
        mb_s = payload_bytes / sum(each["seconds"] for each in said) / 1e6
        return Ran(figures={"mb_s": mb_s}, payload_bytes=payload_bytes)


class TailFetches(_Fetches):
    """Fetches near the end, 64 KiB each, and one scan of the whole topic."""

    def __init__(self, filled: FilledTopic, isolation: str, *, seconds: float) -> None:
        super().__init__(filled, isolation)
        self.seconds = seconds

    def run(self, peer: Peer, scope: Scope) -> Ran:
        tail = self.fetch(peer, TAIL_FETCH_BYTES, "tail", scope.seconds(self.seconds))
        scan = self.fetch(peer, MIB, "scan", 1_000_000)
        figures = {"rate": tail["rate"], "p99_us": tail["p99_us"], "scan_mb_s": scan["mb_s"]}
        return Ran(figures=figures, requests=tail["fetches"] + scan["fetches"])
