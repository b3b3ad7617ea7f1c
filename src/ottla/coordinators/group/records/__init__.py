"""The records of `__consumer_offsets` in Kafka's own format: Kafka reads ours, and we read Kafka's.

`encode(record)` returns the key and the value in the log (None for a tombstone), and
`decode(key, value)` returns the record.
"""

from ottla.coordinators.group.records.classic import (
    ClassicGroupSaved,
    ClassicGroupTombstone,
    SavedMember,
)
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
from ottla.coordinators.group.records.offsets import OffsetCommitted, OffsetTombstone
from ottla.coordinators.group.records.record_codec import Record, decode, encode
from ottla.coordinators.stored_record import DamagedRecord

__all__ = [
    "ClassicGroupSaved",
    "ClassicGroupTombstone",
    "ClassicMetadata",
    "ConsumerGroupSaved",
    "ConsumerGroupTombstone",
    "ConsumerMemberSaved",
    "ConsumerMemberTombstone",
    "CurrentAssignmentSaved",
    "CurrentAssignmentTombstone",
    "DamagedRecord",
    "OffsetCommitted",
    "OffsetTombstone",
    "Partitions",
    "Record",
    "RegexResolved",
    "RegexTombstone",
    "SavedMember",
    "TargetAssignmentSaved",
    "TargetAssignmentTombstone",
    "TargetEpochSaved",
    "TargetEpochTombstone",
    "decode",
    "encode",
]
