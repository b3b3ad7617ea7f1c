"""ListConfigResources: the resources that have configs."""

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.support.broker.simulated_broker import Client, create, new_topic, with_broker

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ((), [(BROKER, "1"), (TOPIC, "a"), (TOPIC, "b")]),
        ((TOPIC,), [(TOPIC, "a"), (TOPIC, "b")]),
        ((BROKER, METRICS), [(BROKER, "1")]),
        ((LOGGER, METRICS, GROUP), []),
    ],
)
def test_requested_types_are_listed(
    types: tuple[int, ...], expected: list[tuple[int, str]]
) -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("b"), new_topic("a"))
        answer = await client.ask(ListConfigResourcesRequest(resource_types=types))

        assert answer.error_code == ErrorCode.NONE
        listed = [(each.resource_type, each.resource_name) for each in answer.config_resources]
        assert listed == expected

    with_broker(story)


def test_v0_lists_only_client_metrics() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("a"))
        answer = await client.ask(ListConfigResourcesRequest(), 0)
        assert (answer.error_code, answer.config_resources) == (ErrorCode.NONE, ())

    with_broker(story)


def test_an_unknown_type_is_refused_as_kafka_does() -> None:
    async def story(client: Client) -> None:
        answer = await client.ask(ListConfigResourcesRequest(resource_types=(TOPIC, 99)))
        assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, ())

    with_broker(story)
