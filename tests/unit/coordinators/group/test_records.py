"""The records of `__consumer_offsets`: Kafka's are read, and encoded to the same bytes."""

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.coordinators.group.records import (
    ClassicGroupSaved,
    ConsumerMemberSaved,
    DamagedRecord,
    OffsetCommitted,
    OffsetTombstone,
    SavedMember,
    TargetAssignmentSaved,
    decode,
    encode,
)
from ottla.coordinators.group.records.offsets import store_committed
from ottla.coordinators.stored_record import to_bytes
from ottla.protocol.primitives import ZERO_UUID, Uuid
from tests.support.coordinators.record_samples import OFFSETS_TOPIC, written_by_kafka
from tests.support.disk_vectors import expected

TOPIC_ID = Uuid(bytes(range(16)))


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def blob(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


@pytest.mark.parametrize("case", ["internal", "killed"])
def test_kafkas_records_are_encoded_to_the_same_bytes(case: str, tmp_path: Path) -> None:
    count = 0
    for written in written_by_kafka(case, tmp_path):
        record = decode(written.key, written.value)
        assert record is not None, written
        assert encode(record) == (written.key, written.value), record
        count += 1
    assert count > 50


INT_64 = st.integers(-(2**63), 2**63 - 1)
INT_32 = st.integers(-(2**31), 2**31 - 1)


@settings(derandomize=True, deadline=None)
@given(
    st.builds(
        OffsetCommitted,
        group=st.text(max_size=40),
        topic=st.text(max_size=40),
        partition=INT_32,
        offset=INT_64,
        leader_epoch=INT_32,
        metadata=st.text(max_size=150),
        commit_ms=INT_64,
        expire_ms=st.just(-1) | INT_64,
        topic_id=st.just(ZERO_UUID) | st.binary(min_size=16, max_size=16).map(Uuid),
    )
)
@example(OffsetCommitted("g", "t", 0, 1, metadata="m" * 126))
@example(OffsetCommitted("g", "t", 0, 1, metadata="m" * 127))
def test_a_commit_is_encoded_as_its_declared_message(committed: OffsetCommitted) -> None:
    written = encode(committed)
    assert written == to_bytes(store_committed(committed))
    read = decode(*written)
    if committed.expire_ms == -1:
        assert read == committed


def test_records_have_the_fields_that_kafka_prints(tmp_path: Path) -> None:
    read = {
        (written.partition, written.offset): decode(written.key, written.value)
        for written in written_by_kafka("internal", tmp_path)
    }
    said = [
        row
        for row in expected("internal")["decodedRecords"]
        if OFFSETS_TOPIC in row["partition"] and "control" not in row
    ]
    assert len(said) == len(read)
    for row in said:
        record = read[row["partition"], row["offset"]]
        assert (row["value"] is None) == type(record).__name__.endswith("Tombstone")
        for name, value in _said(row).items():
            assert getattr(record, name) == value, (row, record)


def _said(row: dict[str, Any]) -> dict[str, Any]:
    """The fields of a row that have the same names in all record types."""
    key, value = row["key"]["data"], (row["value"] or {"data": {}})["data"]
    names = {
        "group": ("group", "groupId"),
        "topic": ("topic",),
        "partition": ("partition",),
        "member_id": ("memberId",),
        "offset": ("offset",),
        "leader_epoch": ("leaderEpoch",),
        "metadata": ("metadata",),
        "commit_ms": ("commitTimestamp",),
        "generation": ("generation",),
        "protocol": ("protocol",),
        "leader": ("leader",),
        "state_ms": ("currentStateTimestamp",),
        "metadata_hash": ("metadataHash",),
        "epoch": ("epoch", "assignmentEpoch", "memberEpoch"),
        "previous_epoch": ("previousMemberEpoch",),
        "assigned_ms": ("assignmentTimestamp",),
        "client_id": ("clientId",),
        "regex": ("subscribedTopicRegex",),
    }
    found = key | value
    return {
        ours: found[theirs]
        for ours, options in names.items()
        for theirs in options
        if theirs in found
    }


def test_a_commit_of_any_old_version_is_read() -> None:
    key = struct.pack(">h", 1) + text("g") + text("t") + struct.pack(">i", 3)
    common = {"group": "g", "topic": "t", "partition": 3, "offset": 7, "metadata": "m"}
    values = {
        0: struct.pack(">hq", 0, 7) + text("m") + struct.pack(">q", 99),
        1: struct.pack(">hq", 1, 7) + text("m") + struct.pack(">qq", 99, 111),
        2: struct.pack(">hq", 2, 7) + text("m") + struct.pack(">q", 99),
        3: struct.pack(">hqi", 3, 7, 5) + text("m") + struct.pack(">q", 99),
    }
    extra: dict[int, dict[str, int]] = {0: {}, 1: {"expire_ms": 111}, 2: {}, 3: {"leader_epoch": 5}}
    for version, value in values.items():
        record = OffsetCommitted(**common, commit_ms=99, **extra[version])  # type: ignore[arg-type]
        assert decode(key, value) == record
        assert decode(b"\0\0" + key[2:], value) == record, "the oldest type of key"
    assert decode(b"\0\0" + key[2:], None) == OffsetTombstone("g", "t", 3)


def test_a_commit_is_written_as_kafka_does_with_and_without_expiry() -> None:
    plain = OffsetCommitted("g", "t", 0, 7, 5, "m", 99, topic_id=TOPIC_ID)
    _, value = encode(plain)
    assert value == struct.pack(">hqi", 4, 7, 5) + b"\x02m" + struct.pack(">q", 99) + (
        b"\x01\x00\x10" + TOPIC_ID
    )
    _, value = encode(OffsetCommitted("g", "t", 0, 7, 5, "m", 99, 111, TOPIC_ID))
    assert value == struct.pack(">hq", 1, 7) + text("m") + struct.pack(">qq", 99, 111)


def test_a_member_of_the_first_version_rebalances_within_its_session() -> None:
    member = (
        text("m") + text("c") + text("/h") + struct.pack(">i", 30_000) + blob(b"s") + blob(b"a")
    )
    value = struct.pack(">h", 0) + text("consumer") + struct.pack(">i", 2) + text("range")
    value += text("m") + struct.pack(">i", 1) + member
    assert decode(struct.pack(">h", 2) + text("g"), value) == ClassicGroupSaved(
        "g",
        "consumer",
        2,
        "range",
        "m",
        -1,
        (SavedMember("m", None, "c", "/h", 30_000, 30_000, b"s", b"a"),),
    )


@pytest.mark.parametrize("type_", [4, 9, 17, 23, 999, -1])
def test_unknown_record_types_are_skipped(type_: int) -> None:
    assert decode(struct.pack(">h", type_) + b"whatever", b"\0\0whatever") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\0", b"\0\3"),
        (struct.pack(">h", 2) + text("g"), b""),
        (struct.pack(">h", 2) + text("g"), b"\0\5"),
        (struct.pack(">h", 2) + text("g"), b"\xff\xff"),
        (struct.pack(">h", 2) + text("g") + b"more", None),
        (struct.pack(">h", 3) + text("g"), b"\0\0\0\0\0\1\0more"),
    ],
)
def test_malformed_records_are_damaged(key: bytes, value: bytes | None) -> None:
    with pytest.raises(DamagedRecord):
        decode(key, value)


def test_an_assignment_that_names_a_topic_twice_is_damaged() -> None:
    other = Uuid(b"\xff" * 16)
    key, value = encode(TargetAssignmentSaved("g", "m", {TOPIC_ID: (1,), other: (2,)}))
    assert value is not None
    with pytest.raises(DamagedRecord, match="twice"):
        decode(key, value.replace(other, TOPIC_ID))


def test_a_consumer_member_has_null_classic_metadata_as_in_kafka() -> None:
    member = ConsumerMemberSaved("g", "m", None, None, "c", "/h", ("t",), "", 1, None)
    _, value = encode(member)
    assert value is not None
    assert value.endswith(b"\x01\x00\x01\x00")
