import pytest

from ottla.errors import CorruptLog, ErrorCode, PeerError
from ottla.protocol.batch import BatchHeader, Marker, MarkerKind
from ottla.storage import transactions
from ottla.storage.producer_entry import SEQUENCE_MAX
from ottla.storage.producer_state import AbortedTransaction, Duplicate, ProducerStates
from tests.unit.storage.disk_vectors import CASES, batches_of, expected, files_of
from tests.unit.storage.headers import data_batch, emptied, marker_batch

ABORT = Marker(MarkerKind.ABORT, coordinator_epoch=0)
COMMIT = Marker(MarkerKind.COMMIT, coordinator_epoch=0)
DAY_MS = 86_400_000


def refusal(states: ProducerStates, header: BatchHeader) -> ErrorCode | None:
    """The code a client's batch is refused with; None if it would be appended."""
    try:
        assert states.check(header, from_client=True) is None
    except PeerError as error:
        return error.code
    return None


def marker_refusal(
    states: ProducerStates, header: BatchHeader, marker: Marker, transaction_version: int = 2
) -> ErrorCode | None:
    try:
        states.check_marker(header, marker, transaction_version=transaction_version)
    except PeerError as error:
        return error.code
    return None


def states_after(*batches: BatchHeader) -> ProducerStates:
    states = ProducerStates()
    for header in batches:
        states.replay(header)
    return states


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
    stray = marker_batch(0, producer_id=3)
    assert marker_refusal(states, stray, ABORT) is ErrorCode.POLICY_VIOLATION
    known = data_batch(producer_id=2, sequence=1, transactional=True)
    assert refusal(states, known) is None
    states.replay(marker_batch(3, producer_id=1, epoch=1), ABORT)
    assert refusal(states, newcomer) is None


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


# Snapshots


def test_after_a_snapshot_the_last_batch_is_still_known_as_a_duplicate() -> None:
    states = states_after(data_batch(0, count=2), data_batch(2, sequence=2, count=3))
    loaded = ProducerStates.decode_snapshot(states.encode_snapshot(), 5)
    assert loaded.map_end_offset == 5
    assert loaded.check(data_batch(sequence=2, count=3), from_client=True) == Duplicate(2, 4, 1_000)
    first = data_batch(sequence=0, count=2)
    assert refusal(loaded, first) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_snapshot_keeps_open_transactions() -> None:
    states = states_after(
        data_batch(3, producer_id=9, transactional=True),
        data_batch(4, producer_id=2, transactional=True),
    )
    loaded = ProducerStates.decode_snapshot(states.encode_snapshot(), 5)
    assert loaded == states
    assert loaded.first_unstable_offset == 3
    aborted = loaded.replay(marker_batch(5, producer_id=9, epoch=1), ABORT)
    assert aborted == AbortedTransaction(9, 3, 5, 4)


def test_equal_states_have_equal_snapshots_whatever_their_history() -> None:
    one = states_after(data_batch(0, producer_id=1), data_batch(1, producer_id=2))
    other = states_after(
        data_batch(1, producer_id=2), data_batch(0, producer_id=1), data_batch(1, producer_id=-1)
    )
    assert one == other
    assert one.encode_snapshot() == other.encode_snapshot()


def test_a_snapshot_of_nobody_has_ten_bytes() -> None:
    assert (
        ProducerStates().encode_snapshot()
        == files_of("records")["records-0/00000000000000000009.snapshot"]
    )


def test_a_damaged_snapshot_is_refused_wherever_it_is_damaged() -> None:
    snapshot = states_after(data_batch(0)).encode_snapshot()
    for at in range(len(snapshot)):
        damaged = bytearray(snapshot)
        damaged[at] ^= 0x40
        with pytest.raises(CorruptLog, match=r"t-0/5\.snapshot"):
            ProducerStates.decode_snapshot(bytes(damaged), 5, path="t-0/5.snapshot")
        with pytest.raises(CorruptLog):
            ProducerStates.decode_snapshot(snapshot[:at], 5)


# What Kafka itself wrote


def as_kafka_prints(states: ProducerStates) -> list[dict[str, int]]:
    """A state as Kafka's own dump shows a snapshot of it."""
    return [
        {
            "producerId": entry.producer_id,
            "producerEpoch": entry.epoch,
            "coordinatorEpoch": entry.coordinator_epoch,
            "lastTimestamp": entry.last_timestamp_ms,
            "lastSeq": entry.last_sequence,
            "lastBatchOffsetDelta": entry.batches[-1].offset_delta if entry.batches else -1,
            "lastDataOffset": entry.batches[-1].last_offset if entry.batches else -1,
            "currentTxnFirstOffset": entry.transaction_first_offset,
        }
        for entry in sorted(states)
    ]


def by_id(printed: list[dict[str, int]]) -> list[dict[str, int]]:
    return sorted(printed, key=lambda entry: entry["producerId"])


def snapshots_of(case: str, partition: str) -> dict[int, bytes]:
    return {
        int(name.rpartition("/")[2].removesuffix(".snapshot")): content
        for name, content in files_of(case).items()
        if name.startswith(f"{partition}/") and name.endswith(".snapshot")
    }


def test_every_snapshot_that_kafka_wrote_is_read_and_written_alike() -> None:
    seen = 0
    for case in CASES:
        for partition, found in expected(case)["partitions"].items():
            snapshots = snapshots_of(case, partition)
            for name, printed in found.get("producerSnapshots", {}).items():
                offset = int(name.removesuffix(".snapshot"))
                content = snapshots.get(offset)
                if content is None:
                    continue
                states = ProducerStates.decode_snapshot(content, offset)
                assert as_kafka_prints(states) == by_id(printed)
                assert states.encode_snapshot() == content
                seen += 1
    assert seen == 80


def replayed(case: str, partition: str) -> tuple[ProducerStates, list[AbortedTransaction]]:
    """The state after all batches; at every snapshot of Kafka's on the way it must be the same."""
    states = ProducerStates()
    aborted = []
    snapshots = snapshots_of(case, partition)
    for header, marker in batches_of(case, partition):
        found = states.replay(header, marker)
        if found:
            aborted.append(found)
        if states.map_end_offset in snapshots:
            assert states.encode_snapshot() == snapshots.pop(states.map_end_offset)
    assert snapshots == {}
    return states, aborted


@pytest.mark.parametrize(
    ("case", "partition", "aborts"),
    [
        ("transactions", "transactions-0", 16),
        ("transactions", "transactions-1", 4),
        ("internal", "__consumer_offsets-1", 4),
        ("compacted", "compacted-0", 1),
        ("compacted", "compacted-tombstones-gone-0", 0),
    ],
)
def test_batches_give_kafkas_snapshots_and_kafkas_aborted_transactions(
    case: str, partition: str, aborts: int
) -> None:
    states, aborted = replayed(case, partition)
    assert states.first_unstable_offset is None
    index = [
        AbortedTransaction(
            entry["producerId"],
            entry["firstOffset"],
            entry["lastOffset"],
            entry["lastStableOffset"],
        )
        for segment in expected(case)["partitions"][partition]["segments"]
        for entry in segment.get("txnIndex", ())
    ]
    assert aborted == index
    assert len(aborted) == aborts


def test_idempotent_batches_give_kafkas_snapshots_if_idle_producers_expire_at_a_restart() -> None:
    snapshots = snapshots_of("idempotent", "idempotent-0")
    states = ProducerStates()
    for header, marker in batches_of("idempotent", "idempotent-0"):
        assert refusal(states, header) is None
        states.replay(header, marker)
        assert states.check(header, from_client=True) is not None
        if states.map_end_offset in snapshots:
            assert states.encode_snapshot() == snapshots.pop(states.map_end_offset)
            # The records are of 2023: all are idle when Kafka starts again.
            assert states.expire(1_794_780_900_000, DAY_MS) == 2
    assert snapshots == {}


def test_after_a_kill_the_open_transaction_is_found_where_kafka_finds_it() -> None:
    states = ProducerStates()
    for header, marker in batches_of("killed", "transactions-0"):
        states.replay(header, marker)
    recovered = expected("killed")["recovered"]["partitions"]["transactions-0"]
    printed = recovered["producerSnapshots"]["00000000000000000134.snapshot"]
    assert as_kafka_prints(states) == by_id(printed)
    consumed = expected("killed")["consumer"]
    end = consumed["read_uncommitted"]["transactions-0"]["endOffset"]
    stable = consumed["read_committed"]["transactions-0"]["endOffset"]
    assert (states.map_end_offset, states.last_stable_offset(end)) == (end, stable)
