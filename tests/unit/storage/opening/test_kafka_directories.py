"""Directories that Apache Kafka wrote open, read and recover as they do in Kafka."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.batch import Record, records
from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.clock import RealClock
from ottla.seams.files import RealFiles
from ottla.storage.directory.checkpoint_files import parse_directory_name
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.log import leader_epochs
from ottla.storage.log.batch_scan import Placed
from ottla.storage.log.file_pool import FilePool
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.log.log import Log
from ottla.storage.log.segment import OFFSETS, TIMES, TRANSACTIONS, Segment
from ottla.storage.log.time_search import TimestampOffset
from ottla.storage.opening.recovery import open_log
from ottla.storage.producers import snapshot_format
from ottla.storage.producers.entry import ProducerEntry
from tests.support.disk_vectors import (
    CLEAN_CASES,
    CONFIG,
    all_batches,
    batch_as_expected,
    consume,
    expected,
    open_unpacked,
    record_as_expected,
    timestamp_type,
    unpack,
)
from tests.support.time_searches import largest_timestamp, offset_for_time

CASES = (*CLEAN_CASES, "killed")
# The segments of `segments-0` in whose time Kafka was not stopped.
WRITTEN_IN_ONE_GO = (0, 1016)


def partition_of(name: str) -> TopicPartition:
    partition = parse_directory_name(name)
    assert partition is not None
    return partition


def expected_partitions(case: str) -> Iterator[tuple[str, Any]]:
    yield from expected(case)["partitions"].items()


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LogDirectory]:
    """Each case, opened by our recovery. Tests only read."""
    target = tmp_path_factory.mktemp("kafka")
    return {case: open_unpacked(unpack(case, target)) for case in CASES}


@pytest.mark.parametrize("case", [*CLEAN_CASES, "metadata"])
def test_a_cleanly_stopped_directory_opens_without_a_scan(case: str, tmp_path: Path) -> None:
    directory = open_unpacked(unpack(case, tmp_path))
    assert directory.unusable == {}
    assert {partition_of(name) for name, _ in expected_partitions(case)} <= directory.logs.keys()
    assert all(recovery.scanned_bytes == 0 for recovery in directory.recoveries.values())
    assert all(recovery.cut_bytes == 0 for recovery in directory.recoveries.values())


def test_a_killed_directory_recovers_what_kafka_recovers(opened: dict[str, LogDirectory]) -> None:
    directory = opened["killed"]
    assert directory.unusable == {}
    ends = {
        str(partition): (log.start_offset, log.end_offset)
        for partition, log in directory.logs.items()
    }
    served = expected("killed")["consumer"]["read_uncommitted"]
    assert {name: ends[name] for name in served} == {
        name: (found["beginningOffset"], found["endOffset"]) for name, found in served.items()
    }
    assert all(recovery.cut_bytes == 0 for recovery in directory.recoveries.values())
    assert directory.recoveries[partition_of("segments-0")].scanned_bytes > 0


@pytest.mark.parametrize("case", CASES)
def test_every_batch_and_record_is_the_one_kafka_reads(
    case: str, opened: dict[str, LogDirectory]
) -> None:
    compared = 0
    for name, partition in expected_partitions(case):
        log = opened[case].logs[partition_of(name)]
        wanted = [
            (segment["baseOffset"], batch)
            for segment in partition["segments"]
            for batch in segment["batches"]
        ]
        found = list(all_batches(log))
        assert len(found) == len(wanted)
        for (segment, placed), (base_offset, batch) in zip(found, wanted, strict=True):
            assert segment.base_offset == base_offset
            _assert_same_batch(segment, placed, batch)
            compared += 1
    assert compared > 0


def _assert_same_batch(segment: Segment, placed: Placed, wanted: dict[str, Any]) -> None:
    spelled = batch_as_expected(placed)
    if "epoch" in wanted:  # the two large partitions are listed in short
        spelled["epoch"] = spelled["partitionLeaderEpoch"]
        assert wanted == {name: spelled[name] for name in wanted}
        return
    walk = segment.walk()
    assert walk.crc_is_valid(placed) == wanted["valid"]
    assert spelled == {
        name: field for name, field in wanted.items() if name not in ("valid", "records")
    }
    found = [record_as_expected(record) for record in records(walk.batch(placed))]
    assert found == [
        {
            name: field
            for name, field in record.items()
            if name not in ("sequence", "control", "coordinatorEpoch")
        }
        for record in wanted["records"]
    ]


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("case", CASES)
def test_a_consumer_gets_what_it_gets_from_kafka(
    case: str, isolation: str, opened: dict[str, LogDirectory]
) -> None:
    committed = isolation == "read_committed"
    for name, wanted in expected(case)["consumer"][isolation].items():
        log = opened[case].logs[partition_of(name)]
        end = log.producers.last_stable_offset(log.end_offset) if committed else log.end_offset
        assert (log.start_offset, end) == (wanted["beginningOffset"], wanted["endOffset"])
        every = 100 if "note" in wanted else 1
        found = [
            record_as_expected(record)
            | {
                "leaderEpoch": header.partition_leader_epoch,
                "timestampType": timestamp_type(header),
            }
            for header, record in consume(log, committed=committed)
            if record.offset % every == 0
        ]
        assert found == wanted["records"], name


@pytest.mark.parametrize("case", CASES)
def test_the_indexes_find_what_a_full_scan_finds(
    case: str, opened: dict[str, LogDirectory]
) -> None:
    lookups = 0
    for name, _ in expected_partitions(case):
        log = opened[case].logs[partition_of(name)]
        for segment in log.segments:
            batches = list(segment.walk())
            for placed in batches:
                assert segment.find(placed.header.base_offset) == placed
                assert segment.find(placed.header.last_offset) == placed
                lookups += 1
            assert segment.find(batches[-1].header.next_offset if batches else 0) is None
    assert lookups > 0


@pytest.mark.parametrize("case", CASES)
def test_a_time_is_found_where_a_full_scan_finds_it(
    case: str, opened: dict[str, LogDirectory]
) -> None:
    for name, _ in expected_partitions(case):
        log = opened[case].logs[partition_of(name)]
        readable = [
            (record, placed.header.partition_leader_epoch)
            for segment, placed in all_batches(log)
            for record in records(segment.walk().batch(placed))
            if record.offset >= log.start_offset
        ]
        times = sorted({record.timestamp for record, _ in readable})
        for time in times[:: max(1, len(times) // 25)]:
            assert offset_for_time(log, time) == _first_since(readable, time), (name, time)
        if times:
            assert offset_for_time(log, times[-1] + 1) is None
            assert largest_timestamp(log) == _first_since(readable, times[-1])


def _first_since(readable: list[tuple[Record, int]], time: int) -> TimestampOffset:
    record, epoch = next(found for found in readable if found[0].timestamp >= time)
    return TimestampOffset(record.timestamp, record.offset, epoch)


@pytest.mark.parametrize("case", [*CLEAN_CASES])
def test_index_entries_and_aborted_transactions_are_read_as_kafka_wrote_them(
    case: str, opened: dict[str, LogDirectory]
) -> None:
    for name, partition in expected_partitions(case):
        log = opened[case].logs[partition_of(name)]
        for segment, wanted in zip(log.segments, partition["segments"], strict=True):
            assert [list(entry) for entry in segment.offsets.entries()] == wanted["offsetIndex"]
            assert [list(entry) for entry in segment.times.entries()] == wanted["timeIndex"]
            assert [entry._asdict() for entry in segment.aborted.entries()] == [
                {
                    "producer_id": entry["producerId"],
                    "first_offset": entry["firstOffset"],
                    "last_offset": entry["lastOffset"],
                    "last_stable_offset": entry["lastStableOffset"],
                }
                for entry in wanted.get("txnIndex", [])
            ]


@pytest.mark.parametrize("case", CASES)
def test_leader_epochs_are_kafkas(case: str, opened: dict[str, LogDirectory]) -> None:
    """All but an epoch that had not written anything yet: Kafka, too, forgets it at the start."""
    for name, partition in expected_partitions(case):
        log = opened[case].logs[partition_of(name)]
        wanted = LeaderEpochs.decode(partition["leader-epoch-checkpoint"].encode())
        wanted.truncate_end(log.end_offset)
        assert log.epochs == wanted, name


def test_epochs_are_found_again_in_the_headers(tmp_path: Path) -> None:
    directory = unpack("segments", tmp_path)
    (directory / "segments-0" / leader_epochs.FILE_NAME).unlink()
    log = open_unpacked(directory).logs[partition_of("segments-0")]
    partition = expected("segments")["partitions"]["segments-0"]
    assert log.epochs.encode().decode() == partition["leader-epoch-checkpoint"]


# --- what recovery makes anew ---------------------------------------------------------------------


def test_lost_indexes_are_made_anew_and_equal_kafkas(tmp_path: Path) -> None:
    directory = unpack("segments", tmp_path)
    partition = directory / "segments-0"
    kafkas = {
        (base_offset, suffix): (partition / f"{base_offset:020d}{suffix}").read_bytes()
        for base_offset in WRITTEN_IN_ONE_GO
        for suffix in (OFFSETS, TIMES)
    }
    for base_offset, suffix in kafkas:
        (partition / f"{base_offset:020d}{suffix}").unlink()
    assert open_unpacked(directory).unusable == {}
    for (base_offset, suffix), content in kafkas.items():
        assert (partition / f"{base_offset:020d}{suffix}").read_bytes() == content


def test_appending_kafkas_batches_makes_kafkas_segments_and_indexes(tmp_path: Path) -> None:
    """The same bytes in the same order roll at the same batches and index the same ones.

    Kafka was stopped once, at offset 2500, and counts the bytes since the last entry anew when it
    opens a log: behind that the entries of the last segment lie at other batches than ours.
    """
    source = unpack("segments", tmp_path) / "segments-0"
    target = tmp_path / "ours"
    target.mkdir()
    log = _open_alone(target)
    for path in sorted(source.glob("*.log")):
        log.append_replicated(path.read_bytes())
    log.close()
    for path in source.glob("*.log"):
        assert (target / path.name).read_bytes() == path.read_bytes(), path.name
    for base_offset in WRITTEN_IN_ONE_GO:
        for suffix in (OFFSETS, TIMES):
            name = f"{base_offset:020d}{suffix}"
            assert (target / name).read_bytes() == (source / name).read_bytes(), name
    kafkas, ours = (_open_alone(directory).segments[-1] for directory in (source, target))
    until_the_stop = [entry for entry in kafkas.offsets.entries() if entry[0] < 2500]
    assert len(until_the_stop) > 50
    assert list(ours.offsets.entries())[: len(until_the_stop)] == until_the_stop


def _open_alone(directory: Path) -> Log:
    return open_log(
        FilePool(RealFiles()),
        str(directory),
        CONFIG,
        is_clean=True,
        clock=RealClock(),
        checkpoint=lambda: None,
    ).log


@pytest.mark.parametrize("case", ["idempotent", "transactions", "compacted", "internal", "killed"])
def test_producers_replayed_from_the_log_are_those_of_kafkas_snapshot(
    case: str, tmp_path: Path
) -> None:
    directory = unpack(case, tmp_path)
    for path in directory.glob("*/*.snapshot"):
        path.unlink()
    logs = open_unpacked(directory).logs
    partitions = expected(case)
    partitions = partitions.get("recovered", partitions)["partitions"]
    for name, partition in partitions.items():
        if not partition.get("producerSnapshots"):
            continue
        newest = max(partition["producerSnapshots"])
        log = logs[partition_of(name)]
        assert log.end_offset == int(newest.removesuffix(".snapshot"))
        found = {entry.producer_id: _as_expected(entry) for entry in log.producers}
        wanted = {entry["producerId"]: entry for entry in partition["producerSnapshots"][newest]}
        # Records of 2023: Kafka forgot their producers when it was started again.
        expired = {0, 1} if (case, name) == ("idempotent", "idempotent-0") else set()
        assert {key: entry for key, entry in found.items() if key not in expired} == wanted, name


@pytest.mark.parametrize("case", CASES)
def test_kafkas_producer_snapshots_are_read_and_written_alike(case: str, tmp_path: Path) -> None:
    partitions = expected(case)["partitions"]
    for path in sorted(unpack(case, tmp_path).glob("*/*.snapshot")):
        if path.parent.name not in partitions:
            continue
        content = path.read_bytes()
        entries = snapshot_format.decode(content, str(path))
        wanted = partitions[path.parent.name]["producerSnapshots"][path.name]
        by_id = sorted(wanted, key=lambda entry: entry["producerId"])
        assert [_as_expected(entry) for entry in sorted(entries)] == by_id
        # Kafka writes several in no order.
        assert len(entries) > 1 or snapshot_format.encode(entries) == content


def _as_expected(entry: ProducerEntry) -> dict[str, int]:
    last = entry.batches[-1] if entry.batches else None
    return {
        "producerId": entry.producer_id,
        "producerEpoch": entry.epoch,
        "coordinatorEpoch": entry.coordinator_epoch,
        "lastTimestamp": entry.last_timestamp_ms,
        "lastSeq": last.last_sequence if last else -1,
        "lastBatchOffsetDelta": last.offset_delta if last else -1,
        "lastDataOffset": last.last_offset if last else -1,
        "currentTxnFirstOffset": entry.transaction_first_offset,
    }


@pytest.mark.parametrize("case", ["transactions", "internal"])
def test_lost_transaction_indexes_are_made_anew_by_recovery(case: str, tmp_path: Path) -> None:
    directory = unpack(case, tmp_path)
    (directory / ".kafka_cleanshutdown").unlink()
    (directory / "recovery-point-offset-checkpoint").unlink()
    kafkas = {path: path.read_bytes() for path in directory.glob(f"*/*{TRANSACTIONS}")}
    for path in (*kafkas, *directory.glob("*/*.snapshot")):
        path.unlink()
    opened = open_unpacked(directory)
    opened.close(broker_epoch=1)
    assert len(kafkas) > 0
    assert {path: path.read_bytes() for path in kafkas} == kafkas


# --- kill -9 and damage ---------------------------------------------------------------------------


def test_a_whole_scan_makes_the_indexes_that_kafkas_recovery_makes(tmp_path: Path) -> None:
    """Without a recovery point all is read again, as Kafka reads the whole last segment again."""
    directory = unpack("killed", tmp_path)
    (directory / "recovery-point-offset-checkpoint").unlink()
    open_unpacked(directory).close(broker_epoch=1)
    recovered = expected("killed")["recovered"]["partitions"]
    for name, partition in recovered.items():
        segments = _open_alone(directory / name).segments
        for segment, wanted in zip(segments, partition["segments"], strict=True):
            assert segment.size_bytes == wanted["logSize"]
            assert [list(entry) for entry in segment.offsets.entries()] == wanted["offsetIndex"]
            assert [list(entry) for entry in segment.times.entries()] == wanted["timeIndex"]


def test_a_torn_tail_is_cut_where_kafka_cuts_it(tmp_path: Path) -> None:
    """Ten bytes missing, 61 zeros behind the end, 80 bytes of garbage behind the end."""
    directory = open_unpacked(unpack("torn", tmp_path))
    served = expected("torn")["consumer"]["read_uncommitted"]
    for name in ("codec-none-0", "codec-gzip-0", "codec-lz4-0"):
        log = directory.logs[partition_of(name)]
        recovery = directory.recoveries[partition_of(name)]
        assert log.end_offset == served[name]["endOffset"]
        assert recovery.cut_bytes > 0
        kafkas = [
            size for file, size in expected("torn")["partitions"][name]["files"] if ".log" in file
        ]
        assert [segment.size_bytes for segment in log.segments] == kafkas
        found = [record_as_expected(record) for _, record in consume(log, committed=False)]
        assert found == [
            {
                key: field
                for key, field in record.items()
                if not key.startswith(("leader", "timestampType"))
            }
            for record in served[name]["records"]
        ]


@pytest.mark.parametrize(
    ("name", "kafkas_end", "flushed_end"), [("records-0", 0, 18), ("codec-snappy-0", 144, 204)]
)
def test_damage_below_the_recovery_point_costs_nothing_that_is_still_whole(
    name: str, kafkas_end: int, flushed_end: int, tmp_path: Path
) -> None:
    """One inverted byte inside a flushed batch: Kafka cuts from there, we leave every byte."""
    unpacked = unpack("torn", tmp_path)
    path = unpacked / name / "00000000000000000000.log"
    content = path.read_bytes()
    directory = open_unpacked(unpacked)
    log = directory.logs[partition_of(name)]
    assert expected("torn")["consumer"]["read_uncommitted"][name]["endOffset"] == kafkas_end
    assert (log.end_offset, log.recovery_point) == (flushed_end, flushed_end)
    assert directory.recoveries[partition_of(name)].cut_bytes == 0
    assert path.read_bytes() == content
    invalid = [
        placed.header.base_offset
        for segment, placed in all_batches(log)
        if not segment.walk().crc_is_valid(placed)
    ]
    assert invalid == [kafkas_end]


def test_a_broken_chain_below_the_recovery_point_takes_only_that_log_offline(
    tmp_path: Path,
) -> None:
    directory = unpack("killed", tmp_path)
    path = directory / "records-0" / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[8:12] = (2**31 - 1).to_bytes(4)  # the first batch's length
    path.write_bytes(content)
    opened = open_unpacked(directory)
    assert list(opened.unusable) == [partition_of("records-0")]
    assert "byte 0" in str(opened.unusable[partition_of("records-0")])
    assert path.read_bytes() == content
    assert opened.logs[partition_of("codec-none-0")].end_offset == 216
