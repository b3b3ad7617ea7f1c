"""Heartbeats for a group that exists, does not exist, or has the other type."""

from typing import Any

import pytest

from ottla.coordinators.group.consumer.group import ConsumerGroup
from ottla.coordinators.group.consumer.heartbeat_request import Heartbeat
from ottla.coordinators.group.consumer.routing import (
    add_joining_member,
    consumer_group,
    handle_heartbeat,
)
from ottla.coordinators.group.consumer.rules import ConsumerRules
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.machine import GroupMachine, GroupRules
from ottla.coordinators.group.records import OffsetCommitted
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.primitives import ZERO_UUID
from tests.support.coordinators.consumer_clients import FakeTopics, match_by_prefix

RULES = ConsumerRules()


def group_machine() -> GroupMachine:
    def no_classic(group_id: str) -> Any:
        raise AssertionError(f"{group_id} is no classic group")

    rules = GroupRules(
        offset_metadata_bytes_max=4096,
        commit_bytes_max=1 << 20,
        offsets_retention_ms=1000,
        retention_check_interval_ms=1000,
        groups_max=100,
    )
    return GroupMachine(rules, no_classic, ConsumerGroup)


def join(group_id: str, *topics: str) -> Heartbeat:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=topics,
        topic_partitions=(),
    )
    return Heartbeat(request, "m", "test", "/", 1, 1_000, FakeTopics(logs=2), match_by_prefix)


def carry_out(machine: GroupMachine, decision: Decision) -> None:
    for record in decision.records:
        machine.replay(record)


def test_a_group_exists_once_its_first_record_is_replayed() -> None:
    machine = group_machine()
    decision = handle_heartbeat(machine, RULES, join("g", "logs"))
    assert "g" not in machine
    carry_out(machine, decision)
    assert consumer_group(machine, "g").state_name == "Stable"


def test_a_group_takes_over_the_offsets_of_a_simple_consumer() -> None:
    machine = group_machine()
    machine.replay(OffsetCommitted("g", "logs", 0, 5, -1, "", 1, -1, ZERO_UUID))
    with pytest.raises(PeerError, match="is not a consumer group"):
        consumer_group(machine, "g")
    carry_out(machine, handle_heartbeat(machine, RULES, join("g", "logs")))
    assert consumer_group(machine, "g").is_subscribed_to("logs")
    assert machine.offsets.get("g", "logs", 0) is not None


def test_the_number_of_consumer_groups_is_limited() -> None:
    machine = group_machine()
    rules = RULES._replace(groups_max=1)
    carry_out(machine, handle_heartbeat(machine, rules, join("g", "logs")))
    with pytest.raises(PeerError) as refused:
        handle_heartbeat(machine, rules, join("h", "logs"))
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    assert handle_heartbeat(machine, rules, join("g", "logs")).answers


def test_a_group_exists_once_its_first_member_is_added() -> None:
    machine = group_machine()
    carry_out(machine, add_joining_member(machine, RULES, join("g", "logs")))
    assert consumer_group(machine, "g").state_name == "Assigning"
    carry_out(machine, handle_heartbeat(machine, RULES, join("g", "logs")))
    assert consumer_group(machine, "g").state_name == "Stable"
