"""Every record of `__consumer_offsets` to its bytes and back."""

from collections.abc import Callable
from typing import Any

from ottla.coordinators.group.records import classic, consumer, consumer_codec, offsets
from ottla.coordinators.group.records.stored_record import Reading, Stored, from_bytes, to_bytes

Record = (
    offsets.OffsetCommitted
    | offsets.OffsetForgotten
    | classic.ClassicGroupSaved
    | classic.ClassicGroupForgotten
    | consumer.ConsumerGroupSaved
    | consumer.ConsumerGroupForgotten
    | consumer.ConsumerMemberSaved
    | consumer.ConsumerMemberForgotten
    | consumer.TargetEpochSaved
    | consumer.TargetEpochForgotten
    | consumer.TargetAssignmentSaved
    | consumer.TargetAssignmentForgotten
    | consumer.CurrentAssignmentSaved
    | consumer.CurrentAssignmentForgotten
    | consumer.RegexResolved
    | consumer.RegexForgotten
)

_READINGS: dict[int, Reading] = offsets.READINGS | classic.READINGS | consumer_codec.READINGS
_STORES: dict[type[Any], Callable[[Any], Stored]] = {
    offsets.OffsetForgotten: offsets.store_forgotten,
    classic.ClassicGroupSaved: classic.store_saved,
    classic.ClassicGroupForgotten: classic.store_forgotten,
    consumer.ConsumerGroupSaved: consumer_codec.store_group,
    consumer.ConsumerGroupForgotten: consumer_codec.store_group_forgotten,
    consumer.ConsumerMemberSaved: consumer_codec.store_member,
    consumer.ConsumerMemberForgotten: consumer_codec.store_member_forgotten,
    consumer.TargetEpochSaved: consumer_codec.store_target_epoch,
    consumer.TargetEpochForgotten: consumer_codec.store_target_epoch_forgotten,
    consumer.TargetAssignmentSaved: consumer_codec.store_target_assignment,
    consumer.TargetAssignmentForgotten: consumer_codec.store_target_assignment_forgotten,
    consumer.CurrentAssignmentSaved: consumer_codec.store_current_assignment,
    consumer.CurrentAssignmentForgotten: consumer_codec.store_current_assignment_forgotten,
    consumer.RegexResolved: consumer_codec.store_regex,
    consumer.RegexForgotten: consumer_codec.store_regex_forgotten,
}


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """The key and the value that stand in the log; a value of None is a tombstone.

    EncodeError for a value that Kafka's form cannot hold, such as an id of more than 32,767 bytes.
    """
    if isinstance(record, offsets.OffsetCommitted):
        return offsets.encode_committed(record)
    return to_bytes(_STORES[type(record)](record))


def decode(key: bytes, value: bytes | None) -> Record | None:
    """The record, or None if it is of a kind that is not known, which a reader skips.

    DamagedRecord if the bytes are not what their type and version say.
    """
    record: Record | None = from_bytes(_READINGS, key, value)
    return record
