"""The tables of the transaction coordinator, against its decisions in every state."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from ottla.coordinators.txn.states import (
    END_AND_BUMP,
    END_AT_CURRENT_EPOCH,
    END_CODES,
    END_RETRIED,
    TRANSITIONS,
    EndOutcome,
    TransactionState,
)
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.batch import MarkerKind
from ottla.protocol.producer_epoch import ProducerIdAndEpoch
from tests.support.coordinators.transactions import ABORT, COMMIT, T0, T1, Stage

S = TransactionState
LIVE = (
    S.EMPTY,
    S.ONGOING,
    S.PREPARE_COMMIT,
    S.PREPARE_ABORT,
    S.COMPLETE_COMMIT,
    S.COMPLETE_ABORT,
)
NONE, INVALID = ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE
BUSY, FENCED = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.PRODUCER_FENCED

# Kafka's codes: commit and abort at the epoch before the current one, at it, and after it.
VERSION_0 = {
    S.EMPTY: ((FENCED, FENCED), (INVALID, INVALID), (FENCED, FENCED)),
    S.ONGOING: ((FENCED, FENCED), (NONE, NONE), (FENCED, FENCED)),
    S.PREPARE_COMMIT: ((FENCED, FENCED), (BUSY, INVALID), (FENCED, FENCED)),
    S.PREPARE_ABORT: ((FENCED, FENCED), (INVALID, BUSY), (FENCED, FENCED)),
    S.COMPLETE_COMMIT: ((FENCED, FENCED), (NONE, INVALID), (FENCED, FENCED)),
    S.COMPLETE_ABORT: ((FENCED, FENCED), (INVALID, NONE), (FENCED, FENCED)),
}
VERSION_2 = {
    S.EMPTY: ((FENCED, FENCED), (INVALID, NONE), (FENCED, FENCED)),
    S.ONGOING: ((FENCED, FENCED), (NONE, NONE), (FENCED, FENCED)),
    S.PREPARE_COMMIT: ((BUSY, INVALID), (BUSY, BUSY), (FENCED, FENCED)),
    S.PREPARE_ABORT: ((INVALID, BUSY), (BUSY, BUSY), (FENCED, FENCED)),
    S.COMPLETE_COMMIT: ((NONE, INVALID), (INVALID, NONE), (FENCED, FENCED)),
    S.COMPLETE_ABORT: ((INVALID, NONE), (INVALID, NONE), (FENCED, FENCED)),
}


def in_state(state: TransactionState, client_version: int = 0) -> Stage:
    """A transactional id in this state, at epoch 5, by a client of this version."""
    stage = Stage()
    stage.init()
    partitions = frozenset({T0}) if state in (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT) else ()
    stage.machine.replay(
        stage.of()._replace(
            state=state,
            producer_epoch=5,
            partitions=frozenset(partitions),
            client_version=client_version,
        )
    )
    return stage


@pytest.mark.parametrize("client_version", [0, 2])
@pytest.mark.parametrize("state", LIVE, ids=lambda state: state.kafka_name)
def test_end_txn_answers_as_kafka_in_every_state(
    state: TransactionState, client_version: int
) -> None:
    table = VERSION_2 if client_version == 2 else VERSION_0
    for epoch, codes in zip((4, 5, 6), table[state], strict=True):
        for kind, code in zip((COMMIT, ABORT), codes, strict=True):
            assert _answer(state, epoch, kind, client_version) is code, (epoch, kind)


def _answer(
    state: TransactionState, epoch: int, kind: MarkerKind, client_version: int
) -> ErrorCode:
    stage = in_state(state, client_version)
    producer = ProducerIdAndEpoch(stage.of().producer_id, epoch)
    try:
        stage.end(producer, kind, client_version=client_version)
    except PeerError as error:
        return error.code
    return NONE


def test_every_state_has_its_rules() -> None:
    assert set(END_AT_CURRENT_EPOCH) == set(END_AND_BUMP) == set(LIVE)
    assert set(END_RETRIED) < set(LIVE)
    assert set(END_CODES) == set(EndOutcome)


def load_and_write_markers(stage: Stage, _: ProducerIdAndEpoch) -> None:
    for decision in stage.machine.loaded(stage.now_ms):
        stage.carry_out(decision)
    stage.write_markers()


def exceed_timeout(stage: Stage, _: ProducerIdAndEpoch) -> None:
    stage.carry_out(stage.machine.timer_expired("timeout/id", stage.now_ms))


ACTS: tuple[Callable[[Stage, ProducerIdAndEpoch], object], ...] = (
    lambda stage, _: stage.init(),
    lambda stage, producer: stage.add(producer, T1),
    lambda stage, producer: stage.end(producer, COMMIT),
    lambda stage, producer: stage.end(producer, ABORT),
    lambda stage, producer: stage.end(producer, ABORT, client_version=2),
    exceed_timeout,
    load_and_write_markers,
)


def test_the_table_of_transitions_has_every_change_of_state_and_no_other() -> None:
    seen = set()
    for state in LIVE:
        for act in ACTS:
            stage = in_state(state)
            before = stage.of()
            with suppress(PeerError):
                act(stage, ProducerIdAndEpoch(before.producer_id, before.producer_epoch))
            if stage.of() != before:
                seen.add((state, stage.of().state))
    assert seen == {(each.before, each.after) for each in TRANSITIONS}


def test_names_are_kafkas() -> None:
    assert [state.kafka_name for state in S] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
