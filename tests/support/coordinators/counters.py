"""A small coordinator for tests of the runtime: a counter per key, whose changes are announced.

An announcement stands for the actions of a transaction coordinator outside of its log: it is an
effect, performed once the count is committed, and repeated after a load until it is acknowledged.
"""

from collections.abc import Hashable, Iterator
from typing import NamedTuple

from ottla.coordinators.runtime.decision import NOTHING, Answered, Decision, TimerSet
from ottla.coordinators.runtime.machine import WithoutTransactions
from ottla.errors import StorageError

COUNTERS_TOPIC = "__counters"
IDLE_MS = 60_000


class Counted(NamedTuple):
    """The new value of a counter; a count of None removes it."""

    key: str
    count: int | None
    is_announced: bool = False
    note: str = ""


class Announce(NamedTuple):
    """An effect: another part is told a count."""

    key: str
    count: int


CounterDecision = Decision[Counted, Announce]


def encode(record: Counted) -> tuple[bytes, bytes | None]:
    key = f"counter/{record.key}".encode()
    if record.count is None:
        return key, None
    return key, f"{record.count}/{record.is_announced:d}/{record.note}".encode()


def decode(key: bytes, value: bytes | None) -> Counted | None:
    kind, _, name = key.decode().partition("/")
    if kind != "counter":
        return None
    if value is None:
        return Counted(name, None)
    try:
        count, is_announced, note = value.decode().split("/", 2)
        return Counted(name, int(count), is_announced == "1", note)
    except ValueError:
        raise StorageError("not a counter") from None


class Counters(WithoutTransactions[Counted]):
    """All counters of a shard. A counter that is not changed for a minute is removed."""

    encode = staticmethod(encode)
    decode = staticmethod(decode)

    def __init__(self) -> None:
        self.counters: dict[str, Counted] = {}

    def count(self, key: str) -> int:
        counter = self.counters.get(key)
        return 0 if counter is None else counter.count or 0

    def add(self, key: str, ticket: Hashable, now_ms: int) -> CounterDecision:
        """Counts, announces it, and answers with the new count."""
        count = self.count(key) + 1
        return Decision(
            (Counted(key, count),),
            (Answered(ticket, count),),
            (_idle(key, now_ms),),
            (Announce(key, count),),
        )

    def announced(self, announcement: Announce, _now_ms: int) -> CounterDecision:
        """An announcement was made: it need not be repeated."""
        if self.count(announcement.key) != announcement.count:
            return NOTHING
        return Decision((Counted(announcement.key, announcement.count, is_announced=True),))

    def replay(self, record: Counted) -> None:
        if record.count is None:
            self.counters.pop(record.key, None)
        else:
            self.counters[record.key] = record

    def loaded(self, now_ms: int) -> Iterator[CounterDecision]:
        for key, count, is_announced, _ in list(self.counters.values()):
            effects = () if is_announced else (Announce(key, count or 0),)
            yield Decision(timers=(_idle(key, now_ms),), effects=effects)

    def timer_expired(self, timer_key: str, _now_ms: int) -> CounterDecision:
        _, _, key = timer_key.partition("/")
        return Decision((Counted(key, None),))


def _idle(key: str, now_ms: int) -> TimerSet:
    return TimerSet(f"idle/{key}", now_ms + IDLE_MS)
