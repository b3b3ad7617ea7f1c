"""Configs of single groups: changed, described, listed and applied, within the broker's bounds."""

import asyncio
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages import alter_configs as whole
from ottla.protocol.messages import incremental_alter_configs as incremental
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest
from ottla.protocol.messages.describe_configs import Resource as DescribedResource
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest
from ottla.settings.setting import BadSetting
from ottla.settings.sources import load
from ottla.settings.table import GROUP_SETTINGS
from tests.sim.seams.loop import run
from tests.support.broker.group_requests import find
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic, with_broker

GROUP = 32
SET, DELETE = 0, 1
DEFAULT, DYNAMIC_GROUP = 5, 8
SESSION, INTERVAL, ASSIGNMENT = (
    "consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.assignment.interval.ms",
)


async def change(
    client: Client, group: str, name: str, value: str | None, *, validate_only: bool = False
) -> tuple[int, str | None]:
    """Sets a config, or deletes it with None."""
    config = incremental.Config(
        name=name, config_operation=DELETE if value is None else SET, value=value
    )
    asked = incremental.Resource(resource_type=GROUP, resource_name=group, configs=(config,))
    request = incremental.IncrementalAlterConfigsRequest(
        resources=(asked,), validate_only=validate_only
    )
    (result,) = (await client.ask(request)).responses
    return result.error_code, result.error_message


async def told(client: Client, group: str) -> dict[str, tuple[str, int]]:
    """Every config of a group, with its source."""
    asked = DescribedResource(resource_type=GROUP, resource_name=group, configuration_keys=None)
    request = DescribeConfigsRequest(resources=(asked,), include_synonyms=True)
    (result,) = (await client.ask(request)).results
    assert result.error_code == ErrorCode.NONE
    return {each.name: (each.value, each.config_source) for each in result.configs}


async def listed(client: Client) -> list[str]:
    answer = await client.ask(ListConfigResourcesRequest(resource_types=(GROUP,)))
    return [each.resource_name for each in answer.config_resources]


async def beat(client: Client, member_id: str, epoch: int, **said: Any) -> Any:
    if epoch == 0:
        said = {
            "rebalance_timeout_ms": 5_000,
            "subscribed_topic_names": ("logs",),
            "topic_partitions": (),
        } | said
    answer = await client.ask(
        ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch, **said)
    )
    assert answer.error_code == ErrorCode.NONE, answer
    return answer


async def state_of(client: Client) -> str:
    request = ConsumerGroupDescribeRequest(group_ids=("g",), include_authorized_operations=False)
    (group,) = (await client.ask(request)).groups
    return str(group.group_state)


def test_a_group_has_the_brokers_settings_until_it_has_its_own() -> None:
    machine = Machine()

    async def tell() -> None:
        async with machine.broker() as client:
            assert await told(client, "g") == {
                ASSIGNMENT: ("1000", DEFAULT),
                INTERVAL: ("5000", DEFAULT),
                SESSION: ("45000", DEFAULT),
            }
            assert await listed(client) == []
            assert await change(client, "g", SESSION, "50000") == (ErrorCode.NONE, None)
            assert await change(client, "g", INTERVAL, "6000", validate_only=True) == (0, None)
            assert (await told(client, "g"))[SESSION] == ("50000", DYNAMIC_GROUP)
            assert (await told(client, "g"))[INTERVAL] == ("5000", DEFAULT)
            assert (await told(client, "other"))[SESSION] == ("45000", DEFAULT)
        async with machine.broker() as client:
            assert (await told(client, "g"))[SESSION] == ("50000", DYNAMIC_GROUP)
            assert await listed(client) == ["g"]
            assert await change(client, "g", SESSION, None) == (ErrorCode.NONE, None)
            assert await listed(client) == []

    run(tell(), clock=machine.clock)


def test_all_settings_of_a_group_are_replaced_at_once() -> None:
    async def story(client: Client) -> None:
        await change(client, "g", SESSION, "50000")
        asked = whole.Resource(
            resource_type=GROUP,
            resource_name="g",
            configs=(whole.Config(name=INTERVAL, value="7000"),),
        )
        request = whole.AlterConfigsRequest(resources=(asked,), validate_only=False)
        (result,) = (await client.ask(request)).responses
        assert result.error_code == ErrorCode.NONE
        assert (await told(client, "g"))[SESSION] == ("45000", DEFAULT)
        assert (await told(client, "g"))[INTERVAL] == ("7000", DYNAMIC_GROUP)

    with_broker(story)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        (SESSION, "44999", "greater than or equal to group.consumer.min.session.timeout.ms"),
        (SESSION, "60001", "less than or equal to group.consumer.max.session.timeout.ms"),
        (INTERVAL, "4999", "greater than or equal to group.consumer.min.heartbeat.interval.ms"),
        (INTERVAL, "15001", "less than or equal to group.consumer.max.heartbeat.interval.ms"),
        (ASSIGNMENT, "15001", "less than or equal to group.consumer.max.assignment.interval.ms"),
        (ASSIGNMENT, "-1", "-1"),
        (SESSION, "soon", "soon"),
        ("consumer.unheard.of", "1", "consumer.unheard.of"),
        ("retention.ms", "1", "retention.ms"),
    ],
)
def test_values_outside_the_bounds_are_refused(name: str, value: str, says: str) -> None:
    async def story(client: Client) -> None:
        code, message = await change(client, "g", name, value)
        assert code == ErrorCode.INVALID_CONFIG
        assert says in (message or "")
        assert await listed(client) == []

    with_broker(story)


def test_the_session_timeout_exceeds_the_heartbeat_interval() -> None:
    bounds = {
        "group_consumer_min_session_timeout_ms": "1000",
        "group_consumer_min_heartbeat_interval_ms": "1000",
    }

    async def story(client: Client) -> None:
        assert await change(client, "g", SESSION, "6000") == (ErrorCode.NONE, None)
        code, message = await change(client, "g", INTERVAL, "6000")
        assert code == ErrorCode.INVALID_CONFIG
        assert "must be greater than consumer.heartbeat.interval.ms" in (message or "")

    with_broker(story, **bounds)


def test_groups_with_configs_are_limited() -> None:
    async def story(client: Client) -> None:
        assert await change(client, "one", SESSION, "50000") == (ErrorCode.NONE, None)
        assert (await change(client, "two", SESSION, "50000"))[0] == ErrorCode.POLICY_VIOLATION
        assert await change(client, "one", SESSION, "51000") == (ErrorCode.NONE, None)

    with_broker(story, ottla_groups_max="1")


@pytest.mark.parametrize("name", GROUP_SETTINGS)
def test_a_groups_own_configs_apply_at_once(name: str) -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("logs", 2))
        await find(client, "g")
        joined = await beat(client, "first", 0)
        match name:
            case "consumer.heartbeat.interval.ms":
                assert joined.heartbeat_interval_ms == 5_000
                await change(client, "g", name, "7000")
                assert (await beat(client, "first", 2)).heartbeat_interval_ms == 7_000
            case "consumer.session.timeout.ms":
                await change(client, "g", name, "60000")
                await beat(client, "first", 2)
                await asyncio.sleep(50)
                assert await state_of(client) == "Stable"
                await asyncio.sleep(12)
                assert await state_of(client) == "Empty"
            case _:
                await change(client, "g", name, "0")
                await beat(client, "second", 0)
                assert (await beat(client, "first", 2)).assignment is not None

    with_broker(story)


@pytest.mark.parametrize(
    ("bound", "value", "what", "given", "in_force"),
    [
        ("min.heartbeat.interval.ms", "6000", INTERVAL, "5500", 6_000),
        ("max.heartbeat.interval.ms", "7000", INTERVAL, "9000", 7_000),
    ],
)
def test_a_group_stays_within_the_brokers_bounds(
    bound: str, value: str, what: str, given: str, in_force: int
) -> None:
    """A stored value outside the current bounds is clamped to them."""
    machine = Machine()
    broker = {
        f"group_consumer_{bound.replace('.', '_')}": value,
        "group_consumer_heartbeat_interval_ms": value,
    }

    async def tell() -> None:
        async with machine.broker() as client:
            assert await change(client, "g", what, given) == (ErrorCode.NONE, None)
        async with machine.broker(**broker) as client:
            await create(client, new_topic("logs", 2))
            await find(client, "g")
            assert (await beat(client, "first", 0)).heartbeat_interval_ms == in_force

    run(tell(), clock=machine.clock)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"group.consumer.session.timeout.ms": "44999"}, "group.consumer.min.session.timeout.ms"),
        ({"group.consumer.session.timeout.ms": "60001"}, "group.consumer.max.session.timeout.ms"),
        ({"group.consumer.max.session.timeout.ms": "1"}, "group.consumer.min.session.timeout.ms"),
        (
            {"group.consumer.heartbeat.interval.ms": "1"},
            "group.consumer.min.heartbeat.interval.ms",
        ),
        (
            {"group.consumer.min.assignment.interval.ms": "1001"},
            "group.consumer.min.assignment.interval.ms",
        ),
        (
            {"group.consumer.assignment.interval.ms": "15001"},
            "group.consumer.max.assignment.interval.ms",
        ),
        (
            {
                "group.consumer.max.heartbeat.interval.ms": "50000",
                "group.consumer.heartbeat.interval.ms": "45000",
            },
            "less than group.consumer.session.timeout.ms",
        ),
    ],
)
def test_a_broker_does_not_start_outside_its_own_bounds(given: dict[str, str], says: str) -> None:
    with pytest.raises(BadSetting, match=says):
        load(given=given, environment={}, file=None)
