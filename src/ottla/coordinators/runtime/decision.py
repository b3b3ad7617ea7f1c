"""A decision of a coordinator's state machine: records, answers, timers and effects.

A machine decides and does no I/O. The runtime carries a decision out in this order:

1. The records are replayed at once, so that later decisions see them, and the timers are set.
2. The records of all decisions of one turn of the loop are appended as one batch at its end.
3. Once that batch is committed, the answers are given and the effects are performed.

If the batch cannot be appended, the shard is closed: those who wait are told NOT_COORDINATOR, no
effect is performed, and a new machine is loaded from the log.
"""

from collections.abc import Hashable
from typing import Any, Generic, NamedTuple, Never, TypeVar

RecordT_co = TypeVar("RecordT_co", covariant=True)
EffectT_co = TypeVar("EffectT_co", covariant=True)


class Answered(NamedTuple):
    """An answer that somebody waits for.

    `ticket` is what the caller gave with its request; `response` is a protocol message, a part of
    one, or a PeerError that the one who waits is refused with.
    """

    ticket: Hashable
    response: Any


class TimerSet(NamedTuple):
    """When `expired` is called with the key; a new time takes the place of the old one.

    Keys are unique in a shard. A time of None cancels.
    """

    key: str
    due_ms: int | None


class Decision(NamedTuple, Generic[RecordT_co, EffectT_co]):
    """What is to be done, all of it or nothing."""

    records: tuple[RecordT_co, ...] = ()
    answers: tuple[Answered, ...] = ()
    timers: tuple[TimerSet, ...] = ()
    # Actions outside of the log, in order: for example requests to other brokers. They do not last.
    # A machine that needs one repeated after a load decides it again when it is loaded.
    effects: tuple[EffectT_co, ...] = ()


NOTHING: Decision[Never, Never] = Decision()
