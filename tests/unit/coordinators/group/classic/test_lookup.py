"""Classic groups are created by joins, or converted from empty consumer groups."""

import pytest

from ottla.coordinators.group.classic import lookup
from ottla.coordinators.group.classic.group import ClassicGroup, new_group_record
from ottla.coordinators.group.consumer.group import ConsumerGroup
from ottla.coordinators.group.machine import GroupMachine, GroupRules
from ottla.coordinators.group.records import ConsumerGroupSaved, ConsumerGroupTombstone
from ottla.coordinators.runtime.decision import NOTHING
from ottla.errors import ErrorCode, PeerError
from tests.support.coordinators.classic_group import CLASSIC_RULES, GROUP

RULES = GroupRules(
    offset_metadata_bytes_max=4096,
    offsets_retention_ms=1,
    retention_check_interval_ms=1,
    groups_max=1,
    commit_bytes_max=1_000,
)


class NonEmpty(ConsumerGroup):
    """A consumer group with members."""

    @property
    def is_empty(self) -> bool:
        return False


def _machine(consumer: type[ConsumerGroup] = ConsumerGroup) -> GroupMachine:
    return GroupMachine(RULES, lambda group_id: ClassicGroup(group_id, CLASSIC_RULES), consumer)


def test_a_join_creates_a_missing_group_once() -> None:
    machine = _machine()
    assert lookup.find(machine, GROUP) is None
    decision = lookup.open_to_join(machine, GROUP, 5)
    assert decision.records == (new_group_record(GROUP, 5),)
    for record in decision.records:
        machine.replay(record)
    assert lookup.require(machine, GROUP).is_empty
    assert lookup.open_to_join(machine, GROUP, 6) == NOTHING


def test_no_more_groups_are_created_than_allowed() -> None:
    machine = _machine()
    lookup.open_to_join(machine, GROUP, 5)
    with pytest.raises(PeerError):
        lookup.open_to_join(machine, "one more", 5)


def test_members_of_a_missing_group_are_unknown() -> None:
    with pytest.raises(PeerError) as refused:
        lookup.require(_machine(), GROUP)
    assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_consumer_group_is_converted_to_a_classic_one() -> None:
    machine = _machine()
    machine.replay(ConsumerGroupSaved(GROUP, 3, 0))
    decision = lookup.open_to_join(machine, GROUP, 5)
    assert ConsumerGroupTombstone(GROUP) in decision.records
    for record in decision.records:
        machine.replay(record)
    assert lookup.require(machine, GROUP).generation == 0


def test_a_consumer_group_with_members_is_not_converted() -> None:
    machine = _machine(NonEmpty)
    machine.replay(ConsumerGroupSaved(GROUP, 3, 0))
    assert lookup.open_to_join(machine, GROUP, 5) == NOTHING
    assert isinstance(machine.groups[GROUP], ConsumerGroup)
