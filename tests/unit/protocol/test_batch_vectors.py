"""Every recorded batch is read as Kafka reads it, and encoded to the same bytes again."""

import json
import tarfile
from typing import Any

import crc32c
import pytest

from ottla.protocol.batch import (
    CorruptBatch,
    MarkerKind,
    build,
    build_marker,
    crc_is_valid,
    crc_of,
    plain_records,
    read_header,
    read_marker,
    records,
)
from ottla.protocol.compression import Codec
from ottla.protocol.record_survey import survey
from tests.support.protocol.batch_vectors import (
    DISK_CASES,
    VECTORS,
    Expected,
    disk_batches,
    undecodable_records,
    wire_batches,
)

SOURCES = ("wire", *DISK_CASES)


def batches(source: str) -> list[Expected]:
    found = list(wire_batches() if source == "wire" else disk_batches(source))
    assert found
    return found


def header_as_kafka_reads_it(batch: bytes) -> dict[str, Any]:
    header = read_header(batch)
    reading: dict[str, Any] = {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "epoch": header.partition_leader_epoch,
        "magic": header.magic,
        "crc": header.crc,
        "valid": crc_is_valid(batch, header),
        "size": header.size,
        "sizeInBytes": header.size,
        "compression": Codec(header.codec).name.lower(),
        "timestampType": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "isTransactional": header.is_transactional,
        "isControlBatch": header.is_control,
        "maxTimestamp": header.max_timestamp,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "count": header.count,
    }
    if header.delete_horizon_ms is not None:
        reading["deleteHorizonMs"] = header.delete_horizon_ms
    return reading


@pytest.mark.parametrize("source", SOURCES)
def test_headers_read_as_kafka_reads_them(source: str) -> None:
    for batch, _, reading in batches(source):
        ours = header_as_kafka_reads_it(batch)
        # The position is not a field of the batch; fields that a vector lacks are not compared.
        theirs = reading.keys() - {"position", "records", "recordsCut"}
        assert {name: ours.get(name) for name in theirs} == {name: reading[name] for name in theirs}
        assert ("deleteHorizonMs" in ours) == ("deleteHorizonMs" in reading)


def field_matches(field: bytes | None, name: str, reading: dict[str, Any]) -> bool:
    if f"{name}Length" in reading:
        assert field is not None
        return (len(field), crc32c.crc32c(field)) == (
            reading[f"{name}Length"],
            reading[f"{name}Crc32c"],
        )
    return (field.hex() if field is not None else None) == reading[name]


@pytest.mark.parametrize("source", SOURCES)
def test_records_read_as_kafka_reads_them(source: str) -> None:
    for batch, _, reading in batches(source):
        found = list(records(batch))
        assert len(found) == read_header(batch).count
        if "records" not in reading:
            continue
        if "recordsCut" in reading:
            found = found[: len(reading["records"])]
        for record, theirs in zip(found, reading["records"], strict=True):
            assert record.offset == theirs["offset"]
            assert record.timestamp == theirs["timestamp"]
            assert field_matches(record.key, "key", theirs)
            assert field_matches(record.value, "value", theirs)
            assert [
                [name, value.hex() if value is not None else None] for name, value in record.headers
            ] == theirs.get("headers", [])


@pytest.mark.parametrize("source", SOURCES)
def test_uncompressed_batches_are_built_to_the_same_bytes(source: str) -> None:
    rebuilt = 0
    for batch, writer, _ in batches(source):
        header = read_header(batch)
        # A batch with LogAppendTime still contains the producer's timestamps, but hides them.
        if header.codec != Codec.NONE or header.is_log_append_time:
            continue
        again = build(
            list(records(batch)),
            base_offset=header.base_offset,
            last_offset_delta=header.last_offset_delta,
            leader_epoch=header.partition_leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=header.is_transactional,
            control=header.is_control,
            delete_horizon_ms=header.delete_horizon_ms,
        )
        assert again == batch, writer
        rebuilt += 1
    assert rebuilt > 0


@pytest.mark.parametrize("source", SOURCES)
def test_compressed_batches_are_built_to_the_same_records(source: str) -> None:
    for batch, _, _ in batches(source):
        header = read_header(batch)
        if header.codec != Codec.NONE:
            again = build(
                list(records(batch)), base_offset=header.base_offset, codec=Codec(header.codec)
            )
            assert list(records(again)) == list(records(batch))


@pytest.mark.parametrize("source", ["transactions", "compacted", "internal", "killed", "wire"])
def test_markers_read_and_build_as_kafka_wrote_them(source: str) -> None:
    seen = set()
    for batch, _, reading in batches(source):
        header = read_header(batch)
        if not header.is_control:
            continue
        (theirs,) = reading["records"]
        marker = read_marker(batch)
        assert marker is not None
        seen.add(marker.kind)
        assert marker.kind.name == theirs["control"]
        assert marker.coordinator_epoch == theirs.get("coordinatorEpoch", 0)
        if header.delete_horizon_ms is None:
            again = build_marker(
                marker,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                timestamp_ms=header.max_timestamp,
                base_offset=header.base_offset,
                leader_epoch=header.partition_leader_epoch,
            )
            assert again == batch
    assert MarkerKind.COMMIT in seen


def test_control_records_of_other_kinds_are_not_markers() -> None:
    with tarfile.open(VECTORS / "disk/metadata.tar.gz") as tar:
        log = tar.extractfile("__cluster_metadata-0/00000000000000000000.log")
        assert log is not None
        written = log.read()
    position, others = 0, 0
    while position < len(written):
        header = read_header(written, position)
        if header.is_control:
            assert read_marker(written, position) is None
            others += 1
        position += header.size
    assert others > 0


def test_recorded_batches_of_every_codec_are_surveyed() -> None:
    codecs = set()
    for batch, _, _ in batches("wire"):
        taken = list(records(batch))
        header, body = read_header(batch), plain_records(batch)
        if header.is_log_append_time:
            continue
        codecs.add(header.codec)
        found = survey(body, header)
        assert found.max_timestamp == header.max_timestamp
        assert found.min_timestamp == min(each.timestamp for each in taken)
        assert found.keyless_count == sum(each.key is None for each in taken)
    assert codecs == set(Codec)


def test_records_that_kafka_cannot_decode_are_corrupt() -> None:
    found = list(undecodable_records())
    assert found
    for garbage in found:
        with pytest.raises(CorruptBatch):
            read_header(garbage)


def test_checksums_are_kafkas() -> None:
    rows = json.loads((VECTORS / "misc/crc32c.json").read_text())["rows"]
    assert rows
    for content, checksum in rows:
        # The checksum begins after the first 21 bytes of a batch.
        batch = bytes(21) + bytes.fromhex(content)
        assert crc_of(batch, 0, len(batch)) == checksum


def test_cleaned_batches_keep_the_timestamps_of_their_records() -> None:
    cleaned = [
        (read_header(batch), list(records(batch)), reading)
        for batch, _, reading in batches("compacted")
        if "deleteHorizonMs" in reading
    ]
    assert cleaned
    for header, taken, reading in cleaned:
        assert header.delete_horizon_ms == header.base_timestamp == reading["deleteHorizonMs"]
        assert max(record.timestamp for record in taken) == header.max_timestamp
