import pytest

from ottla.errors import ErrorCode
from ottla.storage.producers import transactions
from ottla.storage.producers.state import AbortedTransaction, Duplicate, ProducerStates
from tests.support.storage.batch_headers import data_batch, marker_batch
from tests.support.storage.producer_checks import (
    ABORT,
    COMMIT,
    marker_refusal,
    refusal,
    states_after,
)

# Transactions


def test_an_open_transaction_holds_readers_back_until_it_ends() -> None:
    states = states_after(
        data_batch(0, producer_id=-1, sequence=-1, count=10),
        data_batch(10, transactional=True),
        data_batch(11, sequence=1, transactional=True),
    )
    assert states.first_unstable_offset == 10
    assert states.last_stable_offset(12) == 10
    assert states.replay(marker_batch(12, epoch=1), COMMIT) is None
    assert states.first_unstable_offset is None
    assert states.last_stable_offset(13) == 13


def test_an_abort_names_the_transaction_from_first_record_to_marker() -> None:
    states = states_after(data_batch(10, count=3, transactional=True))
    assert states.replay(marker_batch(13, epoch=1), ABORT) == AbortedTransaction(7, 10, 13, 14)


def test_an_inner_abort_is_no_more_stable_than_the_outer_transaction() -> None:
    states = states_after(
        data_batch(40, producer_id=4, transactional=True),
        data_batch(41, producer_id=5, transactional=True),
    )
    inner = states.replay(marker_batch(42, producer_id=5, epoch=1), ABORT)
    assert inner == AbortedTransaction(5, 41, 42, 40)
    outer = states.replay(marker_batch(43, producer_id=4, epoch=1), ABORT)
    assert outer == AbortedTransaction(4, 40, 43, 44)


def test_an_abort_without_records_aborts_nothing() -> None:
    states = ProducerStates()
    assert states.replay(marker_batch(0, epoch=1), ABORT) is None
    assert states.get(7) is not None


def test_a_marker_that_is_not_replicated_yet_still_holds_readers_back() -> None:
    states = states_after(data_batch(10, count=3, transactional=True))
    states.replay(marker_batch(13, epoch=1), COMMIT)
    assert states.last_stable_offset(12) == 10
    assert states.last_stable_offset(13) == 10
    assert states.last_stable_offset(14) == 14


def test_stable_never_means_past_the_high_watermark() -> None:
    states = states_after(data_batch(10, transactional=True))
    assert states.last_stable_offset(5) == 5


def test_unreplicated_markers_are_merged_beyond_a_bound_and_stay_safe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transactions, "UNREPLICATED_MAX", 3)
    states = ProducerStates()
    for epoch in range(10):
        states.replay(data_batch(2 * epoch, epoch=epoch, transactional=True))
        states.replay(marker_batch(2 * epoch + 1, epoch=epoch + 1), COMMIT)
    assert states.last_stable_offset(5) == 0
    assert states.last_stable_offset(15) == 0
    assert states.last_stable_offset(16) == 16


def test_after_a_marker_that_bumps_the_epoch_sequences_begin_at_zero() -> None:
    states = states_after(data_batch(0, count=3, transactional=True))
    states.replay(marker_batch(3, epoch=1), COMMIT)
    assert refusal(states, data_batch(epoch=1, sequence=0, transactional=True)) is None
    late = data_batch(epoch=1, sequence=3, transactional=True)
    assert refusal(states, late) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    old = data_batch(epoch=0, sequence=3, transactional=True)
    assert refusal(states, old) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_after_a_marker_of_the_same_epoch_sequences_go_on() -> None:
    states = states_after(data_batch(0, count=3, transactional=True))
    states.replay(marker_batch(3, epoch=0), COMMIT)
    assert refusal(states, data_batch(epoch=0, sequence=3, transactional=True)) is None
    assert states.check(data_batch(0, count=3), from_client=True) == Duplicate(0, 2, 1_000)


def test_a_plain_batch_amid_a_transaction_is_refused() -> None:
    states = states_after(data_batch(0, transactional=True))
    assert refusal(states, data_batch(sequence=1)) is ErrorCode.INVALID_TXN_STATE


# Markers


def test_a_marker_of_a_coordinator_out_of_office_is_fenced() -> None:
    states = states_after(data_batch(0, transactional=True))
    states.replay(marker_batch(1, epoch=1), COMMIT._replace(coordinator_epoch=5))
    older = ABORT._replace(coordinator_epoch=4)
    fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert marker_refusal(states, marker_batch(2, epoch=2), older) is fenced
    assert (
        marker_refusal(states, marker_batch(2, epoch=2), ABORT._replace(coordinator_epoch=5))
        is None
    )


def test_a_marker_of_an_old_epoch_is_refused() -> None:
    states = states_after(data_batch(0, epoch=3, transactional=True))
    for version in (0, 1, 2):
        found = marker_refusal(states, marker_batch(1, epoch=2), ABORT, version)
        assert found is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_late_marker_cannot_end_the_transaction_after_its_own() -> None:
    """KIP-890: the marker of epoch 3 ended epoch 2's transaction; it may not end epoch 3's."""
    states = states_after(data_batch(0, epoch=3, transactional=True))
    late = marker_batch(1, epoch=3)
    assert marker_refusal(states, late, ABORT, 2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert marker_refusal(states, late, ABORT, 1) is None
    assert marker_refusal(states, marker_batch(1, epoch=4), ABORT, 2) is None


def test_a_repeated_marker_is_taken_while_no_transaction_is_open() -> None:
    states = states_after(data_batch(0, epoch=3, transactional=True))
    states.replay(marker_batch(1, epoch=4), ABORT)
    assert marker_refusal(states, marker_batch(2, epoch=4), ABORT, 2) is None
    assert states.replay(marker_batch(2, epoch=4), ABORT) is None


def test_a_marker_for_an_unknown_producer_is_taken() -> None:
    assert marker_refusal(ProducerStates(), marker_batch(0, epoch=3), ABORT) is None
