"""The records of consumer groups as messages of their keys and values: types 3 to 8, and 16.

Type 4, the partitions of subscribed topics, is not read: Kafka replaced it by a hash.
"""

from typing import Any

from ottla.coordinators.group.records.consumer import (
    ClassicMetadata,
    ConsumerGroupSaved,
    ConsumerGroupTombstone,
    ConsumerMemberSaved,
    ConsumerMemberTombstone,
    CurrentAssignmentSaved,
    CurrentAssignmentTombstone,
    Partitions,
    RegexResolved,
    RegexTombstone,
    TargetAssignmentSaved,
    TargetAssignmentTombstone,
    TargetEpochSaved,
    TargetEpochTombstone,
)
from ottla.coordinators.stored_record import (
    DamagedRecord,
    RecordType,
    StoredRecord,
    message_in,
)
from ottla.protocol import codec
from ottla.protocol.codec import header, struct, tagged
from ottla.protocol.primitives import Uuid, i8, i32, i64

GROUP = 3
MEMBER = 5
TARGET_EPOCH = 6
TARGET_ASSIGNMENT = 7
CURRENT_ASSIGNMENT = 8
REGEX = 16

EMPTY_CLASSIC_METADATA = ClassicMetadata(session_timeout_ms=0, protocols=())


@struct
class ConsumerGroupMetadataKey:
    group_id: str


@struct
class MemberKey:
    group_id: str
    member_id: str


@struct
class RegexKey:
    group_id: str
    regular_expression: str


@header(versions=(0, 0), flexible=0)
class ConsumerGroupMetadataValue:
    epoch: i32
    metadata_hash: i64 = tagged(0, since=0, default=0)


# A member of the consumer protocol has null as its classic metadata: Kafka reads an absent tag as
# empty metadata. Null is one tag, number 0, of 1 byte, which is 0. The codec has no null for a
# tagged struct: it reads and writes one whose first byte is 0 instead of 1 and that is empty.
_NULL = bytes((1, 0, 1, 0))
_NULL_AS_STRUCT = bytes((1, 0, 7, 0, 0, 0, 0, 0, 1, 0))


@struct
class ClassicProtocol:
    name: str
    metadata: bytes


@struct
class ClassicMemberMetadata:
    presence: i8 = 1
    session_timeout_ms: i32 = 0
    supported_protocols: tuple[ClassicProtocol, ...] = ()


@header(versions=(0, 0), flexible=0)
class MemberValue:
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: i32
    server_assignor: str | None
    classic: ClassicMemberMetadata | None = tagged(0, since=0, default=None)


@header(versions=(0, 0), flexible=0)
class TargetEpochValue:
    assignment_epoch: i32
    assignment_timestamp: i64 = tagged(0, since=0, default=0, ignorable=True)


@struct
class TargetPartitions:
    topic_id: Uuid
    partitions: tuple[i32, ...]


@header(versions=(0, 0), flexible=0)
class TargetAssignmentValue:
    topic_partitions: tuple[TargetPartitions, ...]


@struct
class CurrentPartitions:
    topic_id: Uuid
    partitions: tuple[i32, ...]
    assignment_epochs: tuple[i32, ...] | None = tagged(0, since=0, default=())


@header(versions=(0, 0), flexible=0)
class CurrentAssignmentValue:
    member_epoch: i32
    previous_member_epoch: i32
    state: i8
    assigned_partitions: tuple[CurrentPartitions, ...]
    partitions_pending_revocation: tuple[CurrentPartitions, ...]


@header(versions=(0, 0), flexible=0)
class RegexValue:
    topics: tuple[str, ...]
    version: i64
    timestamp: i64


def store_group(record: ConsumerGroupSaved) -> StoredRecord:
    value = ConsumerGroupMetadataValue(epoch=record.epoch, metadata_hash=record.metadata_hash)
    return StoredRecord(GROUP, ConsumerGroupMetadataKey(group_id=record.group), value)


def store_member(record: ConsumerMemberSaved) -> StoredRecord:
    value = MemberValue(
        instance_id=record.instance_id,
        rack_id=record.rack,
        client_id=record.client_id,
        client_host=record.client_host,
        subscribed_topic_names=record.topics,
        subscribed_topic_regex=record.regex,
        rebalance_timeout_ms=record.rebalance_timeout_ms,
        server_assignor=record.server_assignor,
        classic=_store_classic(record.classic),
    )
    raw = codec.encode_bytes(value, 0)
    if record.classic is None:
        raw = raw.removesuffix(_NULL_AS_STRUCT) + _NULL
    return StoredRecord(MEMBER, _member_key(record), raw)


def store_target_epoch(record: TargetEpochSaved) -> StoredRecord:
    value = TargetEpochValue(assignment_epoch=record.epoch, assignment_timestamp=record.assigned_ms)
    return StoredRecord(TARGET_EPOCH, ConsumerGroupMetadataKey(group_id=record.group), value)


def store_target_assignment(record: TargetAssignmentSaved) -> StoredRecord:
    topics = [
        TargetPartitions(topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in record.partitions.items()
    ]
    value = TargetAssignmentValue(topic_partitions=tuple(topics))
    return StoredRecord(TARGET_ASSIGNMENT, _member_key(record), value)


def store_current_assignment(record: CurrentAssignmentSaved) -> StoredRecord:
    value = CurrentAssignmentValue(
        member_epoch=record.epoch,
        previous_member_epoch=record.previous_epoch,
        state=record.state,
        assigned_partitions=_store_current(record.assigned, record.assigned_epochs),
        partitions_pending_revocation=_store_current(record.revoking, record.revoking_epochs),
    )
    return StoredRecord(CURRENT_ASSIGNMENT, _member_key(record), value)


def store_regex(record: RegexResolved) -> StoredRecord:
    value = RegexValue(topics=record.topics, version=record.version, timestamp=record.resolved_ms)
    return StoredRecord(
        REGEX, RegexKey(group_id=record.group, regular_expression=record.regex), value
    )


def store_group_tombstone(record: ConsumerGroupTombstone) -> StoredRecord:
    return StoredRecord(GROUP, ConsumerGroupMetadataKey(group_id=record.group))


def store_member_tombstone(record: ConsumerMemberTombstone) -> StoredRecord:
    return StoredRecord(MEMBER, _member_key(record))


def store_target_epoch_tombstone(record: TargetEpochTombstone) -> StoredRecord:
    return StoredRecord(TARGET_EPOCH, ConsumerGroupMetadataKey(group_id=record.group))


def store_target_assignment_tombstone(record: TargetAssignmentTombstone) -> StoredRecord:
    return StoredRecord(TARGET_ASSIGNMENT, _member_key(record))


def store_current_assignment_tombstone(record: CurrentAssignmentTombstone) -> StoredRecord:
    return StoredRecord(CURRENT_ASSIGNMENT, _member_key(record))


def store_regex_tombstone(record: RegexTombstone) -> StoredRecord:
    return StoredRecord(REGEX, RegexKey(group_id=record.group, regular_expression=record.regex))


def _member_key(record: Any) -> MemberKey:
    return MemberKey(group_id=record.group, member_id=record.member_id)


def _store_classic(classic: ClassicMetadata | None) -> ClassicMemberMetadata | None:
    if classic is None:
        return ClassicMemberMetadata(presence=0)
    if classic == EMPTY_CLASSIC_METADATA:
        return None
    return ClassicMemberMetadata(
        session_timeout_ms=classic.session_timeout_ms,
        supported_protocols=tuple(
            ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols
        ),
    )


def _store_current(partitions: Partitions, epochs: Partitions) -> tuple[CurrentPartitions, ...]:
    return tuple(
        CurrentPartitions(
            topic_id=topic_id, partitions=indexes, assignment_epochs=epochs.get(topic_id, ())
        )
        for topic_id, indexes in partitions.items()
    )


def _group(
    key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue, _version: int
) -> ConsumerGroupSaved:
    return ConsumerGroupSaved(key.group_id, value.epoch, value.metadata_hash)


def _member(key: MemberKey, value: MemberValue, _version: int) -> ConsumerMemberSaved:
    return ConsumerMemberSaved(
        key.group_id,
        key.member_id,
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        value.subscribed_topic_names,
        value.subscribed_topic_regex,
        value.rebalance_timeout_ms,
        value.server_assignor,
        _classic(value.classic),
    )


def _parse_member(declared: type[Any], version: int, raw: bytes) -> Any:
    """The value, where a null at its end is replaced by the struct that the codec can read."""
    if raw.endswith(_NULL):
        try:
            return message_in(declared, version, raw.removesuffix(_NULL) + _NULL_AS_STRUCT)
        except DamagedRecord:
            # Classic metadata may end in the same bytes; replaced, it is longer than its tag says.
            pass
    return message_in(declared, version, raw)


def _classic(found: ClassicMemberMetadata | None) -> ClassicMetadata | None:
    if found is None:
        return EMPTY_CLASSIC_METADATA
    if found.presence == 0:
        return None
    protocols = tuple((protocol.name, protocol.metadata) for protocol in found.supported_protocols)
    return ClassicMetadata(found.session_timeout_ms, protocols)


def _target_epoch(
    key: ConsumerGroupMetadataKey, value: TargetEpochValue, _version: int
) -> TargetEpochSaved:
    return TargetEpochSaved(key.group_id, value.assignment_epoch, value.assignment_timestamp)


def _target_assignment(
    key: MemberKey, value: TargetAssignmentValue, _version: int
) -> TargetAssignmentSaved:
    return TargetAssignmentSaved(key.group_id, key.member_id, _partitions(value.topic_partitions))


def _current_assignment(
    key: MemberKey, value: CurrentAssignmentValue, _version: int
) -> CurrentAssignmentSaved:
    assigned, revoking = value.assigned_partitions, value.partitions_pending_revocation
    return CurrentAssignmentSaved(
        key.group_id,
        key.member_id,
        value.member_epoch,
        value.previous_member_epoch,
        value.state,
        _partitions(assigned),
        _partitions(revoking),
        _epochs(assigned),
        _epochs(revoking),
    )


def _partitions(topics: tuple[TargetPartitions, ...] | tuple[CurrentPartitions, ...]) -> Partitions:
    by_topic = {topic.topic_id: topic.partitions for topic in topics}
    if len(by_topic) < len(topics):
        raise DamagedRecord("an assignment names a topic twice")
    return by_topic


def _epochs(topics: tuple[CurrentPartitions, ...]) -> Partitions:
    by_topic = {}
    for topic in topics:
        if not topic.assignment_epochs:
            continue
        if len(topic.assignment_epochs) != len(topic.partitions):
            raise DamagedRecord("an assignment has not one epoch for each partition")
        by_topic[topic.topic_id] = topic.assignment_epochs
    return by_topic


def _regex(key: RegexKey, value: RegexValue, _version: int) -> RegexResolved:
    return RegexResolved(
        key.group_id, key.regular_expression, value.topics, value.version, value.timestamp
    )


def _regex_tombstone(key: RegexKey) -> RegexTombstone:
    return RegexTombstone(key.group_id, key.regular_expression)


RECORD_TYPES = {
    GROUP: RecordType(
        ConsumerGroupMetadataKey,
        ConsumerGroupMetadataValue,
        _group,
        lambda key: ConsumerGroupTombstone(key.group_id),
    ),
    MEMBER: RecordType(
        MemberKey,
        MemberValue,
        _member,
        lambda key: ConsumerMemberTombstone(key.group_id, key.member_id),
        _parse_member,
    ),
    TARGET_EPOCH: RecordType(
        ConsumerGroupMetadataKey,
        TargetEpochValue,
        _target_epoch,
        lambda key: TargetEpochTombstone(key.group_id),
    ),
    TARGET_ASSIGNMENT: RecordType(
        MemberKey,
        TargetAssignmentValue,
        _target_assignment,
        lambda key: TargetAssignmentTombstone(key.group_id, key.member_id),
    ),
    CURRENT_ASSIGNMENT: RecordType(
        MemberKey,
        CurrentAssignmentValue,
        _current_assignment,
        lambda key: CurrentAssignmentTombstone(key.group_id, key.member_id),
    ),
    REGEX: RecordType(RegexKey, RegexValue, _regex, _regex_tombstone),
}
