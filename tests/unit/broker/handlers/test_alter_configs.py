"""AlterConfigs and IncrementalAlterConfigs: configs are changed or refused."""

from collections import Counter
from typing import Any

import pytest

from ottla.broker.requests import config_resources
from ottla.errors import ErrorCode
from ottla.metadata.controller_duties import update_min_isr
from ottla.metadata.embedded.store import EmbeddedStore
from ottla.metadata.image import Image
from ottla.protocol.messages import alter_configs as whole
from ottla.protocol.messages import incremental_alter_configs as incremental
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest
from ottla.protocol.messages.describe_configs import Resource as DescribedResource
from tests.sim.seams.loop import run
from tests.support.broker.recorded_answers import (
    SETTINGS,
    Pair,
    comparable,
    create_as_recorded,
    ours,
    recorded_machine,
    recordings,
)
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic, with_broker

ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 33, 44
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
NONE = ErrorCode.NONE
DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT_BROKER, STATIC, DEFAULT = range(1, 6)

Change = tuple[str, int, str | None]


def resource(kind: int, name: str, *changes: Change) -> incremental.Resource:
    configs = tuple(
        incremental.Config(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    )
    return incremental.Resource(resource_type=kind, resource_name=name, configs=configs)


async def alter(
    client: Client, *resources: incremental.Resource, validate_only: bool = False
) -> list[Any]:
    request = incremental.IncrementalAlterConfigsRequest(
        resources=resources, validate_only=validate_only
    )
    return list((await client.ask(request)).responses)


async def replace(client: Client, kind: int, name: str, **values: str) -> Any:
    """An AlterConfigs resource. Configs are named with `_` for `.`."""
    configs = tuple(
        whole.Config(name=key.replace("_", "."), value=value) for key, value in values.items()
    )
    asked = whole.Resource(resource_type=kind, resource_name=name, configs=configs)
    request = whole.AlterConfigsRequest(resources=(asked,), validate_only=False)
    (result,) = (await client.ask(request)).responses
    return result


async def told(client: Client, kind: int, name: str, key: str) -> Any:
    """One config in the response of DescribeConfigs."""
    asked = DescribedResource(resource_type=kind, resource_name=name, configuration_keys=(key,))
    request = DescribeConfigsRequest(resources=(asked,), include_synonyms=True)
    (result,) = (await client.ask(request)).results
    (config,) = result.configs or (None,)
    return config


async def value_of(client: Client, key: str, kind: int = TOPIC, name: str = "orders") -> Any:
    return (await told(client, kind, name, key)).value


def sources(config: Any) -> list[tuple[str, str, int]]:
    return [(each.name, each.value, each.source) for each in config.synonyms]


def is_kafkas_crash(pair: Pair) -> bool:
    """An unknown operation crashes Kafka's controller; here it is refused."""
    return any(
        config.get("configOperation") == 9
        for resource in pair["requestJson"]["resources"]
        for config in resource["configs"]
    )


def is_about_eligible_leaders(pair: Pair) -> bool:
    """Kafka refuses to delete a config because of eligible leader replicas; ours has none set."""
    return any(
        "ELR is enabled" in (result["errorMessage"] or "")
        for result in pair["responseJson"]["responses"]
    )


def had_been_set_to_both(pair: Pair) -> bool:
    """A subtraction from a list that an earlier change had set."""
    return any(
        config.get("configOperation") == SUBTRACT
        for resource in pair["requestJson"]["resources"]
        for config in resource["configs"]
    )


@pytest.mark.parametrize(("key", "least"), [(ALTER_CONFIGS, 12), (INCREMENTAL_ALTER_CONFIGS, 7)])
def test_every_recorded_change_is_answered_as_kafka_did(key: int, least: int) -> None:
    compared = 0

    async def story(pair: Pair) -> None:
        machine = recorded_machine()
        async with machine.broker(**SETTINGS) as client:
            results = pair["responseJson"]["responses"]
            known = {
                result["resourceName"]
                for result in results
                if result["resourceType"] == TOPIC and result["errorCode"] != 3
            }
            await create_as_recorded(client, machine, [new_topic(name) for name in sorted(known)])
            assert comparable(await ours(client, pair)) == comparable(pair["responseJson"])

    skipped = (is_kafkas_crash, had_been_set_to_both, is_about_eligible_leaders)
    for pair in recordings(key):
        if not any(is_skipped(pair) for is_skipped in skipped):
            run(story(pair))
            compared += 1
    assert compared >= least


def test_a_topics_config_is_set_described_and_removed() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders", configs={"retention.ms": "5"}))
        changes = resource(
            TOPIC, "orders", ("max.message.bytes", SET, " 100"), ("retention.ms", DELETE, None)
        )
        (result,) = await alter(client, changes)

        assert (result.error_code, result.error_message) == (NONE, None)
        config = await told(client, TOPIC, "orders", "max.message.bytes")
        assert (config.value, config.config_source) == ("100", DYNAMIC_TOPIC)
        assert sources(config) == [
            ("max.message.bytes", "100", DYNAMIC_TOPIC),
            ("message.max.bytes", "1048588", DEFAULT),
        ]
        assert await value_of(client, "retention.ms") == "604800000"

    with_broker(story)


def test_a_brokers_config_sources_are_in_kafkas_order() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders"))
        for name, value in (("", "300"), ("1", "400")):
            (result,) = await alter(
                client, resource(BROKER, name, ("message.max.bytes", SET, value))
            )
            assert result.error_code == NONE

        expected = [
            ("message.max.bytes", "400", DYNAMIC_BROKER),
            ("message.max.bytes", "300", DYNAMIC_DEFAULT_BROKER),
            ("message.max.bytes", "200", STATIC),
            ("message.max.bytes", "1048588", DEFAULT),
        ]
        own = await told(client, BROKER, "1", "message.max.bytes")
        assert (own.value, own.config_source, sources(own)) == ("400", DYNAMIC_BROKER, expected)
        every = await told(client, BROKER, "", "message.max.bytes")
        assert (every.value, sources(every)) == ("300", [expected[1]])
        topic = await told(client, TOPIC, "orders", "max.message.bytes")
        assert (topic.value, topic.config_source, sources(topic)) == (
            *("400", DYNAMIC_BROKER),
            expected,
        )
        assert await told(client, BROKER, "", "num.partitions") is None

    with_broker(story, message_max_bytes="200")


def test_changed_configs_survive_a_restart() -> None:
    machine = Machine()

    async def tell() -> None:
        async with machine.broker() as client:
            await create(client, new_topic("orders"))
            await alter(
                client,
                resource(TOPIC, "orders", ("segment.ms", SET, "7")),
                resource(BROKER, "", ("max.connections", SET, "9")),
            )
        async with machine.broker() as client:
            assert await value_of(client, "segment.ms") == "7"
            assert await value_of(client, "max.connections", BROKER, "1") == "9"

    run(tell(), clock=machine.clock)


def test_alter_configs_removes_configs_that_it_does_not_name() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders", configs={"retention.ms": "5", "flush.ms": "6"}))
        result = await replace(client, TOPIC, "orders", flush_ms="7", segment_ms="8")

        assert (result.error_code, result.error_message) == (NONE, None)
        found = [await value_of(client, key) for key in ("retention.ms", "flush.ms", "segment.ms")]
        assert found == ["604800000", "7", "8"]
        await replace(client, TOPIC, "orders")
        assert (await told(client, TOPIC, "orders", "segment.ms")).config_source == DEFAULT

    with_broker(story)


def test_append_and_subtract_change_a_list() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders"))
        (same,) = await alter(
            client, resource(TOPIC, "orders", ("cleanup.policy", APPEND, "delete"))
        )
        (more,) = await alter(
            client, resource(TOPIC, "orders", ("cleanup.policy", APPEND, "compact"))
        )
        both = await value_of(client, "cleanup.policy")
        (less,) = await alter(
            client, resource(TOPIC, "orders", ("cleanup.policy", SUBTRACT, "delete"))
        )

        assert [each.error_code for each in (same, more, less)] == [NONE, NONE, NONE]
        assert both == "delete,compact"
        assert await value_of(client, "cleanup.policy") == "compact"

    with_broker(story)


def test_validate_only_changes_nothing() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders"))
        good, bad = await alter(
            client,
            resource(TOPIC, "orders", ("retention.ms", SET, "5")),
            resource(BROKER, "", ("max.connections", SET, "many")),
            validate_only=True,
        )

        assert (good.error_code, bad.error_code) == (NONE, ErrorCode.INVALID_CONFIG)
        assert await value_of(client, "retention.ms") == "604800000"

    with_broker(story)


@pytest.mark.parametrize(
    ("changed", "code", "says"),
    [
        (resource(TOPIC, "none", ("retention.ms", SET, "1")), 3, "does not exist"),
        (resource(TOPIC, "bad name", ("retention.ms", SET, "1")), 17, "bad name"),
        (resource(TOPIC, "orders", ("no.such", SET, "1")), 40, "no.such"),
        (resource(TOPIC, "orders", ("retention.ms", SET, "abc")), 40, "abc"),
        (resource(TOPIC, "orders", ("segment.bytes", SET, "1")), 40, "1048576"),
        (resource(TOPIC, "orders", ("retention.ms", SET, None)), 42, "retention.ms"),
        (resource(TOPIC, "orders", ("retention.ms", APPEND, "1")), 40, "no list"),
        (resource(TOPIC, "orders", ("no.such", SUBTRACT, "1")), 40, "no list"),
        (resource(TOPIC, "orders", ("retention.ms", 9, "1")), 42, "operation 9"),
        (
            resource(TOPIC, "orders", ("flush.ms", SET, "1"), ("flush.ms", SET, "2")),
            42,
            "flush.ms",
        ),
        (resource(BROKER, "1", ("node.id", SET, "5")), 42, "node.id"),
        (resource(BROKER, "1", ("retention.ms", SET, "5")), 40, "retention.ms"),
        (resource(BROKER, "9", ("max.connections", SET, "5")), 42, "broker 9"),
        (resource(BROKER, "abc", ("max.connections", SET, "5")), 42, "abc"),
        (resource(LOGGER, "1", ("root", SET, "INFO")), 42, "LOGGER"),
        (resource(METRICS, "x", ("interval.ms", SET, "5")), 42, "METRICS"),
        (resource(GROUP, "x", ("y", SET, "5")), 40, "y"),
        (resource(GROUP, "", ("consumer.session.timeout.ms", SET, "50000")), 42, "empty"),
        (resource(77, "x", ("y", SET, "5")), 42, "77"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_an_invalid_change_is_refused_and_the_others_are_made(
    changed: incremental.Resource, code: int, says: str
) -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders"), new_topic("others"))
        refused, done = await alter(
            client, changed, resource(TOPIC, "others", ("retention.ms", SET, "5"))
        )

        assert (refused.error_code, done.error_code) == (code, NONE)
        assert says in refused.error_message
        assert (refused.resource_type, refused.resource_name) == (
            changed.resource_type,
            changed.resource_name,
        )
        assert await value_of(client, "retention.ms", name="others") == "5"

    with_broker(story)


def test_one_bad_config_refuses_all_changes_of_its_resource() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders"))
        changes = resource(TOPIC, "orders", ("flush.ms", SET, "1"), ("retention.ms", SET, "x"))
        (result,) = await alter(client, changes)

        assert result.error_code == ErrorCode.INVALID_CONFIG
        assert (await told(client, TOPIC, "orders", "flush.ms")).config_source == DEFAULT

    with_broker(story)


def test_a_resource_that_is_named_twice_is_not_changed_at_all() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders"))
        results = await alter(
            client,
            resource(TOPIC, "orders", ("flush.ms", SET, "1")),
            resource(TOPIC, "orders", ("segment.ms", SET, "1")),
        )

        assert [each.error_code for each in results] == [ErrorCode.INVALID_REQUEST] * 2
        assert (await told(client, TOPIC, "orders", "flush.ms")).config_source == DEFAULT

    with_broker(story)


def test_a_config_with_an_unknown_name_can_be_deleted() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders"))
        (result,) = await alter(client, resource(TOPIC, "orders", ("of.the.future", DELETE, None)))
        assert result.error_code == NONE

    with_broker(story)


async def min_isrs(machine: Machine) -> Counter[int]:
    """`min_isr` of the partitions of `orders` in the metadata of a stopped broker."""
    store = EmbeddedStore.open(machine.disk.process(), "/data", machine.clock)
    image = Image.of(await store.load())
    await store.close()
    topic = image.topic("orders")
    assert topic is not None
    return Counter(partition.min_isr for partition in image.partitions(topic.topic_id))


def test_more_partitions_than_an_entry_holds_follow_min_insync_replicas() -> None:
    machine = Machine()

    async def tell() -> None:
        async with machine.broker() as client:
            await create(client, new_topic("orders", 700))
            await alter(client, resource(TOPIC, "orders", ("min.insync.replicas", SET, "2")))
        assert await min_isrs(machine) == Counter({2: 700})
        async with machine.broker() as client:
            await alter(client, resource(TOPIC, "orders", ("min.insync.replicas", DELETE, None)))
        assert await min_isrs(machine) == Counter({1: 700})
        async with machine.broker(min_insync_replicas="3"):
            pass
        assert await min_isrs(machine) == Counter({3: 700})

    run(tell(), clock=machine.clock)


def test_a_full_disk_refuses_a_config_change_until_it_has_space() -> None:
    machine = Machine()

    async def story(client: Client) -> None:
        await create(client, new_topic("orders"))
        changes = resource(TOPIC, "orders", ("retention.ms", SET, "5"))
        capacity = machine.disk.process().total_bytes("/")
        machine.disk.resize(0)
        (full,) = await alter(client, changes)
        machine.disk.resize(capacity)
        (done,) = await alter(client, changes)

        assert (full.error_code, done.error_code) == (ErrorCode.KAFKA_STORAGE_ERROR, NONE)

    with_broker(story, machine=machine)


def test_a_disk_that_fills_before_the_partitions_follow_is_an_error_and_is_repaired_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine()
    capacity = machine.disk.process().total_bytes("/")

    async def fill_and_agree(*args: Any) -> None:
        machine.disk.resize(0)
        await update_min_isr(*args)

    async def tell() -> None:
        changes = resource(TOPIC, "orders", ("min.insync.replicas", SET, "2"))
        async with machine.broker() as client:
            await create(client, new_topic("orders"))
            with monkeypatch.context() as patched:
                patched.setattr(config_resources, "update_min_isr", fill_and_agree)
                (full,) = await alter(client, changes)
            machine.disk.resize(capacity)
            (done,) = await alter(client, changes)
        assert (full.error_code, done.error_code) == (ErrorCode.KAFKA_STORAGE_ERROR, NONE)
        assert await min_isrs(machine) == Counter({2: 1})

    run(tell(), clock=machine.clock)
