"""Large requests are handled in slices or refused, so that other clients do not wait."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.handlers import create_topics, describe_configs
from ottla.broker.requests.record_work import UNITS_PER_TURN
from ottla.broker.requests.slices import SLICE_ITEMS_MAX
from ottla.errors import ErrorCode
from ottla.protocol.exchange import decode_response
from ottla.protocol.messages import APIS, alter_configs, incremental_alter_configs
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest
from ottla.protocol.messages.create_partitions import Topic as GrownTopic
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.delete_topics import Topic as DeletedTopic
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, Resource
from ottla.protocol.messages.produce import Partition, ProduceRequest, Topic
from ottla.protocol.primitives import ZERO_UUID
from ottla.replication.replicas import Replicas
from ottla.storage.admission.work_budget import UNITS_PER_NEW_LOG
from ottla.storage.directory.directory import LogDirectory
from tests.support.broker.produce_and_fetch import batch, produce
from tests.support.broker.simulated_broker import Client, create, encoded, new_topic, with_broker

TOPIC, GROUP = 2, 32
NONE, REFUSED = ErrorCode.NONE, ErrorCode.POLICY_VIOLATION
PRODUCE_VERSION = 9


class Turns:
    """Counts calls per turn of the event loop."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self._is_in_turn = False

    def counting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if not self._is_in_turn:
                self._is_in_turn = True
                self.calls.append(0)
                asyncio.get_running_loop().call_soon(self._end)
            self.calls[-1] += 1
            return function(*arguments)

        return call

    def _end(self) -> None:
        self._is_in_turn = False


@pytest.fixture
def turns() -> Turns:
    return Turns()


def test_many_settings_are_described_in_slices(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe_configs, "_describe", turns.counting(describe_configs._describe))

    async def story(client: Client) -> None:
        resources = tuple(
            Resource(resource_type=GROUP, resource_name=f"g{number}", configuration_keys=None)
            for number in range(100)
        )
        answer = await client.ask(DescribeConfigsRequest(resources=resources))
        assert [each.resource_name for each in answer.results] == [f"g{n}" for n in range(100)]
        assert sum(turns.calls) == 100
        assert max(turns.calls) <= SLICE_ITEMS_MAX

    with_broker(story)


def test_a_resource_that_is_named_many_times_is_described_once(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe_configs, "_describe", turns.counting(describe_configs._describe))

    def asked(name: str, *keys: str) -> Resource:
        return Resource(resource_type=TOPIC, resource_name=name, configuration_keys=keys or None)

    async def story(client: Client) -> None:
        await create(client, new_topic("a"), new_topic("b"))
        request = DescribeConfigsRequest(
            resources=(
                asked("a", "retention.ms"),
                *[asked("b")] * 9_000,
                asked("a", "segment.bytes"),
                asked("missing"),
                asked("b", "retention.ms"),
            )
        )
        a, b, missing = (await client.ask(request)).results
        assert sum(turns.calls) == 3
        # All that was asked for is told, by whichever of the namings.
        assert [each.name for each in a.configs] == ["retention.ms", "segment.bytes"]
        assert len(b.configs) > 20
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_broker(story)


def test_topics_follow_a_change_of_the_brokers_settings() -> None:
    async def told(client: Client, name: str) -> list[tuple[str | None, int]]:
        asked = Resource(
            resource_type=TOPIC, resource_name=name, configuration_keys=("retention.ms",)
        )
        answer = await client.ask(DescribeConfigsRequest(resources=(asked,)))
        return [(each.value, each.config_source) for each in answer.results[0].configs]

    async def story(client: Client) -> None:
        own = {"retention.ms": "7"}
        await create(client, new_topic("plain"), new_topic("own", configs=own))
        assert await told(client, "own") == [("7", 1)]
        assert await told(client, "plain") == [("604800000", 5)]
        broker = incremental_alter_configs.Resource(
            resource_type=4,
            resource_name="",
            configs=(
                incremental_alter_configs.Config(
                    name="log.retention.ms", config_operation=0, value="9"
                ),
            ),
        )
        await client.ask(
            incremental_alter_configs.IncrementalAlterConfigsRequest(
                resources=(broker,), validate_only=False
            )
        )
        assert await told(client, "own") == [("7", 1)]
        assert await told(client, "plain") == [("9", 3)]

    with_broker(story)


def test_the_response_about_many_new_topics_is_made_in_slices(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(create_topics, "_result", turns.counting(create_topics._result))

    async def story(client: Client) -> None:
        topics = tuple(new_topic(f"t{number}") for number in range(100))
        answer = await client.ask(CreateTopicsRequest(topics=topics, validate_only=True))
        assert [each.error_code for each in answer.topics] == [NONE] * 100
        assert max(turns.calls) <= SLICE_ITEMS_MAX

    with_broker(story)


# The limit of topics per request

NAMES = [f"t{number}" for number in range(5)]


def creating(validate_only: bool) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=tuple(map(new_topic, NAMES)), validate_only=validate_only)


def growing(validate_only: bool) -> CreatePartitionsRequest:
    topics = tuple(GrownTopic(name=name, count=2, assignments=None) for name in NAMES)
    return CreatePartitionsRequest(topics=topics, timeout_ms=0, validate_only=validate_only)


def altering(validate_only: bool) -> alter_configs.AlterConfigsRequest:
    resources = tuple(
        alter_configs.Resource(resource_type=TOPIC, resource_name=name, configs=())
        for name in NAMES
    )
    return alter_configs.AlterConfigsRequest(resources=resources, validate_only=validate_only)


def altering_some(
    validate_only: bool,
) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
    resources = tuple(
        incremental_alter_configs.Resource(resource_type=TOPIC, resource_name=name, configs=())
        for name in NAMES
    )
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=resources, validate_only=validate_only
    )


def deleting(validate_only: bool) -> DeleteTopicsRequest:
    topics = tuple(DeletedTopic(name=name, topic_id=ZERO_UUID) for name in NAMES)
    return DeleteTopicsRequest(topics=topics, timeout_ms=0)


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize("make", [creating, growing, altering, altering_some, deleting])
def test_topics_beyond_the_limit_of_a_request_are_refused_and_the_others_changed(
    make: Callable[[bool], Any], validate_only: bool
) -> None:
    async def story(client: Client) -> None:
        if make is not creating:
            for some in (NAMES[:3], NAMES[3:]):
                await create(client, *map(new_topic, some))
        answer = await client.ask(make(validate_only))
        results = next(
            getattr(answer, name)
            for name in ("topics", "results", "responses")
            if hasattr(answer, name)
        )
        codes = [each.error_code for each in results]
        assert codes == [NONE, NONE, NONE, REFUSED, REFUSED]
        assert "ottla.request.topics.max" in results[-1].error_message
        assert " 3 " in results[-1].error_message

    with_broker(story, ottla_request_topics_max="3")


# Logs of many topics


def test_a_produce_to_many_new_partitions_makes_a_few_logs_in_each_turn(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Replicas, "create_log", turns.counting(Replicas.create_log))
    count = 100

    async def story(client: Client) -> None:
        await create(client, new_topic("wide", count))
        partitions = tuple(Partition(index=n, records=batch(b"first")) for n in range(count))
        many = ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=1_000,
            topic_data=(Topic(name="wide", partition_data=partitions),),
        )
        await client.send(many, PRODUCE_VERSION)
        # It comes while the first is at work, and stays behind it.
        last = produce("wide", batch(b"second"), partition=count - 1)
        answers = [
            decode_response(await client.exchange(framed), APIS[0], PRODUCE_VERSION)
            for framed in (encoded(last, PRODUCE_VERSION), b"")
        ]
        first, second = (each.responses[0].partition_responses for each in answers)
        assert [(each.error_code, each.base_offset) for each in first] == [(NONE, 0)] * count
        assert [(each.error_code, each.base_offset) for each in second] == [(NONE, 1)]
        assert sum(turns.calls) == count
        assert max(turns.calls) <= UNITS_PER_TURN // UNITS_PER_NEW_LOG

    with_broker(story)


def test_topics_that_are_deleted_together_cost_one_checkpoint(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogDirectory, "begin_delete", turns.counting(LogDirectory.begin_delete))
    # No room is left in the names of their directories to tell them apart.
    names = [f"{'t' * 240}{number}" for number in range(10)]

    async def story(client: Client) -> None:
        await create(client, *(new_topic(name, 2) for name in names))
        for name in names:
            await client.ask(produce(name, batch(b"1"), batch(b"2")), PRODUCE_VERSION)
        turns.calls.clear()
        topics = tuple(DeletedTopic(name=name, topic_id=ZERO_UUID) for name in names)
        answer = await client.ask(DeleteTopicsRequest(topics=topics, timeout_ms=0))
        assert [each.error_code for each in answer.responses] == [NONE] * 10
        assert sum(turns.calls) == 1
        # Their directory is well, and they begin anew.
        await create(client, *(new_topic(name, 2) for name in names))
        for name in names:
            sent = await client.ask(produce(name, batch(b"1"), batch(b"2")), PRODUCE_VERSION)
            partitions = sent.responses[0].partition_responses
            assert [(each.error_code, each.base_offset) for each in partitions] == [(NONE, 0)] * 2

    with_broker(story)
