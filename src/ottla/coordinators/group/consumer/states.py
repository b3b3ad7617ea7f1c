"""Where a group of the consumer protocol stands, as a table: the state is not saved, it follows."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple


class ConsumerGroupState(StrEnum):
    """By the names that ListGroups and ConsumerGroupDescribe show."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class Standing(NamedTuple):
    """What the state of a group with members follows from."""

    # Its epoch is ahead of its target's: partitions are to be shared out again.
    is_target_due: bool
    # Every member is stable at the target's epoch.
    is_settled: bool


# Without members it is empty, whatever else there is to say.
STATES: Mapping[Standing, ConsumerGroupState] = MappingProxyType(
    {
        Standing(is_target_due=True, is_settled=False): ConsumerGroupState.ASSIGNING,
        Standing(is_target_due=True, is_settled=True): ConsumerGroupState.ASSIGNING,
        Standing(is_target_due=False, is_settled=False): ConsumerGroupState.RECONCILING,
        Standing(is_target_due=False, is_settled=True): ConsumerGroupState.STABLE,
    }
)
