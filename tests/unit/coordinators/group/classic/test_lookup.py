"""Classic groups among others: created by who joins, converted when nobody is left."""

import pytest

from ottla.coordinators.group.classic import lookup
from ottla.coordinators.group.classic.group import ClassicGroup, created
from ottla.coordinators.group.consumer.group import ConsumerGroup
from ottla.coordinators.group.machine import GroupMachine, GroupRules
from ottla.coordinators.group.records import ConsumerGroupForgotten, ConsumerGroupSaved
from ottla.coordinators.runtime.decision import NOTHING
from ottla.errors import ErrorCode, PeerError
from tests.support.coordinators.classic_group import GROUP, LIMITS

RULES = GroupRules(
    offset_metadata_bytes_max=4096,
    offsets_retention_ms=1,
    retention_check_interval_ms=1,
    groups_max=1,
    commit_bytes_max=1_000,
)


class Inhabited(ConsumerGroup):
    """One with members, whoever they are."""

    @property
    def is_empty(self) -> bool:
        return False


def _machine(consumer: type[ConsumerGroup] = ConsumerGroup) -> GroupMachine:
    return GroupMachine(RULES, lambda group_id: ClassicGroup(group_id, LIMITS), consumer)


def test_who_joins_a_group_that_is_not_there_creates_it_once() -> None:
    machine = _machine()
    assert lookup.find(machine, GROUP) is None
    decision = lookup.open_to_join(machine, GROUP, 5)
    assert decision.records == (created(GROUP, 5),)
    for record in decision.records:
        machine.replay(record)
    assert lookup.require(machine, GROUP).is_empty
    assert lookup.open_to_join(machine, GROUP, 6) == NOTHING


def test_there_is_no_room_for_more_groups_than_allowed() -> None:
    machine = _machine()
    lookup.open_to_join(machine, GROUP, 5)
    with pytest.raises(PeerError):
        lookup.open_to_join(machine, "one more", 5)


def test_members_of_no_group_are_unknown() -> None:
    with pytest.raises(PeerError) as refused:
        lookup.require(_machine(), GROUP)
    assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_of_the_new_protocol_becomes_a_classic_one() -> None:
    machine = _machine()
    machine.replay(ConsumerGroupSaved(GROUP, 3, 0))
    decision = lookup.open_to_join(machine, GROUP, 5)
    assert ConsumerGroupForgotten(GROUP) in decision.records
    for record in decision.records:
        machine.replay(record)
    assert lookup.require(machine, GROUP).generation == 0


def test_a_group_with_members_of_the_new_protocol_stays_what_it_is() -> None:
    machine = _machine(Inhabited)
    machine.replay(ConsumerGroupSaved(GROUP, 3, 0))
    assert lookup.open_to_join(machine, GROUP, 5) == NOTHING
    assert isinstance(machine.groups[GROUP], ConsumerGroup)
