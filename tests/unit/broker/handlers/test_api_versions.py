"""ApiVersions: the offered APIs are the served ones."""

import importlib
import re

import pytest

from ottla.broker.requests.served_apis import SERVED
from ottla.errors import ErrorCode
from ottla.protocol.messages import APIS
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.broker.recorded_answers import SETTINGS, ours, recordings
from tests.support.broker.simulated_broker import Client, with_broker

API_VERSIONS = 18
PROMISE = re.compile(r"(\w+) \((\d+)\) v(\d+)(?:-(\d+))?\. ")


def introducing(name: str = "tests", version: str = "1.0") -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


@pytest.mark.parametrize("version", range(5))
def test_exactly_the_served_apis_are_offered(version: int) -> None:
    async def story(client: Client) -> None:
        response = await client.ask(introducing(), version)

        offered = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
        assert offered == {key: APIS[key].advertised for key in SERVED}
        assert response.error_code == ErrorCode.NONE

    with_broker(story)


@pytest.mark.parametrize("key", sorted(SERVED))
def test_every_offered_api_has_a_handler_that_promises_its_versions(key: int) -> None:
    name = APIS[key].module.rpartition(".")[2]
    handler = importlib.import_module(f"ottla.broker.handlers.{name}")

    promise = PROMISE.match(handler.__doc__ or "")
    assert promise is not None
    assert "Gaps: " in handler.__doc__
    api_name, api_key, first, last = promise.groups()
    assert (api_name, int(api_key)) == (APIS[key].name, key)
    assert (int(first), int(last or first)) == APIS[key].versions
    assert callable(handler.handle)


def test_offers_agree_with_kafkas_where_both_have_an_api() -> None:
    async def story(client: Client) -> None:
        compared = 0
        for pair in recordings(API_VERSIONS):
            if pair["errors"]:
                continue
            kafkas = {each["apiKey"]: each for each in pair["responseJson"]["apiKeys"]}
            for each in (await ours(client, pair))["apiKeys"]:
                assert each == kafkas[each["apiKey"]]
                compared += 1
        assert compared > 10 * len(SERVED)

    with_broker(story, **SETTINGS)


def test_only_supported_features_are_offered() -> None:
    async def story(client: Client) -> None:
        response = await client.ask(introducing())
        assert {
            each.name: (each.min_version, each.max_version) for each in response.supported_features
        } == {"group.version": (0, 1), "transaction.version": (0, 2)}
        assert {each.name: each.max_version_level for each in response.finalized_features} == {
            "group.version": 1,
            "transaction.version": 2,
        }
        before = await client.ask(introducing(), 3)
        assert before.supported_features == (), "a feature from version 0 on is not for them"
        assert before.finalized_features == response.finalized_features
        assert response.finalized_features_epoch >= 0
        assert not response.zk_migration_ready

    with_broker(story)


@pytest.mark.parametrize(
    ("name", "version"),
    [("", "1"), ("x", ""), ("bad name", "1"), ("x", "-1"), ("x.", "1"), ("ä", "1"), ("x\n", "1")],
)
def test_a_bad_name_of_client_software_is_refused(name: str, version: str) -> None:
    async def story(client: Client) -> None:
        response = await client.ask(introducing(name, version), 3)
        assert (response.error_code, response.api_keys) == (ErrorCode.INVALID_REQUEST, ())

        assert (await client.ask(introducing(name, version), 2)).error_code == ErrorCode.NONE

    with_broker(story)


@pytest.mark.parametrize("name", ["x", "apache-kafka-java", "a.b-c", "librdkafka"])
def test_a_good_name_of_client_software_is_accepted(name: str) -> None:
    async def story(client: Client) -> None:
        assert (await client.ask(introducing(name, "2.12.2-rdkafka-2.12.1"))).error_code == 0

    with_broker(story)
