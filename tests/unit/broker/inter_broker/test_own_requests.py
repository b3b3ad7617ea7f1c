"""What a broker that is not the controller wants for itself: producer ids, and topics."""

import asyncio
from typing import Any, cast

import pytest

from ottla.broker.inter_broker.own_requests import OwnRequests
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.producer_id_blocks import BLOCK_IDS
from ottla.metadata.memory import MemoryEnsemble
from ottla.metadata.store import Entry
from ottla.metadata.values import ResourceKind
from ottla.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.metadata import MetadataRequest, RequestedTopic
from ottla.protocol.messages.report_offline_logs import ReportOfflineLogsResponse
from ottla.protocol.primitives import ZERO_UUID
from tests.support.broker.cluster import BROKERS_PORT, Cluster, with_cluster
from tests.support.broker.simulated_broker import Client

INIT = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)


def own_requests(cluster: Cluster, broker_id: int) -> OwnRequests:
    inter_broker = cluster.nodes[broker_id]._inter_broker
    assert inter_broker is not None
    return inter_broker.own_requests


def epoch_of(cluster: Cluster, broker_id: int) -> int:
    return cluster.broker_epoch(broker_id)


async def asked_for_topics(client: Client, *names: str) -> None:
    topics = tuple(RequestedTopic(name=name, topic_id=ZERO_UUID) for name in names)
    await client.ask(MetadataRequest(topics=topics), 12)


async def topics_of(client: Client) -> dict[str, int]:
    """The number of partitions of each topic."""
    listed = (await client.ask(MetadataRequest(topics=None))).topics
    return {topic.name: len(topic.partitions) for topic in listed}


# --- producer ids -----------------------------------------------------------------------------


def test_every_broker_gives_ids_of_blocks_of_its_own() -> None:
    async def story(cluster: Cluster) -> None:
        given = []
        for broker_id in (1, 2, 3):
            client = await cluster.client(broker_id)
            for _ in range(3):
                answer = await client.ask(INIT)
                assert answer.error_code == ErrorCode.NONE
                given.append(answer.producer_id)
        assert given == [*range(3), *range(1000, 1003), *range(2000, 2003)]

    with_cluster(story, Cluster(3))


def test_a_block_whose_answer_was_lost_is_never_given_again() -> None:
    async def story(cluster: Cluster) -> None:
        own = own_requests(cluster, 2)
        blocks = [await own.reserve_producer_ids()]
        network = cluster.machines[0].network
        network.block("one", "two")
        lost = asyncio.create_task(own.reserve_producer_ids())
        await asyncio.sleep(2)
        network.heal()
        network.reset("one", "two")
        blocks.append(await lost)
        blocks.append(await own_requests(cluster, 1).reserve_producer_ids())
        assert [block.size for block in blocks] == [BLOCK_IDS] * 3
        # The second block went to nobody.
        assert [block.first_id for block in blocks] == [0, 2000, 3000]

    with_cluster(story)


@pytest.mark.parametrize(
    ("broker_id", "difference", "code"),
    [
        (2, 0, ErrorCode.NONE),
        (2, -1, ErrorCode.STALE_BROKER_EPOCH),
        (2, 1, ErrorCode.STALE_BROKER_EPOCH),
        (7, 0, ErrorCode.STALE_BROKER_EPOCH),
    ],
)
def test_only_the_current_incarnation_of_a_broker_gets_ids(
    broker_id: int, difference: int, code: ErrorCode
) -> None:
    async def story(cluster: Cluster) -> None:
        broker = await cluster.client(1, BROKERS_PORT)
        asked = AllocateProducerIdsRequest(
            broker_id=broker_id, broker_epoch=epoch_of(cluster, 2) + difference
        )
        answer = await broker.ask(asked)
        assert answer.error_code == code
        is_given = code is ErrorCode.NONE
        assert answer.producer_id_len == (BLOCK_IDS if is_given else 0)
        # Nothing was reserved for the others.
        answer = await (await cluster.client(1)).ask(INIT)
        assert answer.producer_id == (BLOCK_IDS if is_given else 0)

    with_cluster(story)


class LaterController:
    """Answers with an error code that this version does not know."""

    async def ask(self, request: object, **_: object) -> Any:
        if isinstance(request, AllocateProducerIdsRequest):
            return AllocateProducerIdsResponse(
                error_code=9_999, producer_id_start=0, producer_id_len=0
            )
        return ReportOfflineLogsResponse(error_code=9_999)


def test_an_error_code_of_a_later_version_is_a_refusal_like_any_other() -> None:
    own = OwnRequests(
        controller=cast("Any", None),
        channel=cast("Any", LaterController()),
        forwarding=cast("Any", None),
        node_id=2,
        broker_epoch=lambda: 5,
    )
    for request in (own.reserve_producer_ids(), own.report_offline_logs([])):
        with pytest.raises(PeerError) as refused:
            asyncio.run(cast("Any", request))
        assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_broker_that_is_not_the_controller_gives_no_ids_to_others() -> None:
    async def story(cluster: Cluster) -> None:
        broker = await cluster.client(2, BROKERS_PORT)
        asked = AllocateProducerIdsRequest(broker_id=2, broker_epoch=epoch_of(cluster, 2))
        assert (await broker.ask(asked)).error_code == ErrorCode.NOT_CONTROLLER

    with_cluster(story)


def test_without_a_controller_a_client_is_told_to_ask_for_an_id_again() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(2)
        cluster.hold_controller()
        await cluster.kill(1)
        answer = await client.ask(INIT)
        assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    with_cluster(story)


# --- topics -----------------------------------------------------------------------------------


def test_topics_are_auto_created_by_one_request_to_the_controller() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(2)
        await asked_for_topics(client, "a", "b", "c")
        await asyncio.sleep(2)
        assert await topics_of(client) == {"a": 3, "b": 3, "c": 3}
        rendered = b"".join(cluster.nodes[1].metrics.render()).decode()
        counted = [
            line for line in rendered.splitlines() if 'Envelope"' in line and "count" in line
        ]
        assert {float(line.split()[-1]) for line in counted} == {1.0}

    with_cluster(story, Cluster(num_partitions="3"))


def test_a_topic_that_cannot_be_created_is_reported_and_the_broker_goes_on() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(2)
        await asked_for_topics(client, "events")
        await asyncio.sleep(2)
        assert await topics_of(client) == {}
        assert "topic not created" in cluster.machine(2).notes.events("warning")

    with_cluster(story, Cluster(default_replication_factor="3"))


@pytest.mark.parametrize(
    ("key_type", "name"), [(0, "__consumer_offsets"), (1, "__transaction_state")]
)
def test_the_first_request_for_a_coordinator_has_its_topic_created_by_the_controller(
    key_type: int, name: str
) -> None:
    def answers(broker_id: int) -> tuple[Any, Any]:
        told: list[Any] = []

        async def story(cluster: Cluster) -> None:
            client = await cluster.client(broker_id)
            asked = FindCoordinatorRequest(key_type=key_type, coordinator_keys=("key",))
            (found,) = (await client.ask(asked)).coordinators
            image = cluster.services(broker_id).image
            topic = image.topic(name)
            assert topic is not None
            configs = dict(image.configs(ResourceKind.TOPIC, name))
            factors = {len(each.replicas) for each in image.partitions(topic.topic_id)}
            told.append((found.error_code, configs, factors, len(image.partitions(topic.topic_id))))

        settings = {
            "offsets_topic_num_partitions": "5",
            "offsets_topic_replication_factor": "2",
            "transaction_state_log_replication_factor": "2",
            "transaction_state_log_min_isr": "1",
        }
        with_cluster(story, Cluster(**settings))
        return told[0]

    assert answers(2) == answers(1)
    code, configs, factors, _ = answers(2)
    assert (code, factors) == (ErrorCode.NONE, {2})
    assert configs.get("min.insync.replicas") == (None if key_type == 0 else "1")


@pytest.mark.parametrize("key_type", [0, 1])
@pytest.mark.parametrize("broker_id", [1, 2])
def test_there_are_no_coordinators_until_enough_brokers_are_up_for_their_topic(
    key_type: int, broker_id: int
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.kill(3)
        await asyncio.sleep(1)
        client = await cluster.client(broker_id)
        asked = FindCoordinatorRequest(key_type=key_type, coordinator_keys=("key",))
        (found,) = (await client.ask(asked)).coordinators
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await cluster.start(3)
        await asyncio.sleep(1)
        (found,) = (await client.ask(asked)).coordinators
        assert found.error_code == ErrorCode.NONE

    # The default is Kafka's: three replicas.
    with_cluster(story, Cluster(3))


class WithoutNews:
    """The ensemble as a broker sees it that hears of no further entries."""

    def __init__(self, ensemble: MemoryEnsemble) -> None:
        self._ensemble = ensemble

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ensemble, name)

    def _entry(self, _offset: int) -> Entry | None:
        return None


def test_a_client_is_told_its_coordinator_once_the_broker_knows_the_topic() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(2)
        # Broker 2 does not follow the metadata log.
        store = cluster.store(2)
        store._servers = lambda: cast("Any", WithoutNews(cluster.ensemble))  # type: ignore[method-assign]
        asked = FindCoordinatorRequest(key_type=0, coordinator_keys=("group",))
        asking = asyncio.create_task(client.ask(asked))
        await asyncio.sleep(2)
        assert not asking.done()
        store._servers = lambda: cluster.ensemble  # type: ignore[method-assign]
        cluster.ensemble._wake()
        (found,) = (await asking).coordinators
        assert found.error_code == ErrorCode.NONE

    with_cluster(story, Cluster(offsets_topic_replication_factor="1"))


def test_a_refusal_of_the_controller_reaches_whoever_asks() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(2)
        cluster.hold_controller()
        await cluster.kill(1)
        asked = FindCoordinatorRequest(key_type=0, coordinator_keys=("group",))
        (found,) = (await client.ask(asked)).coordinators
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        with pytest.raises(PeerError):
            await own_requests(cluster, 2).reserve_producer_ids()

    with_cluster(story)
