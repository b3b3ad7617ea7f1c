"""A decision of a coordinator's state machine: records, answers, timers and effects.

A state machine decides and does no I/O. The runtime carries out a decision in this order:

1. The records are replayed at once, so that later decisions see them, and the timers are set.
2. The records of all decisions of one turn of the loop are appended as one batch at its end.
3. Once that batch is committed, the answers are given and the effects are performed.

If the batch cannot be appended, the shard is closed: waiting requests are answered with
NOT_COORDINATOR, no effect is performed, and a new state machine is loaded from the log.

The records of a transaction are appended first, as a batch of their own, and then replayed as
pending. If the log refuses that batch, the decision is refused and nothing of it is carried out.
"""

from collections.abc import Hashable
from typing import Any, Generic, NamedTuple, Never, TypeVar

from ottla.protocol.producer_epoch import ProducerIdAndEpoch

RecordT_co = TypeVar("RecordT_co", covariant=True)
EffectT_co = TypeVar("EffectT_co", covariant=True)


class Answered(NamedTuple):
    """The answer to a waiting request.

    `ticket` identifies the request; `response` is a protocol message, a part of one, or the
    PeerError with which the request is refused.
    """

    ticket: Hashable
    response: Any


class TimerSet(NamedTuple):
    """Sets the timer of this key to a time, instead of its previous time; None cancels the timer.

    `timer_expired` is called with the key when it is due. Keys are unique in a shard.
    """

    key: str
    due_ms: int | None


class Decision(NamedTuple, Generic[RecordT_co, EffectT_co]):
    """All of it is carried out, or nothing."""

    records: tuple[RecordT_co, ...] = ()
    answers: tuple[Answered, ...] = ()
    timers: tuple[TimerSet, ...] = ()
    # Actions outside of the log, in order: for example requests to other brokers. They are not
    # stored: a state machine that needs one repeated after a load decides it again in `loaded`.
    effects: tuple[EffectT_co, ...] = ()
    # The records belong to the transaction of this producer: they are a batch of their own, and
    # take effect if the transaction is committed. None: they take effect now.
    transaction: ProducerIdAndEpoch | None = None


NOTHING: Decision[Never, Never] = Decision()
