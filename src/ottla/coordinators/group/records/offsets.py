"""Committed offsets: types 0 and 1. Type 0 is Kafka's oldest format and is only read."""

from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from ottla.coordinators.stored_record import RecordType, StoredRecord, to_bytes
from ottla.protocol.codec import header, since, struct, tagged
from ottla.protocol.primitives import ZERO_UUID, Uuid, i32, i64

LEGACY_OFFSET_COMMIT = 0
OFFSET_COMMIT = 1
# The only version with an expiry time, and the version that Kafka writes otherwise.
VERSION_WITH_EXPIRY = 1
VERSION = 4

_TYPE_AND_LENGTH = Struct(">hh")
_LENGTH = Struct(">h")
_PARTITION = Struct(">i")
# The version, the offset, the leader epoch, and the length of the metadata plus one.
_VALUE_HEAD = Struct(">hqiB")
_COMMIT_MS = Struct(">q")
# A whole value without metadata, with a topic id.
_PLAIN_VALUE = Struct(">hqiBq3s16s")
# One tag, number 0, of 16 bytes.
_TOPIC_ID_FOLLOWS = bytes((1, 0, 16))
_NO_TAGS = bytes(1)
_TEXT_BYTES_MAX = 32_767
_SHORT_METADATA_BYTES_MAX = 126
# Groups commit the same topics repeatedly. A name has at most 32 KiB, and rarely more than 100 B.
_CACHED_KEY_PREFIXES_MAX = 512


class OffsetCommitted(NamedTuple):
    """A group has consumed a partition up to `offset`, exclusive.

    An absent leader epoch or expiry time is -1, an absent topic id the zero uuid.
    """

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_ms: int = -1
    expire_ms: int = -1
    topic_id: Uuid = ZERO_UUID


@dataclass(frozen=True, slots=True)
class OffsetTombstone:
    """A group's committed offset of a partition was removed."""

    group: str
    topic: str
    partition: int


@struct
class OffsetKey:
    group: str
    topic: str
    partition: i32


@header(versions=(0, 4), flexible=4)
class OffsetValue:
    offset: i64
    leader_epoch: i32 = since(3, default=-1, ignorable=True)
    metadata: str
    commit_timestamp: i64
    expire_timestamp: i64 = since(1, until=1, default=-1, ignorable=True)
    topic_id: Uuid = tagged(0, since=4, default=ZERO_UUID, ignorable=True)


def store_committed(record: OffsetCommitted) -> StoredRecord:
    """With an expiry time the leader epoch and the topic id are lost: no version has all three."""
    value = OffsetValue(
        offset=record.offset,
        leader_epoch=record.leader_epoch,
        metadata=record.metadata,
        commit_timestamp=record.commit_ms,
        expire_timestamp=record.expire_ms,
        topic_id=record.topic_id,
    )
    version = VERSION if record.expire_ms == -1 else VERSION_WITH_EXPIRY
    return StoredRecord(OFFSET_COMMIT, _key(record), value, version)


def encode_committed(record: OffsetCommitted) -> tuple[bytes, bytes | None]:
    """The same bytes as `store_committed` gives, in less time: commits are frequent."""
    group, topic, partition, offset, leader_epoch, text, commit_ms, expire_ms, topic_id = record
    key_prefix = _key_prefix(group, topic)
    if not text and key_prefix is not None and expire_ms == -1 and topic_id != ZERO_UUID:
        # Nearly all commits take this path.
        return key_prefix + _PARTITION.pack(partition), _PLAIN_VALUE.pack(
            VERSION, offset, leader_epoch, 1, commit_ms, _TOPIC_ID_FOLLOWS, topic_id
        )
    metadata = text.encode()
    if key_prefix is None or expire_ms != -1 or len(metadata) > _SHORT_METADATA_BYTES_MAX:
        return to_bytes(store_committed(record))
    value = (
        _VALUE_HEAD.pack(VERSION, offset, leader_epoch, len(metadata) + 1)
        + metadata
        + _COMMIT_MS.pack(commit_ms)
        + (_NO_TAGS if topic_id == ZERO_UUID else _TOPIC_ID_FOLLOWS + topic_id)
    )
    return key_prefix + _PARTITION.pack(partition), value


@lru_cache(_CACHED_KEY_PREFIXES_MAX)
def _key_prefix(group: str, topic: str) -> bytes | None:
    """The common prefix of the keys of a group's offsets of a topic; None if a name is too long."""
    group_name, topic_name = group.encode(), topic.encode()
    if len(group_name) > _TEXT_BYTES_MAX or len(topic_name) > _TEXT_BYTES_MAX:
        return None
    return (
        _TYPE_AND_LENGTH.pack(OFFSET_COMMIT, len(group_name))
        + group_name
        + _LENGTH.pack(len(topic_name))
        + topic_name
    )


def store_tombstone(record: OffsetTombstone) -> StoredRecord:
    return StoredRecord(OFFSET_COMMIT, _key(record))


def _key(record: OffsetCommitted | OffsetTombstone) -> OffsetKey:
    return OffsetKey(group=record.group, topic=record.topic, partition=record.partition)


def _committed(key: OffsetKey, value: OffsetValue, _version: int) -> OffsetCommitted:
    return OffsetCommitted(
        key.group,
        key.topic,
        key.partition,
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
    )


def _tombstone(key: OffsetKey) -> OffsetTombstone:
    return OffsetTombstone(key.group, key.topic, key.partition)


_OFFSETS = RecordType(OffsetKey, OffsetValue, _committed, _tombstone)
RECORD_TYPES = {LEGACY_OFFSET_COMMIT: _OFFSETS, OFFSET_COMMIT: _OFFSETS}
