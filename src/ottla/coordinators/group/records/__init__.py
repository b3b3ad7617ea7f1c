"""The records of `__consumer_offsets`, in Kafka's own form, so that either reads what both wrote.

`encode(record)` gives the key and the value (None: a tombstone) that stand in the log, and
`decode(key, value)` the record again.
"""

from ottla.coordinators.group.records.classic import (
    ClassicGroupForgotten,
    ClassicGroupSaved,
    SavedMember,
)
from ottla.coordinators.group.records.consumer import (
    ClassicMember,
    ConsumerGroupForgotten,
    ConsumerGroupSaved,
    ConsumerMemberForgotten,
    ConsumerMemberSaved,
    CurrentAssignmentForgotten,
    CurrentAssignmentSaved,
    Partitions,
    RegexForgotten,
    RegexResolved,
    TargetAssignmentForgotten,
    TargetAssignmentSaved,
    TargetEpochForgotten,
    TargetEpochSaved,
)
from ottla.coordinators.group.records.offsets import OffsetCommitted, OffsetForgotten
from ottla.coordinators.group.records.record_codec import Record, decode, encode
from ottla.coordinators.group.records.stored_record import DamagedRecord

__all__ = [
    "ClassicGroupForgotten",
    "ClassicGroupSaved",
    "ClassicMember",
    "ConsumerGroupForgotten",
    "ConsumerGroupSaved",
    "ConsumerMemberForgotten",
    "ConsumerMemberSaved",
    "CurrentAssignmentForgotten",
    "CurrentAssignmentSaved",
    "DamagedRecord",
    "OffsetCommitted",
    "OffsetForgotten",
    "Partitions",
    "Record",
    "RegexForgotten",
    "RegexResolved",
    "SavedMember",
    "TargetAssignmentForgotten",
    "TargetAssignmentSaved",
    "TargetEpochForgotten",
    "TargetEpochSaved",
    "decode",
    "encode",
]
