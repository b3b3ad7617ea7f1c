"""Classic groups: type 2, one record per group with all its members."""

from dataclasses import dataclass

from ottla.coordinators.stored_record import RecordType, StoredRecord
from ottla.protocol.codec import header, since, struct
from ottla.protocol.primitives import i32, i64

GROUP = 2
# Kafka reads 4, its first flexible version, but still writes 3.
VERSION = 3


@dataclass(frozen=True, slots=True)
class SavedMember:
    """A member, its subscription and its assignment; both are opaque bytes."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class ClassicGroupSaved:
    """A whole classic group. `state_ms` is the time of its last state change, or -1."""

    group: str
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_ms: int
    members: tuple[SavedMember, ...]


@dataclass(frozen=True, slots=True)
class ClassicGroupTombstone:
    """The classic group was removed."""

    group: str


@struct
class GroupMetadataKey:
    group: str


@struct
class Member:
    member_id: str
    group_instance_id: str | None = since(3, default=None, ignorable=True)
    client_id: str
    client_host: str
    rebalance_timeout: i32 = since(1, default=-1, ignorable=True)
    session_timeout: i32
    subscription: bytes
    assignment: bytes


@header(versions=(0, 4), flexible=4)
class GroupMetadataValue:
    protocol_type: str
    generation: i32
    protocol: str | None
    leader: str | None
    current_state_timestamp: i64 = since(2, default=-1, ignorable=True)
    members: tuple[Member, ...]


def store_saved(record: ClassicGroupSaved) -> StoredRecord:
    value = GroupMetadataValue(
        protocol_type=record.protocol_type,
        generation=record.generation,
        protocol=record.protocol,
        leader=record.leader,
        current_state_timestamp=record.state_ms,
        members=tuple(map(_store_member, record.members)),
    )
    return StoredRecord(GROUP, GroupMetadataKey(group=record.group), value, VERSION)


def store_tombstone(record: ClassicGroupTombstone) -> StoredRecord:
    return StoredRecord(GROUP, GroupMetadataKey(group=record.group))


def _store_member(member: SavedMember) -> Member:
    return Member(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.subscription,
        assignment=member.assignment,
    )


def _saved(key: GroupMetadataKey, value: GroupMetadataValue, version: int) -> ClassicGroupSaved:
    return ClassicGroupSaved(
        key.group,
        value.protocol_type,
        value.generation,
        value.protocol,
        value.leader,
        value.current_state_timestamp,
        tuple(_saved_member(member, version) for member in value.members),
    )


def _saved_member(member: Member, version: int) -> SavedMember:
    # Version 0 has no rebalance timeout: the session timeout was used for it.
    rebalance_timeout = member.rebalance_timeout if version > 0 else member.session_timeout
    return SavedMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        rebalance_timeout,
        member.session_timeout,
        member.subscription,
        member.assignment,
    )


def _tombstone(key: GroupMetadataKey) -> ClassicGroupTombstone:
    return ClassicGroupTombstone(key.group)


RECORD_TYPES = {GROUP: RecordType(GroupMetadataKey, GroupMetadataValue, _saved, _tombstone)}
