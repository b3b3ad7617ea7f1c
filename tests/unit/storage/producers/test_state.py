import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.storage.producers.entry import SEQUENCE_MAX
from ottla.storage.producers.state import AbortedTransaction, Duplicate, ProducerStates
from tests.support.storage.batch_headers import data_batch, emptied, marker_batch
from tests.support.storage.producer_checks import (
    ABORT,
    DAY_MS,
    marker_refusal,
    refusal,
    states_after,
)

# Idempotence


def test_batches_without_a_producer_leave_no_trace() -> None:
    states = states_after(data_batch(0, producer_id=-1, sequence=-1, count=5))
    assert states.check(data_batch(producer_id=-1, sequence=-1), from_client=True) is None
    assert len(states) == 0
    assert states.map_end_offset == 5


def test_an_unknown_producer_may_begin_anywhere() -> None:
    assert refusal(ProducerStates(), data_batch(sequence=12345)) is None


def test_the_next_sequence_is_taken_and_a_gap_is_refused() -> None:
    states = states_after(data_batch(0, count=3, sequence=0))
    assert refusal(states, data_batch(sequence=3)) is None
    assert refusal(states, data_batch(sequence=4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(states, data_batch(sequence=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_retry_learns_where_the_first_try_went() -> None:
    states = states_after(data_batch(40, count=3, sequence=0, timestamp_ms=99))
    retry = data_batch(0, count=3, sequence=0, timestamp_ms=99)
    assert states.check(retry, from_client=True) == Duplicate(40, 42, 99)


def test_only_an_exact_repetition_is_a_duplicate() -> None:
    states = states_after(data_batch(40, count=3, sequence=0))
    for sequence, count in ((0, 2), (0, 4), (1, 2), (1, 3)):
        repeated = data_batch(sequence=sequence, count=count)
        assert refusal(states, repeated) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_five_batches_are_remembered_and_the_sixth_is_not() -> None:
    states = states_after(*(data_batch(index, sequence=index) for index in range(6)))
    for index in range(1, 6):
        repeated = states.check(data_batch(sequence=index), from_client=True)
        assert repeated == Duplicate(index, index, 1_000)
    assert refusal(states, data_batch(sequence=0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_to_zero_behind_the_largest() -> None:
    wrapping = data_batch(0, count=4, sequence=SEQUENCE_MAX - 1)
    states = states_after(wrapping)
    assert refusal(states, data_batch(sequence=2)) is None
    assert states.check(wrapping, from_client=True) == Duplicate(0, 3, 1_000)
    states = states_after(data_batch(0, count=2, sequence=SEQUENCE_MAX - 1))
    assert refusal(states, data_batch(sequence=0)) is None
    assert refusal(states, data_batch(sequence=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_begins_at_sequence_zero() -> None:
    states = states_after(data_batch(0, epoch=3, sequence=8))
    assert refusal(states, data_batch(epoch=4, sequence=0)) is None
    late = data_batch(epoch=4, sequence=9)
    assert refusal(states, late) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_old_epoch_is_fenced_even_with_a_batch_that_once_was_taken() -> None:
    states = states_after(data_batch(0, epoch=3), data_batch(1, epoch=4))
    assert refusal(states, data_batch(epoch=3)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(states, data_batch(epoch=3, sequence=1)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_coordinators_batches_have_no_sequence_to_check() -> None:
    states = states_after(data_batch(0, sequence=0, epoch=1))
    assert states.check(data_batch(sequence=0, epoch=1), from_client=False) is None
    with pytest.raises(PeerError) as refused:
        states.check(data_batch(sequence=0, epoch=0), from_client=False)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_producer_whose_epoch_is_not_known_may_begin_anywhere() -> None:
    """Kafka's snapshots can hold one: of a producer whose only marker was cleaned away."""
    states = states_after(marker_batch(0, epoch=-1))
    states = ProducerStates.decode_snapshot(states.encode_snapshot(), 1)
    assert refusal(states, data_batch(epoch=0, sequence=5)) is None


def test_checking_changes_nothing() -> None:
    states = states_after(data_batch(0, transactional=True))
    before = states.copy()
    states.check(data_batch(sequence=1, transactional=True), from_client=True)
    states.check(data_batch(sequence=0), from_client=True)
    refusal(states, data_batch(sequence=9))
    marker_refusal(states, marker_batch(0, epoch=1), ABORT)
    assert states == before


def test_followers_take_what_the_leader_took() -> None:
    """A leader may have forgotten a producer that a follower still knows."""
    states = states_after(data_batch(0, epoch=4, sequence=7), data_batch(1, epoch=4, sequence=90))
    assert states.get(7) is not None
    assert refusal(states, data_batch(epoch=4, sequence=91)) is None


# What the cleaner leaves


def test_an_emptied_batch_keeps_sequence_and_opens_no_transaction() -> None:
    states = states_after(emptied(data_batch(0, count=3, sequence=4, transactional=True)))
    assert states.first_unstable_offset is None
    assert states.map_end_offset == 3
    assert refusal(states, data_batch(sequence=7, transactional=True)) is None
    skipped = data_batch(sequence=8, transactional=True)
    assert refusal(states, skipped) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_emptied_marker_keeps_the_epoch() -> None:
    states = states_after(emptied(marker_batch(0, epoch=6)))
    assert refusal(states, data_batch(epoch=5)) is ErrorCode.INVALID_PRODUCER_EPOCH


# Cutting, expiring, forgetting


def test_deleting_records_forgets_no_producer() -> None:
    states = states_after(data_batch(0, count=5))
    states.truncate_start(5)
    assert refusal(states, data_batch(sequence=7)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_transaction_cut_in_two_stays_open_for_what_is_left() -> None:
    states = states_after(data_batch(0, count=10, transactional=True))
    states.truncate_start(4)
    assert states.first_unstable_offset == 4
    assert states.last_stable_offset(10) == 4
    assert states.replay(marker_batch(10, epoch=1), ABORT) == AbortedTransaction(7, 0, 10, 11)


def test_the_state_reaches_at_least_to_the_start_of_the_log() -> None:
    states = states_after(data_batch(0, count=5))
    states.truncate_start(3)
    assert states.map_end_offset == 5
    states.truncate_start(8)
    assert states.map_end_offset == 8


def test_who_wrote_nothing_for_long_expires_unless_in_a_transaction() -> None:
    states = states_after(
        data_batch(0, producer_id=1, timestamp_ms=0),
        data_batch(1, producer_id=2, timestamp_ms=0, transactional=True),
        data_batch(2, producer_id=3, timestamp_ms=1),
    )
    assert states.expire(now_ms=DAY_MS, expiration_ms=DAY_MS) == 1
    assert sorted(entry.producer_id for entry in states) == [2, 3]
    assert refusal(states, data_batch(producer_id=1, sequence=77)) is None


def test_past_the_bound_the_one_idle_for_longest_is_forgotten() -> None:
    states = ProducerStates(producers_max=3)
    for offset, producer_id in enumerate((1, 2, 3, 1, 4)):
        states.replay(data_batch(offset, producer_id=producer_id, sequence=offset))
    assert sorted(entry.producer_id for entry in states) == [1, 3, 4]


def test_a_producer_in_a_transaction_is_not_forgotten() -> None:
    states = ProducerStates(producers_max=2)
    states.replay(data_batch(0, producer_id=1, transactional=True))
    states.replay(data_batch(1, producer_id=2))
    states.replay(data_batch(2, producer_id=3))
    assert sorted(entry.producer_id for entry in states) == [1, 3]
    assert states.first_unstable_offset == 0


def test_a_partition_full_of_open_transactions_takes_no_further_producer() -> None:
    states = ProducerStates(producers_max=2)
    for producer_id in (1, 2):
        states.replay(data_batch(producer_id, producer_id=producer_id, transactional=True))
    newcomer = data_batch(producer_id=3)
    assert refusal(states, newcomer) is ErrorCode.POLICY_VIOLATION
    known = data_batch(producer_id=2, sequence=1, transactional=True)
    assert refusal(states, known) is None
    states.replay(marker_batch(3, producer_id=1, epoch=1), ABORT)
    assert refusal(states, newcomer) is None


def test_a_marker_of_an_unknown_producer_is_taken_by_a_full_partition_and_forgotten() -> None:
    states = ProducerStates(producers_max=2)
    for producer_id in (1, 2):
        states.replay(data_batch(producer_id, producer_id=producer_id, transactional=True))
    for offset in range(3, 6):
        stray = marker_batch(offset, producer_id=offset)
        assert marker_refusal(states, stray, ABORT) is None
        assert states.replay(stray, ABORT) is None
        assert sorted(entry.producer_id for entry in states) == [1, 2]


def test_a_batch_begins_a_transaction_unless_one_is_open_at_its_epoch() -> None:
    states = ProducerStates()
    first = data_batch(0, epoch=1, transactional=True)
    assert states.begins_transaction(first)
    states.replay(first)
    assert not states.begins_transaction(data_batch(1, epoch=1, sequence=1, transactional=True))
    assert states.begins_transaction(data_batch(1, epoch=2, transactional=True))
    with pytest.raises(PeerError) as caught:
        states.begins_transaction(data_batch(1, epoch=0, transactional=True))
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    states.replay(marker_batch(1, epoch=1), ABORT)
    assert states.begins_transaction(data_batch(2, epoch=1, sequence=1, transactional=True))
    assert not states.begins_transaction(first), "a duplicate begins nothing"


def test_an_unknown_producer_may_be_held_to_a_first_sequence() -> None:
    states = ProducerStates()
    for sequence, limit, is_taken in [(0, 0, True), (1, 0, False), (5, 5, True), (6, 5, False)]:
        header = data_batch(producer_id=9, sequence=sequence, transactional=True)
        if is_taken:
            assert states.check(header, from_client=True, first_sequence_max=limit) is None
            continue
        with pytest.raises(PeerError) as caught:
            states.check(header, from_client=True, first_sequence_max=limit)
        assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    states.replay(data_batch(0, producer_id=9, sequence=7, transactional=True))
    known = data_batch(1, producer_id=9, sequence=8, transactional=True)
    assert states.check(known, from_client=True, first_sequence_max=0) is None


def test_a_snapshot_over_the_bound_keeps_those_who_wrote_last() -> None:
    states = states_after(
        *(data_batch(at, producer_id=at, timestamp_ms=100 - at) for at in range(5))
    )
    snapshot = states.encode_snapshot()
    fewer = ProducerStates.decode_snapshot(snapshot, 5, producers_max=2)
    assert sorted(entry.producer_id for entry in fewer) == [0, 1]


def test_a_copy_lives_its_own_life() -> None:
    states = states_after(data_batch(0, transactional=True))
    before = states.copy()
    states.replay(marker_batch(1, epoch=1), ABORT)
    assert before != states
    assert before.first_unstable_offset == 0
    before.replay(marker_batch(1, epoch=1), ABORT)
    assert before == states
