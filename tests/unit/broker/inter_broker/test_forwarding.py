"""Requests for the controller that reach another broker."""

import asyncio
from typing import Any

import pytest

from ottla.broker.inter_broker.forwarding import FORWARDED
from ottla.broker.requests.served_apis import SERVED
from ottla.client.wire.in_flight import api_of
from ottla.errors import ErrorCode
from ottla.metadata.memory import MemoryStore
from ottla.protocol.exchange import decode_response
from ottla.protocol.messages import APIS, alter_configs, create_partitions, delete_topics
from ottla.protocol.messages import alter_client_quotas as quotas
from ottla.protocol.messages import alter_partition_reassignments as reassignments
from ottla.protocol.messages import incremental_alter_configs as incremental
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.update_features import FeatureUpdate, UpdateFeaturesRequest
from ottla.protocol.primitives import ZERO_UUID
from tests.support.broker.cluster import Cluster, with_cluster
from tests.support.broker.simulated_broker import Client, create, encoded, new_topic

TOPIC, BROKER = 2, 4
SET = 0


def creation(*names: str, timeout_ms: int = 60_000, **configs: str | None) -> CreateTopicsRequest:
    given = {name.replace("_", "."): value for name, value in configs.items()}
    topics = tuple(new_topic(name, configs=given) for name in names)
    return CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms)


def deletion(name: str) -> delete_topics.DeleteTopicsRequest:
    topic = delete_topics.Topic(name=name, topic_id=ZERO_UUID)
    return delete_topics.DeleteTopicsRequest(topics=(topic,), timeout_ms=1000)


def extension(name: str, count: int) -> create_partitions.CreatePartitionsRequest:
    topic = create_partitions.Topic(name=name, count=count, assignments=None)
    return create_partitions.CreatePartitionsRequest(
        topics=(topic,), timeout_ms=1000, validate_only=False
    )


def replacement(kind: int, resource: str, name: str, value: str) -> Any:
    asked = alter_configs.Resource(
        resource_type=kind,
        resource_name=resource,
        configs=(alter_configs.Config(name=name, value=value),),
    )
    return alter_configs.AlterConfigsRequest(resources=(asked,), validate_only=False)


def change(kind: int, resource: str, name: str, value: str) -> Any:
    config = incremental.Config(name=name, config_operation=SET, value=value)
    asked = incremental.Resource(resource_type=kind, resource_name=resource, configs=(config,))
    return incremental.IncrementalAlterConfigsRequest(resources=(asked,), validate_only=False)


def election(name: str, kind: int = 0) -> ElectLeadersRequest:
    return ElectLeadersRequest(
        election_type=kind, topic_partitions=(TopicPartitions(topic=name, partitions=(0,)),)
    )


def reassignment(name: str, *replicas: int) -> Any:
    partition = reassignments.Partition(partition_index=0, replicas=replicas)
    topic = reassignments.Topic(name=name, partitions=(partition,))
    return reassignments.AlterPartitionReassignmentsRequest(topics=(topic,))


def quota(key: str) -> quotas.AlterClientQuotasRequest:
    entry = quotas.Entry(
        entity=(quotas.Entity(entity_type="user", entity_name="alice"),),
        ops=(quotas.Operation(key=key, value=1e6, remove=False),),
    )
    return quotas.AlterClientQuotasRequest(entries=(entry,), validate_only=False)


def feature(name: str) -> UpdateFeaturesRequest:
    update = FeatureUpdate(feature=name, max_version_level=1, upgrade_type=2)
    return UpdateFeaturesRequest(feature_updates=(update,))


NONE = ErrorCode.NONE
# Requests about a cluster with a topic `events`, whose only replica is on broker 1, and a code in
# the answer to each.
CASES: dict[str, tuple[Any, ErrorCode]] = {
    "CreateTopics": (creation("new", retention_ms="1000"), NONE),
    "CreateTopics of a known topic": (creation("events"), ErrorCode.TOPIC_ALREADY_EXISTS),
    "CreateTopics with a bad setting": (creation("x", a_b="1"), ErrorCode.INVALID_CONFIG),
    "DeleteTopics": (deletion("events"), NONE),
    "DeleteTopics of none": (deletion("none"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "CreatePartitions": (extension("events", 3), NONE),
    "CreatePartitions of none": (extension("none", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "AlterConfigs": (replacement(TOPIC, "events", "retention.ms", "7"), NONE),
    "AlterConfigs with a bad value": (
        replacement(TOPIC, "events", "retention.ms", "many"),
        ErrorCode.INVALID_CONFIG,
    ),
    "IncrementalAlterConfigs": (change(TOPIC, "events", "retention.ms", "7"), NONE),
    "IncrementalAlterConfigs of all brokers": (change(BROKER, "", "max.connections", "7"), NONE),
    "IncrementalAlterConfigs of no broker": (
        change(BROKER, "77", "max.connections", "7"),
        ErrorCode.INVALID_REQUEST,
    ),
    "ElectLeaders of all": (ElectLeadersRequest(topic_partitions=None), NONE),
    "ElectLeaders": (election("events"), ErrorCode.ELECTION_NOT_NEEDED),
    "ElectLeaders of no type": (election("events", 9), ErrorCode.INVALID_REQUEST),
    "AlterPartitionReassignments": (reassignment("events", 1), NONE),
    "AlterPartitionReassignments of none": (
        reassignment("none", 1),
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    "ListPartitionReassignments": (ListPartitionReassignmentsRequest(), NONE),
    "AlterClientQuotas": (quota("producer_byte_rate"), NONE),
    "AlterClientQuotas of none": (quota("no_rate"), ErrorCode.INVALID_REQUEST),
    "UpdateFeatures": (feature("transaction.version"), NONE),
    "UpdateFeatures of none": (feature("none"), ErrorCode.INVALID_UPDATE_VERSION),
}


def codes(answer: Any) -> set[int]:
    """All error codes in a response."""
    if isinstance(answer, tuple | list):
        return set().union(*map(codes, answer))
    found: set[int] = set()
    for name in getattr(type(answer), "__slots__", ()):
        value = getattr(answer, name)
        found |= {value} if name == "error_code" else codes(value)
    return found


def answer_of(broker_id: int, request: Any, version: int) -> bytes:
    """The bytes that a broker of a new cluster answers. The controller is broker 1."""
    answers = []

    async def story(cluster: Cluster) -> None:
        await create(await cluster.client(1), EVENTS)
        await asyncio.sleep(1)
        answers.append(await (await cluster.client(broker_id)).exchange(encoded(request, version)))

    with_cluster(story)
    return answers[0]


EVENTS = new_topic("events", partitions=-1, factor=-1, assignments={0: (1,)})


@pytest.mark.parametrize("case", CASES)
def test_a_forwarded_request_gets_the_bytes_that_the_controller_answers(case: str) -> None:
    request, code = CASES[case]
    api = api_of(request)
    version = api.versions[1]
    assert api.name == case.split()[0]
    forwarded = answer_of(2, request, version)
    assert forwarded == answer_of(1, request, version)
    assert code in (codes(decode_response(forwarded, api, version)) or {NONE})


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_of_a_request_is_forwarded_as_it_is(version: int) -> None:
    assert answer_of(2, creation("new"), version) == answer_of(1, creation("new"), version)


def test_every_forwarded_api_has_a_case() -> None:
    assert {api_of(request).key for request, _ in CASES.values()} == FORWARDED & SERVED


async def names(client: Client) -> list[str]:
    return [topic.name for topic in (await client.ask(MetadataRequest(topics=None))).topics]


def test_brokers_that_share_the_clients_listener_forward_as_well() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(2)
        await create(client, new_topic("made"))
        await asyncio.sleep(1)
        assert await names(client) == ["made"]

    with_cluster(story, Cluster(is_listener_shared=True))


def test_every_broker_of_three_forwards_and_the_answers_keep_their_order() -> None:
    async def story(cluster: Cluster) -> None:
        clients = [await cluster.client(each) for each in (1, 2, 3)]
        for client in clients:
            for number in range(3):
                await client.send(creation(f"{clients.index(client)}-{number}"), 7)
        for index, client in enumerate(clients):
            for number in range(3):
                answer = decode_response(await client.next_frame(), APIS[19], 7)
                assert [(each.name, each.error_code) for each in answer.topics] == [
                    (f"{index}-{number}", NONE)
                ]
        await asyncio.sleep(1)
        assert len(await names(clients[2])) == 9

    with_cluster(story, Cluster(3))


def test_a_broker_can_change_its_own_settings_through_the_controller() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(2)
        answer = await client.ask(change(BROKER, "2", "max.connections", "77"))
        assert codes(answer) == {NONE}
        await asyncio.sleep(1)
        limits = [node._connections.limits.connections_max for node in cluster.nodes.values()]
        assert limits == [10_000, 77]
        # The controller itself takes only its own, as Kafka does.
        answer = await (await cluster.client(1)).ask(change(BROKER, "2", "max.connections", "7"))
        assert codes(answer) == {ErrorCode.INVALID_REQUEST}

    with_cluster(story)


class Gate:
    """Holds up the commits of one broker's metadata store."""

    def __init__(self, store: MemoryStore) -> None:
        self.is_open = asyncio.Event()
        self.waiting = 0
        append = store.append

        async def append_later(*given: Any) -> int:
            self.waiting += 1
            await self.is_open.wait()
            return await append(*given)

        store.append = append_later  # type: ignore[method-assign]


@pytest.mark.parametrize("is_power_lost", [False, True])
@pytest.mark.parametrize("broker_id", [2, 3], ids=["the next controller", "another broker"])
def test_a_request_that_waits_for_a_killed_controller_is_answered_by_the_next(
    broker_id: int, is_power_lost: bool
) -> None:
    async def story(cluster: Cluster) -> None:
        client, bystander = await cluster.client(broker_id), await cluster.client(broker_id)
        gate = Gate(cluster.store(1))
        asked = asyncio.create_task(client.ask(creation("events")))
        await asyncio.sleep(1)
        assert gate.waiting == 1
        assert not asked.done()
        # Other connections are served meanwhile.
        assert await names(bystander) == []
        loop = asyncio.get_running_loop()
        started = loop.time()
        await (cluster.lose(1) if is_power_lost else cluster.kill(1))
        answer = await asked
        assert codes(answer) == {NONE}
        # Not only after request.timeout.ms.
        assert loop.time() - started < 5
        await asyncio.sleep(1)
        assert await names(bystander) == ["events"]
        assert cluster.services(broker_id).controller_id == 2

    with_cluster(story, Cluster(3))


def test_a_request_that_was_carried_out_and_is_sent_again_is_refused_the_second_time() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(2)
        await names(client)
        network = cluster.machines[0].network
        # The controller's answers are lost.
        network.block("one", "two")
        asked = asyncio.create_task(client.ask(creation("events")))
        await asyncio.sleep(5)
        network.heal()
        network.reset("one", "two")
        answer = await asked
        assert codes(answer) == {ErrorCode.TOPIC_ALREADY_EXISTS}

    async def begin(cluster: Cluster) -> None:
        # Connects the brokers.
        await create(await cluster.client(2), new_topic("first"))
        await story(cluster)

    with_cluster(begin)


@pytest.mark.parametrize(
    ("request_", "seconds"),
    [(creation("events", timeout_ms=5_000), 5), (quota("producer_byte_rate"), 7)],
    ids=["its own timeout", "request.timeout.ms"],
)
def test_without_a_controller_a_request_times_out_and_the_connection_goes_on(
    request_: Any, seconds: int
) -> None:
    async def story(cluster: Cluster) -> None:
        client, bystander = await cluster.client(2), await cluster.client(2)
        # Nobody is elected.
        cluster.hold_controller()
        await cluster.kill(1)
        loop = asyncio.get_running_loop()
        started = loop.time()
        asked = asyncio.create_task(client.ask(request_))
        await asyncio.sleep(1)
        assert await names(bystander) == []
        answer = await asked
        assert codes(answer) == {ErrorCode.REQUEST_TIMED_OUT}
        assert seconds <= loop.time() - started < seconds + 1
        assert await names(client) == []

    with_cluster(story, Cluster(request_timeout_ms="7000"))


def test_a_broker_that_becomes_the_controller_carries_out_what_it_would_have_forwarded() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(2)
        held = cluster.hold_controller()
        await cluster.kill(1)
        asked = asyncio.create_task(client.ask(creation("events")))
        await asyncio.sleep(3)
        assert not asked.done()
        cluster.ensemble.expire(held)
        assert codes(await asked) == {NONE}
        assert await names(client) == ["events"]

    with_cluster(story)


def test_a_controller_that_is_deposed_has_its_successor_asked() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(3)
        gate = Gate(cluster.store(1))
        asked = asyncio.create_task(client.ask(creation("events")))
        await asyncio.sleep(1)
        assert gate.waiting == 1
        # It does not know, until its append is fenced.
        cluster.expire(1)
        gate.is_open.set()
        assert codes(await asked) == {NONE}

    with_cluster(story, Cluster(3))
