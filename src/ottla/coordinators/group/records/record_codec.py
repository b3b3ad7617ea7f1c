"""Encodes and decodes every record of `__consumer_offsets`."""

from collections.abc import Callable
from typing import Any

from ottla.coordinators.group.records import classic, consumer, consumer_codec, offsets
from ottla.coordinators.stored_record import (
    RecordType,
    StoredRecord,
    from_bytes,
    to_bytes,
)

Record = (
    offsets.OffsetCommitted
    | offsets.OffsetTombstone
    | classic.ClassicGroupSaved
    | classic.ClassicGroupTombstone
    | consumer.ConsumerGroupSaved
    | consumer.ConsumerGroupTombstone
    | consumer.ConsumerMemberSaved
    | consumer.ConsumerMemberTombstone
    | consumer.TargetEpochSaved
    | consumer.TargetEpochTombstone
    | consumer.TargetAssignmentSaved
    | consumer.TargetAssignmentTombstone
    | consumer.CurrentAssignmentSaved
    | consumer.CurrentAssignmentTombstone
    | consumer.RegexResolved
    | consumer.RegexTombstone
)

_RECORD_TYPES: dict[int, RecordType] = (
    offsets.RECORD_TYPES | classic.RECORD_TYPES | consumer_codec.RECORD_TYPES
)
_STORES: dict[type[Any], Callable[[Any], StoredRecord]] = {
    offsets.OffsetTombstone: offsets.store_tombstone,
    classic.ClassicGroupSaved: classic.store_saved,
    classic.ClassicGroupTombstone: classic.store_tombstone,
    consumer.ConsumerGroupSaved: consumer_codec.store_group,
    consumer.ConsumerGroupTombstone: consumer_codec.store_group_tombstone,
    consumer.ConsumerMemberSaved: consumer_codec.store_member,
    consumer.ConsumerMemberTombstone: consumer_codec.store_member_tombstone,
    consumer.TargetEpochSaved: consumer_codec.store_target_epoch,
    consumer.TargetEpochTombstone: consumer_codec.store_target_epoch_tombstone,
    consumer.TargetAssignmentSaved: consumer_codec.store_target_assignment,
    consumer.TargetAssignmentTombstone: consumer_codec.store_target_assignment_tombstone,
    consumer.CurrentAssignmentSaved: consumer_codec.store_current_assignment,
    consumer.CurrentAssignmentTombstone: consumer_codec.store_current_assignment_tombstone,
    consumer.RegexResolved: consumer_codec.store_regex,
    consumer.RegexTombstone: consumer_codec.store_regex_tombstone,
}


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """The key and the value in the log; a value of None is a tombstone.

    EncodeError for a field that Kafka's format cannot hold, such as an id of over 32,767 bytes.
    """
    if isinstance(record, offsets.OffsetCommitted):
        return offsets.encode_committed(record)
    return to_bytes(_STORES[type(record)](record))


def decode(key: bytes, value: bytes | None) -> Record | None:
    """The record, or None if its type is unknown, which a reader skips.

    DamagedRecord if the bytes do not match their type and version.
    """
    record: Record | None = from_bytes(_RECORD_TYPES, key, value)
    return record
