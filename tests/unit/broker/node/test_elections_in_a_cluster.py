"""Elections of leaders by the controller of whole brokers: unclean, preferred, on shutdown."""

import asyncio
from typing import Any

from ottla.broker.node.membership import DRAIN_TIMEOUT_S
from ottla.errors import ErrorCode
from ottla.metadata.values import BrokerState
from tests.support.broker.cluster import Cluster, with_cluster
from tests.support.broker.cluster_partitions import (
    elect,
    forget_incarnation,
    image_of,
    isr_of,
    leader_of,
    record_of,
    replica_of,
)
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.simulated_broker import Client, create, new_topic

NONE = ErrorCode.NONE
PREFERRED, UNCLEAN = 0, 1


async def topic_on(client: Client, *replicas: int, **configs: str) -> None:
    """Creates a topic of one partition on these brokers."""
    given: dict[str, Any] = {name.replace("_", "."): value for name, value in configs.items()}
    topic = new_topic("orders", partitions=-1, factor=-1, assignments={0: replicas}, configs=given)
    await create(client, topic)
    await asyncio.sleep(1)


async def send(cluster: Cluster, leader_id: int, value: bytes, acks: int = -1) -> None:
    client = await cluster.client(leader_id)
    answer = only(await client.ask(produce("orders", batch(value), acks=acks), 9))
    assert answer.error_code == NONE


async def read(cluster: Cluster, leader_id: int) -> list[bytes]:
    client = await cluster.client(leader_id)
    found: list[bytes] = values(only(await client.ask(fetch("orders", wanted()), 12)).records)
    return found


def possible_losses(cluster: Cluster, broker_id: int) -> list[str]:
    return [
        fields["partition"]
        for _, event, fields in cluster.machine(broker_id).notes.entries
        if event == "possible data loss"
    ]


async def both_unclean(cluster: Cluster) -> None:
    """Brokers 3 and 2 have restarted without their memberships. Broker 2 has one record more."""
    client = await cluster.client(1)
    await topic_on(client, 3, 2, min_insync_replicas="2")
    await send(cluster, 3, b"both")
    await cluster.kill(3)
    await asyncio.sleep(1)
    await send(cluster, 2, b"alone", acks=1)
    await cluster.kill(2)
    await asyncio.sleep(1)
    for broker_id in (3, 2):
        forget_incarnation(cluster, broker_id)


# --- unclean elections ------------------------------------------------------------------------


def test_the_unclean_replica_with_the_longest_log_leads_and_every_broker_reports_it() -> None:
    async def story(cluster: Cluster) -> None:
        await both_unclean(cluster)
        await cluster.start(3)
        await asyncio.sleep(20)
        assert leader_of(cluster, 1) is None
        assert record_of(cluster, 1).elr or record_of(cluster, 1).unclean == (3,)
        await cluster.start(2)
        await asyncio.sleep(20)
        assert leader_of(cluster, 1) == 2
        assert isr_of(cluster, 1) == [2, 3]
        assert await read(cluster, 2) == [b"both", b"alone"]
        for broker_id in (1, 2, 3):
            assert possible_losses(cluster, broker_id) == ["orders-0"]
            assert cluster.nodes[broker_id].metrics.broker.possible_data_losses == 1
            # All replicas are in sync again, so there is nothing left to warn of.
            assert cluster.nodes[broker_id].health.warnings.reasons == []
            assert cluster.nodes[broker_id].health.not_ready() == []
        assert cluster.nodes[1].metrics.controller.unclean_elections == 1

    with_cluster(story, Cluster(3))


def test_a_setting_allows_a_live_replica_to_lead_without_the_last_records() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(1)
        await topic_on(client, 3, 2, unclean_leader_election_enable="true")
        await send(cluster, 3, b"both")
        await cluster.kill(2)
        await asyncio.sleep(1)
        await send(cluster, 3, b"lost")
        await cluster.start(2)
        await cluster.kill(3)
        await asyncio.sleep(10)
        assert leader_of(cluster, 1) == 2
        assert possible_losses(cluster, 1) == ["orders-0"]
        (reason,) = cluster.nodes[2].health.warnings.reasons
        assert "orders-0" in reason
        assert cluster.nodes[2].health.not_ready() == []
        await send(cluster, 2, b"next")
        assert (await read(cluster, 2))[-1] == b"next"

    with_cluster(story, Cluster(3))


def test_an_operator_elects_an_unclean_leader() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(1)
        await topic_on(client, 3, 2)
        await send(cluster, 3, b"both")
        assert await elect(client, UNCLEAN, 0, 7) == [
            ErrorCode.ELECTION_NOT_NEEDED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        await cluster.kill(2)
        await asyncio.sleep(1)
        await send(cluster, 3, b"lost")
        await cluster.kill(3)
        await asyncio.sleep(1)
        # Also by another broker than the controller, which forwards it.
        assert await elect(client, UNCLEAN, 0) == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]
        await cluster.start(2)
        await asyncio.sleep(10)
        assert leader_of(cluster, 1) is None
        other = await cluster.client(2)
        assert await elect(other, UNCLEAN, 0) == [NONE]
        await asyncio.sleep(1)
        assert leader_of(cluster, 1) == 2
        assert possible_losses(cluster, 1) == ["orders-0"]
        assert await read(cluster, 2) == [b"both"]

    with_cluster(story, Cluster(3))


def test_a_leader_that_may_have_lost_records_is_reported_though_the_controller_dies() -> None:
    """It dies right after its commit, before it has applied the record itself."""

    async def story(cluster: Cluster) -> None:
        await both_unclean(cluster)
        await cluster.start(3)
        publisher = cluster.nodes[1]._publisher
        assert publisher is not None
        publisher._subscribers.clear()
        await cluster.start(2)
        await asyncio.sleep(10)
        assert possible_losses(cluster, 1) == []
        await cluster.kill(1)
        await asyncio.sleep(5)
        for broker_id in (2, 3):
            assert possible_losses(cluster, broker_id) == ["orders-0"]

    with_cluster(story, Cluster(3))


# --- preferred leaders ------------------------------------------------------------------------


def test_the_preferred_leader_comes_back_by_itself() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(1)
        await topic_on(client, 3, 1, 2)
        await cluster.kill(3)
        await asyncio.sleep(1)
        assert leader_of(cluster, 1) == 1
        assert await elect(client, PREFERRED, 0) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
        await cluster.start(3)
        await asyncio.sleep(10)
        assert (leader_of(cluster, 1), isr_of(cluster, 1)) == (1, [1, 2, 3])
        await asyncio.sleep(60)
        assert leader_of(cluster, 1) == 3
        assert await elect(client, PREFERRED, 0) == [ErrorCode.ELECTION_NOT_NEEDED]

    with_cluster(story, Cluster(3, leader_imbalance_check_interval_seconds="60"))


def test_an_operator_elects_the_preferred_leader() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(1)
        await topic_on(client, 3, 1, 2)
        await cluster.kill(3)
        await asyncio.sleep(1)
        await cluster.start(3)
        await asyncio.sleep(100)
        assert leader_of(cluster, 1) == 1
        assert await elect(client, PREFERRED, 0) == [NONE]
        await asyncio.sleep(1)
        assert leader_of(cluster, 1) == 3
        await send(cluster, 3, b"x")

    with_cluster(story, Cluster(3, auto_leader_rebalance_enable="false"))


# --- controlled shutdown ----------------------------------------------------------------------


async def stop(cluster: Cluster, broker_id: int) -> float:
    """The time that a controlled shutdown takes."""
    began = asyncio.get_running_loop().time()
    await cluster.nodes.pop(broker_id).stop()
    return asyncio.get_running_loop().time() - began


def test_a_broker_that_stops_hands_over_its_leaderships_and_leaves_all_isrs() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(1)
        topic = new_topic(
            "orders",
            partitions=-1,
            factor=-1,
            assignments={0: (3, 2, 1), 1: (1, 3, 2), 2: (3, 1, 2)},
        )
        await create(client, topic)
        await asyncio.sleep(1)
        await send(cluster, 3, b"x")
        draining: list[tuple[Any, ...]] = []

        def note(image: Any, _entry: Any) -> None:
            if image.brokers[3].state is BrokerState.DRAINING:
                draining.append(tuple(isr_of(cluster, 1, index=index) for index in range(3)))

        publisher = cluster.nodes[1]._publisher
        assert publisher is not None
        publisher.subscribe(note)
        assert await stop(cluster, 3) < DRAIN_TIMEOUT_S / 2
        # While its session lasted.
        assert draining[-1] == ([1, 2], [1, 2], [1, 2])
        assert [leader_of(cluster, 1, index=index) for index in range(3)] == [2, 1, 1]
        assert "leaderships not handed over" not in cluster.machine(3).notes.events("warning")
        await asyncio.sleep(1)
        assert await read(cluster, 2) == [b"x"]
        await cluster.start(3)
        await asyncio.sleep(10)
        assert [isr_of(cluster, 1, index=index) for index in range(3)] == [[1, 2, 3]] * 3

    with_cluster(story, Cluster(3))


def test_a_broker_stops_though_nobody_can_take_over() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(1)
        await topic_on(client, 3, 2)
        await send(cluster, 3, b"x")
        await cluster.kill(2)
        await asyncio.sleep(1)
        await send(cluster, 3, b"y")
        assert isr_of(cluster, 1) == [3]
        assert await stop(cluster, 3) < DRAIN_TIMEOUT_S / 2
        await asyncio.sleep(1)
        assert (leader_of(cluster, 1), isr_of(cluster, 1)) == (None, [])
        assert [each.broker_id for each in record_of(cluster, 1).elr] == [3]
        await cluster.start(3)
        await asyncio.sleep(1)
        assert await read(cluster, 3) == [b"x", b"y"]

    with_cluster(story, Cluster(3))


def test_all_brokers_stop_one_after_another_and_lose_nothing() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(1)
        await topic_on(client, 1, 2, 3)
        await send(cluster, 1, b"x")
        # The controller is the first to go.
        for broker_id in (1, 3, 2):
            assert await stop(cluster, broker_id) < DRAIN_TIMEOUT_S
        for broker_id in (1, 3, 2):
            await cluster.start(broker_id)
        await asyncio.sleep(10)
        assert isr_of(cluster, 1) == [1, 2, 3]
        leader = leader_of(cluster, 1)
        assert leader is not None
        assert await read(cluster, leader) == [b"x"]
        for broker_id in (1, 2, 3):
            assert possible_losses(cluster, broker_id) == []

    with_cluster(story, Cluster(3))


def test_a_broker_registers_its_rack() -> None:
    async def story(cluster: Cluster) -> None:
        assert image_of(cluster, 1).brokers[2].rack == "left"
        assert replica_of(cluster, 1) is None

    with_cluster(story, Cluster(2, broker_rack="left"))
