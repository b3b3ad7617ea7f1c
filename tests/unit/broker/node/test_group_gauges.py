"""The metrics of groups in a scrape: each changes with the events that it counts."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.broker.node.node import Node
from ottla.errors import StorageError
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, Protocol
from tests.support.broker.group_requests import QUICK, codes, commit, committed, find, join
from tests.support.broker.nodes import with_node
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic
from tests.unit.broker.node.test_gauges import shown

MANAGER = "kafka_coordinator_group_groupmetadatamanager_"
COORDINATOR = "kafka_server_group_coordinator_metrics_"
# Longer than the period of the group gauges.
A_LOOK_S = 11
Story = Callable[[Client, Node], Coroutine[Any, Any, None]]


def number(node: Node, name: str) -> float:
    return float(shown(node)[name])


async def consumer_joins(client: Client, group_id: str, member_id: str) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("events",),
        topic_partitions=(),
    )
    response = await client.ask(request)
    assert response.error_code == 0, response


def test_groups_are_shown_by_protocol_and_state_with_their_members() -> None:
    async def story(client: Client, node: Node) -> None:
        await create(client, new_topic("events"))
        await find(client, "old", "new", "simple")
        await join(client, "old")
        await consumer_joins(client, "new", "one")
        assert codes(await client.ask(commit("simple", "events", {0: 5}), 9)) == [0]
        await asyncio.sleep(A_LOOK_S)
        assert number(node, f"{MANAGER}numgroups") == 2
        assert number(node, f"{MANAGER}numgroupsempty") == 1
        assert number(node, f"{MANAGER}numgroupsdead") == 0
        assert number(node, f'{COORDINATOR}group_count{{protocol="classic"}}') == 2
        assert number(node, f'{COORDINATOR}group_count{{protocol="consumer"}}') == 1
        assert number(node, f'{COORDINATOR}consumer_group_count{{state="stable"}}') == 1
        assert number(node, f'{COORDINATOR}consumer_group_count{{state="empty"}}') == 0
        assert number(node, 'ottla_group_members{protocol="classic"}') == 1
        assert number(node, 'ottla_group_members{protocol="consumer"}') == 1
        assert number(node, f'{COORDINATOR}num_partitions{{state="active"}}') == 50
        assert number(node, f'{COORDINATOR}num_partitions{{state="loading"}}') == 0

    with_node(story, **{**QUICK, "group_max_session_timeout_ms": "1800000"})


def test_a_classic_group_is_shown_while_its_members_join_and_wait() -> None:
    async def story(client: Client, node: Node) -> None:
        await find(client, "g")
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            member_id="",
            protocol_type="consumer",
            protocols=(Protocol(name="range", metadata=b""),),
        )
        joining = asyncio.create_task(client.ask(request, 3))
        await asyncio.sleep(A_LOOK_S)
        assert number(node, f"{MANAGER}numgroupspreparingrebalance") == 1
        assert (await joining).error_code == 0
        await asyncio.sleep(A_LOOK_S)
        assert number(node, f"{MANAGER}numgroupscompletingrebalance") == 1
        assert number(node, f"{COORDINATOR}group_completed_rebalance_count_total") == 0

    with_node(story, group_initial_rebalance_delay_ms="15000")


def test_commits_and_rebalances_are_counted_and_not_again_after_a_restart() -> None:
    machine = Machine()

    async def first_life(client: Client, node: Node) -> None:
        await create(client, new_topic("events", 3))
        await find(client, "old", "new")
        await join(client, "old")
        await join(client, "other")
        await consumer_joins(client, "new", "one")
        await consumer_joins(client, "new", "two")
        assert codes(await client.ask(commit("simple", "events", {0: 5, 1: 6}), 9)) == [0, 0]
        assert codes(await client.ask(commit("simple", "events", {0: 7}), 9)) == [0]
        assert number(node, f"{COORDINATOR}offset_commit_count_total") == 3
        assert number(node, f"{COORDINATOR}group_completed_rebalance_count_total") == 2
        assert number(node, f"{COORDINATOR}consumer_group_rebalance_count_total") == 2
        assert node.metrics.groups.loads == 0

    async def second_life(client: Client, node: Node) -> None:
        assert await committed(client, "simple") == {("events", 0): 7, ("events", 1): 6}
        await asyncio.sleep(1)
        assert node.metrics.groups.loads > 0
        assert number(node, f"{COORDINATOR}offset_commit_count_total") == 0
        assert number(node, f"{COORDINATOR}group_completed_rebalance_count_total") == 0
        assert number(node, f"{COORDINATOR}consumer_group_rebalance_count_total") == 0
        assert number(node, f"{COORDINATOR}partition_load_time_max") >= 1
        assert number(node, f"{COORDINATOR}partition_load_time_avg") > 0

    with_node(first_life, machine, **QUICK)
    with_node(second_life, machine, **QUICK)


def test_offsets_that_expire_are_counted() -> None:
    async def story(client: Client, node: Node) -> None:
        await create(client, new_topic("events", 2))
        await find(client, "g")
        assert codes(await client.ask(commit("g", "events", {0: 5, 1: 6}), 9)) == [0, 0]
        assert number(node, f"{COORDINATOR}offset_expiration_count_total") == 0
        await asyncio.sleep(180)
        assert number(node, f"{COORDINATOR}offset_expiration_count_total") == 2

    with_node(story, offsets_retention_minutes="1", offsets_retention_check_interval_ms="30000")


def test_a_partition_that_cannot_be_loaded_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()

    async def first_life(client: Client, node: Node) -> None:
        await create(client, new_topic("events"))
        await find(client, "g")
        assert codes(await client.ask(commit("g", "events", {0: 5}), 9)) == [0]
        assert number(node, "ottla_group_coordinator_failures_total") == 0

    async def second_life(client: Client, node: Node) -> None:
        await asyncio.sleep(A_LOOK_S)
        assert number(node, "ottla_group_coordinator_failures_total") == 1
        assert number(node, f'{COORDINATOR}num_partitions{{state="loading"}}') == 1

    async def fail(_loader: object) -> bool:
        raise StorageError("the disk is gone")

    with_node(first_life, machine)
    monkeypatch.setattr("ottla.coordinators.runtime.loading.Loader.load", fail)
    with_node(second_life, machine)


def test_the_longest_stall_and_the_longest_load_are_shown() -> None:
    async def story(_client: Client, node: Node) -> None:
        meter = node.metrics.groups
        meter.note_load(took_ms=30, longest_stall_ns=2_000_000)
        meter.note_load(took_ms=10, longest_stall_ns=5_000_000)
        meter.note_load(took_ms=20, longest_stall_ns=1_000_000)
        assert number(node, f"{COORDINATOR}partition_load_time_max") == 30
        assert number(node, f"{COORDINATOR}partition_load_time_avg") == 20
        assert number(node, "ottla_group_load_longest_stall_seconds") == 0.005

    with_node(story)
