"""The states of a transactional id as tables: its transitions, and the answers to EndTxn.

Kafka's PrepareEpochFence is never stored: a fence is an abort by the coordinator, with the producer
epoch bumped in the same record.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

from ottla.errors import ErrorCode
from ottla.protocol.batch import MarkerKind


class TransactionState(IntEnum):
    """The numbers are those of `__transaction_state`."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def kafka_name(self) -> str:
        """The name in the responses to DescribeTransactions and ListTransactions."""
        return "".join(word.capitalize() for word in self.name.split("_"))


_EMPTY, _ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
_PREPARE_COMMIT, _PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
_COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
_COMPLETE_ABORT = TransactionState.COMPLETE_ABORT

STATES_BY_NAME: Mapping[str, TransactionState] = MappingProxyType(
    {state.kafka_name: state for state in TransactionState}
)

# The transaction is decided; its markers are being written.
PREPARED = frozenset({_PREPARE_COMMIT, _PREPARE_ABORT})
# No transaction is open, and the id expires if it is not used.
IDLE = frozenset({_EMPTY, _COMPLETE_COMMIT, _COMPLETE_ABORT})

PREPARE: Mapping[MarkerKind, TransactionState] = MappingProxyType(
    {MarkerKind.COMMIT: _PREPARE_COMMIT, MarkerKind.ABORT: _PREPARE_ABORT}
)
COMPLETE: Mapping[TransactionState, TransactionState] = MappingProxyType(
    {_PREPARE_COMMIT: _COMPLETE_COMMIT, _PREPARE_ABORT: _COMPLETE_ABORT}
)
MARKERS: Mapping[TransactionState, MarkerKind] = MappingProxyType(
    {_PREPARE_COMMIT: MarkerKind.COMMIT, _PREPARE_ABORT: MarkerKind.ABORT}
)


class Transition(NamedTuple):
    """One transition of the state machine."""

    before: TransactionState
    event: str
    after: TransactionState


_INIT = "InitProducerId"
_ADD = "a partition or a group's offsets are added"
_FENCE = "InitProducerId of another producer, or the timeout: the epoch is bumped"
_ABORT_NOTHING = "EndTxn v5 aborts a transaction without partitions"
_WRITTEN = "all markers are written"

TRANSITIONS = (
    *(Transition(state, _INIT, _EMPTY) for state in sorted(IDLE)),
    *(Transition(state, _ADD, _ONGOING) for state in sorted(IDLE)),
    Transition(_ONGOING, _ADD, _ONGOING),
    Transition(_ONGOING, "EndTxn commits", _PREPARE_COMMIT),
    Transition(_ONGOING, "EndTxn aborts", _PREPARE_ABORT),
    Transition(_ONGOING, _FENCE, _PREPARE_ABORT),
    *(Transition(state, _ABORT_NOTHING, _PREPARE_ABORT) for state in sorted(IDLE)),
    Transition(_PREPARE_COMMIT, _WRITTEN, _COMPLETE_COMMIT),
    Transition(_PREPARE_ABORT, _WRITTEN, _COMPLETE_ABORT),
)


class EndOutcome(IntEnum):
    """The outcome of an EndTxn with an accepted producer id and epoch."""

    PREPARES = 0  # the transaction ends
    IS_REPEATED = 1  # it has ended that way before
    IS_CONCURRENT = 2  # CONCURRENT_TRANSACTIONS
    IS_INVALID = 3  # INVALID_TXN_STATE


END_CODES: Mapping[EndOutcome, ErrorCode] = MappingProxyType(
    {
        EndOutcome.PREPARES: ErrorCode.NONE,
        EndOutcome.IS_REPEATED: ErrorCode.NONE,
        EndOutcome.IS_CONCURRENT: ErrorCode.CONCURRENT_TRANSACTIONS,
        EndOutcome.IS_INVALID: ErrorCode.INVALID_TXN_STATE,
    }
)

_PREPARES, _IS_REPEATED = EndOutcome.PREPARES, EndOutcome.IS_REPEATED
_IS_CONCURRENT, _IS_INVALID = EndOutcome.IS_CONCURRENT, EndOutcome.IS_INVALID


class EndRule(NamedTuple):
    """The outcomes of a commit and of an abort."""

    commit: EndOutcome
    abort: EndOutcome

    def of(self, kind: MarkerKind) -> EndOutcome:
        return self.commit if kind is MarkerKind.COMMIT else self.abort


# EndTxn below v5 (transaction.version 0 and 1), at the current epoch. Any other epoch is fenced.
END_AT_CURRENT_EPOCH: Mapping[TransactionState, EndRule] = MappingProxyType(
    {
        _EMPTY: EndRule(_IS_INVALID, _IS_INVALID),
        _ONGOING: EndRule(_PREPARES, _PREPARES),
        _PREPARE_COMMIT: EndRule(_IS_CONCURRENT, _IS_INVALID),
        _PREPARE_ABORT: EndRule(_IS_INVALID, _IS_CONCURRENT),
        _COMPLETE_COMMIT: EndRule(_IS_REPEATED, _IS_INVALID),
        _COMPLETE_ABORT: EndRule(_IS_INVALID, _IS_REPEATED),
    }
)
# EndTxn v5 (transaction.version 2) at the current epoch. In a prepared state that epoch is the one
# that the answer to the first EndTxn carried: the producer is already in its next transaction.
END_AND_BUMP: Mapping[TransactionState, EndRule] = MappingProxyType(
    {
        _EMPTY: EndRule(_IS_INVALID, _PREPARES),
        _ONGOING: EndRule(_PREPARES, _PREPARES),
        _PREPARE_COMMIT: EndRule(_IS_CONCURRENT, _IS_CONCURRENT),
        _PREPARE_ABORT: EndRule(_IS_CONCURRENT, _IS_CONCURRENT),
        _COMPLETE_COMMIT: EndRule(_IS_INVALID, _PREPARES),
        _COMPLETE_ABORT: EndRule(_IS_INVALID, _PREPARES),
    }
)
# EndTxn v5 at the epoch before the current one: a retry. In other states it is fenced.
END_RETRIED: Mapping[TransactionState, EndRule] = MappingProxyType(
    {
        _PREPARE_COMMIT: EndRule(_IS_CONCURRENT, _IS_INVALID),
        _PREPARE_ABORT: EndRule(_IS_INVALID, _IS_CONCURRENT),
        _COMPLETE_COMMIT: EndRule(_IS_REPEATED, _IS_INVALID),
        _COMPLETE_ABORT: EndRule(_IS_INVALID, _IS_REPEATED),
    }
)
