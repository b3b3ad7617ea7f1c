"""DescribeConfigs: every config, with its value and source."""

from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.create_topics import Topic
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, Resource
from ottla.settings.table import BROKER_SETTINGS, TOPIC_SETTINGS
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
from tests.support.broker.simulated_broker import Client, create, new_topic, with_broker

DESCRIBE_CONFIGS = 32
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
NONE = ErrorCode.NONE


def asking(kind: int, name: str, *keys: str, **options: bool) -> DescribeConfigsRequest:
    resource = Resource(resource_type=kind, resource_name=name, configuration_keys=keys or None)
    return DescribeConfigsRequest(resources=(resource,), **options)


def configured_topics(pair: Pair) -> list[Topic]:
    """The topics of a response, with their own configs."""
    return [
        new_topic(
            result["resourceName"],
            configs={
                config["name"]: config["value"]
                for config in result["configs"]
                if config["configSource"] == 1
            },
        )
        for result in pair["responseJson"]["results"]
        if result["resourceType"] == TOPIC and result["errorCode"] == NONE
    ]


def is_about_more_than_we_have(pair: Pair) -> bool:
    """A request for all configs of Kafka's broker, or for machine-specific ones."""
    return any(
        resource["resourceType"] == BROKER
        and resource["resourceName"] == "1"
        and (not resource["configurationKeys"] or "log.dirs" in resource["configurationKeys"])
        for resource in pair["requestJson"]["resources"]
    )


def alike(answer: Any) -> Any:
    """The response with Kafka's default of a config that the recorded cluster had set."""
    for result in answer["results"]:
        for config in result["configs"]:
            if config["configSource"] == 3:
                config["configSource"] = 5
            config["synonyms"] = [each for each in config["synonyms"] if each["source"] != 3]
    return comparable(answer)


def test_every_recorded_question_is_answered_as_kafka_did() -> None:
    compared = 0

    async def story(pair: Pair) -> None:
        machine = recorded_machine()
        async with machine.broker(**SETTINGS) as client:
            await create_as_recorded(client, machine, configured_topics(pair))
            assert alike(await ours(client, pair)) == alike(pair["responseJson"])

    for pair in recordings(DESCRIBE_CONFIGS):
        if not is_about_more_than_we_have(pair):
            run(story(pair))
            compared += 1
    assert compared >= 15


def test_every_config_of_a_topic_is_described() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders"))
        (result,) = (await client.ask(asking(TOPIC, "orders", include_documentation=True))).results

        assert {config.name for config in result.configs} == set(TOPIC_SETTINGS)
        assert all(config.documentation for config in result.configs)
        assert not any(config.read_only for config in result.configs)

    with_broker(story)


def test_every_config_of_the_broker_is_described() -> None:
    async def story(client: Client) -> None:
        (result,) = (await client.ask(asking(BROKER, "1"))).results

        assert {config.name for config in result.configs} == set(BROKER_SETTINGS)
        (given,) = [config for config in result.configs if config.name == "num.partitions"]
        assert (given.value, given.config_source, given.read_only) == ("4", 4, True)

    with_broker(story, num_partitions="4")


def test_synonyms_and_documentation_are_sent_on_request() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders", configs={"max.message.bytes": "100"}))
        key = "max.message.bytes"

        (bare,) = (await client.ask(asking(TOPIC, "orders", key))).results
        (full,) = (
            await client.ask(
                asking(TOPIC, "orders", key, include_synonyms=True, include_documentation=True)
            )
        ).results

        assert (bare.configs[0].synonyms, bare.configs[0].documentation) == ((), None)
        assert [(each.name, each.source) for each in full.configs[0].synonyms] == [
            ("max.message.bytes", 1),
            ("message.max.bytes", 5),
        ]
        assert full.configs[0].documentation

    with_broker(story)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "bad name!", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "9", ErrorCode.INVALID_REQUEST),
        (BROKER, "abc", ErrorCode.INVALID_REQUEST),
        (BROKER, "9" * 10_000, ErrorCode.INVALID_REQUEST),
        (LOGGER, "1", ErrorCode.INVALID_REQUEST),
        (METRICS, "x", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_resource_without_configs_is_refused_by_itself(
    kind: int, name: str, code: ErrorCode
) -> None:
    async def story(client: Client) -> None:
        request = DescribeConfigsRequest(
            resources=(
                Resource(resource_type=kind, resource_name=name, configuration_keys=None),
                Resource(resource_type=BROKER, resource_name="1", configuration_keys=("node.id",)),
            )
        )
        refused, told = (await client.ask(request)).results

        assert (refused.error_code, refused.configs) == (code, ())
        assert [config.name for config in told.configs] == ["node.id"]

    with_broker(story)


def test_an_unknown_resource_type_refuses_the_whole_request() -> None:
    async def story(client: Client) -> None:
        request = DescribeConfigsRequest(
            resources=(
                Resource(resource_type=BROKER, resource_name="1", configuration_keys=None),
                Resource(resource_type=77, resource_name="x", configuration_keys=None),
            )
        )
        response = await client.ask(request)

        assert [result.error_code for result in response.results] == [
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
        ]
        assert [result.configs for result in response.results] == [(), ()]

    with_broker(story)
