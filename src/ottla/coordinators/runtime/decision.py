"""What a coordinator's state machine decides: records, answers and timers. It does no I/O.

The runtime acts on it in this order: the records are appended and replayed, timers are set, and
once the records are committed the answers are given.
"""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ottla.coordinators.group.records import Record


class Answered(NamedTuple):
    """An answer that somebody waits for.

    `ticket` is what the caller gave with its request; `response` is a protocol message, a part of
    one, or a PeerError that the one who waits is refused with.
    """

    ticket: Hashable
    response: Any


class TimerSet(NamedTuple):
    """When `expired` is called with the key; a new time takes the place of the old one.

    Keys are unique in a shard and name the group second: "session/GROUP/MEMBER",
    "rebalance/GROUP". A time of None cancels.
    """

    key: str
    due_ms: int | None


class Decision(NamedTuple):
    """What is to be done, all of it or nothing."""

    records: tuple["Record", ...] = ()
    answers: tuple[Answered, ...] = ()
    timers: tuple[TimerSet, ...] = ()


NOTHING = Decision()
