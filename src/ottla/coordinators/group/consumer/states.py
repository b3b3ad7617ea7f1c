"""The state of a consumer group, as a table: it is derived, not stored."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple


class ConsumerGroupState(StrEnum):
    """The state of a group, by the names that ListGroups and ConsumerGroupDescribe show."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class GroupProgress(NamedTuple):
    """The conditions that determine the state of a group with members."""

    # The group's epoch is ahead of its target's: a new target assignment is due.
    is_target_due: bool
    # Every member is stable at the target's epoch.
    is_settled: bool


# A group without members is always Empty.
STATES: Mapping[GroupProgress, ConsumerGroupState] = MappingProxyType(
    {
        GroupProgress(is_target_due=True, is_settled=False): ConsumerGroupState.ASSIGNING,
        GroupProgress(is_target_due=True, is_settled=True): ConsumerGroupState.ASSIGNING,
        GroupProgress(is_target_due=False, is_settled=False): ConsumerGroupState.RECONCILING,
        GroupProgress(is_target_due=False, is_settled=True): ConsumerGroupState.STABLE,
    }
)
