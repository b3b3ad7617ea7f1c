import struct

import pytest
from crc32c import crc32c

from ottla.errors import CorruptLog, ErrorCode
from ottla.storage.producers import snapshot_format
from ottla.storage.producers.state import AbortedTransaction, Duplicate, ProducerStates
from tests.support.storage.batch_headers import data_batch, marker_batch
from tests.support.storage.producer_checks import (
    ABORT,
    DAY_MS,
    refusal,
    states_after,
)
from tests.support.storage.recorded_log_files import CASES, batches_of, expected, files_of

# Snapshots


def test_after_a_snapshot_all_that_a_client_may_repeat_is_known_as_duplicate() -> None:
    states = states_after(*(data_batch(2 * at, sequence=2 * at, count=2) for at in range(6)))
    loaded = ProducerStates.decode_snapshot(states.encode_snapshot(), 12)
    assert loaded == states
    assert loaded.map_end_offset == 12
    for offset in range(2, 12, 2):
        repeated = data_batch(sequence=offset, count=2)
        assert loaded.check(repeated, from_client=True) == Duplicate(offset, offset + 1, 1_000)
    first = data_batch(sequence=0, count=2)
    assert refusal(loaded, first) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_last_row_of_each_producer_is_the_one_that_kafka_would_have_written() -> None:
    states = states_after(
        *(data_batch(at, sequence=at, producer_id=7) for at in range(3)),
        data_batch(3, producer_id=8, transactional=True),
        data_batch(4, sequence=1, producer_id=8, transactional=True),
    )
    rows = snapshot_format.rows(states.encode_snapshot(), "")
    assert [row.producer_id for row in rows] == [7, 7, 7, 8, 8]
    # Kafka would take any but the last for a transaction of its own.
    assert [row.transaction_first_offset for row in rows] == [-1, -1, -1, -1, 3]
    last_rows = {row.producer_id: row for row in rows}
    assert snapshot_format.encode(last_rows.values()) == as_kafka_writes(states)


def as_kafka_writes(states: ProducerStates) -> bytes:
    """A snapshot of each producer's last batch alone."""
    return snapshot_format.encode(entry._replace(batches=entry.batches[-1:]) for entry in states)


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


@pytest.mark.parametrize("count", [-1, 0, 2, 2**31 - 1])
def test_a_snapshot_must_hold_as_many_producers_as_it_says(count: int) -> None:
    snapshot = states_after(data_batch(0)).encode_snapshot()
    body = struct.pack(">i", count) + snapshot[10:]
    content = struct.pack(">hI", 1, crc32c(body)) + body
    with pytest.raises(CorruptLog, match=f"{count} producers announced"):
        ProducerStates.decode_snapshot(content, 1)


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
            assert as_kafka_writes(states) == snapshots.pop(states.map_end_offset)
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
