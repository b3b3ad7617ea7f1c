"""Brokers of a cluster say themselves whether they are ready, and count what happens to them."""

import asyncio

from ottla.errors import ErrorCode
from ottla.metadata.applied_offset import FILE_NAME
from ottla.metadata.records import Broker
from ottla.metadata.values import BrokerState
from ottla.seams.files import read_file
from tests.support.broker.cluster import HOSTS, Cluster, with_cluster
from tests.support.broker.cluster_partitions import image_of, isr_of, leader_of, reassign, record_of
from tests.support.broker.produce_and_fetch import batch, only, produce
from tests.support.broker.simulated_broker import create, new_topic

UP = BrokerState.UP
LAG_S = 10
FAST = {"replica_lag_time_max_ms": "4000", "replica_socket_timeout_ms": "2000"}
EXPIRES = "kafka_server_sessionexpirelistener_zookeeperexpires_total"
ELECTIONS = "kafka_controller_controllerstats_leaderelectionrateandtimems"


def shown(cluster: Cluster, broker_id: int, name: str) -> float:
    """The value of a metric in a scrape."""
    page = b"".join(cluster.nodes[broker_id].metrics.render()).decode()
    samples = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    return float(samples[name])


def session_state(cluster: Cluster, broker_id: int) -> list[str]:
    return [
        state
        for state in ("connected", "disconnected", "lost")
        if shown(cluster, broker_id, f'ottla_zookeeper_session_state{{state="{state}"}}')
    ]


def not_ready(cluster: Cluster, broker_id: int) -> list[str]:
    return cluster.nodes[broker_id].health.not_ready()


async def topic_on(cluster: Cluster, *replicas: int) -> None:
    client = await cluster.client(1)
    topic = new_topic("orders", partitions=-1, factor=-1, assignments={0: replicas})
    await create(client, topic)
    await asyncio.sleep(2)


async def send(cluster: Cluster, leader_id: int, acks: int = -1) -> None:
    client = await cluster.client(leader_id)
    answer = only(await client.ask(produce("orders", batch(b"x"), acks=acks), 9))
    assert answer.error_code == ErrorCode.NONE


def cut_off(cluster: Cluster, broker_id: int) -> None:
    for host in HOSTS:
        if host != HOSTS[broker_id - 1]:
            cluster.machines[0].network.partition(HOSTS[broker_id - 1], host)


def test_a_follower_that_lags_is_not_ready_and_its_leader_is() -> None:
    async def story(cluster: Cluster) -> None:
        await topic_on(cluster, 1, 2, 3)
        counted = [
            f"kafka_server_replicamanager_isr{each}_total" for each in ("shrinks", "expands")
        ]
        assert [shown(cluster, 1, name) for name in counted] == [0, 0]
        cut_off(cluster, 3)
        await send(cluster, 1, acks=1)
        await asyncio.sleep(LAG_S)
        assert isr_of(cluster, 1) == [1, 2]
        assert not_ready(cluster, 1) == not_ready(cluster, 2) == []
        (reason,) = not_ready(cluster, 3)
        assert reason == (
            "replicas: 1 of 1 are out of sync, and catch up with their leaders: orders-0"
        )
        assert [shown(cluster, 1, name) for name in counted] == [1, 0]
        cluster.machines[0].network.heal()
        await asyncio.sleep(LAG_S)
        assert not_ready(cluster, 3) == []
        assert [shown(cluster, 1, name) for name in counted] == [1, 1]

    with_cluster(story, Cluster(3, **FAST))


def test_brokers_stay_ready_when_another_one_is_down() -> None:
    async def story(cluster: Cluster) -> None:
        await topic_on(cluster, 2, 3, 1)
        await cluster.kill(2)
        await asyncio.sleep(LAG_S)
        assert isr_of(cluster, 1) == [1, 3]
        assert not_ready(cluster, 1) == not_ready(cluster, 3) == []
        # Also a follower that lacks records, of a partition that nobody can lead.
        await cluster.kill(1)
        await send(cluster, 3, acks=1)
        await cluster.start(1)
        await cluster.kill(3)
        await asyncio.sleep(LAG_S)
        assert leader_of(cluster, 1) is None
        assert not_ready(cluster, 1) == []

    with_cluster(story, Cluster(3, **FAST))


def test_a_restarted_broker_is_ready_only_once_it_is_in_all_isrs_again() -> None:
    async def story(cluster: Cluster) -> None:
        await topic_on(cluster, 1, 2, 3)
        await cluster.nodes.pop(3).stop()
        await send(cluster, 1)
        assert isr_of(cluster, 1) == [1, 2]
        # It cannot catch up yet.
        cut_off(cluster, 3)
        await cluster.start(3)
        assert not_ready(cluster, 3) != [], "also before its replicas were examined"
        await asyncio.sleep(LAG_S)
        assert "out of sync" in not_ready(cluster, 3)[0]
        cluster.machines[0].network.heal()
        async with asyncio.timeout(600):
            while not_ready(cluster, 3):
                await asyncio.sleep(0.05)
        assert isr_of(cluster, 3) == [1, 2, 3]

    with_cluster(story, Cluster(3, **FAST))


def test_a_replica_that_is_being_added_does_not_count() -> None:
    async def story(cluster: Cluster) -> None:
        await topic_on(cluster, 1, 2)
        cut_off(cluster, 3)
        await send(cluster, 1)
        assert await reassign(await cluster.client(1), (1, 2, 3)) == ErrorCode.NONE
        await asyncio.sleep(LAG_S)
        assert record_of(cluster, 1).adding == (3,)
        assert isr_of(cluster, 3) == [1, 2]
        assert not_ready(cluster, 3) == []

    with_cluster(story, Cluster(3, **FAST))


def test_a_log_that_is_offline_makes_a_broker_of_a_cluster_unready() -> None:
    async def story(cluster: Cluster) -> None:
        await topic_on(cluster, 1, 2)
        replicas = cluster.nodes[2]._replicas
        assert replicas is not None
        for replica in replicas:
            replica.is_unusable = True
        await asyncio.sleep(LAG_S)
        (reason,) = not_ready(cluster, 2)
        assert reason == "logs: 1 of 1 are offline: orders-0"
        assert not_ready(cluster, 1) == []

    with_cluster(story, Cluster(2, **FAST))


def test_a_broker_without_a_session_is_not_ready_until_it_is_registered_again() -> None:
    async def story(cluster: Cluster) -> None:
        await topic_on(cluster, 1, 2)
        assert (session_state(cluster, 2), shown(cluster, 2, EXPIRES)) == (["connected"], 0)
        # No controller, so that its new registration is not in the metadata log.
        held = cluster.hold_controller()
        await cluster.kill(1)
        cluster.expire(2)
        await asyncio.sleep(2)
        assert "session: lost, and the broker has not registered again yet" in not_ready(cluster, 2)
        assert (session_state(cluster, 2), shown(cluster, 2, EXPIRES)) == (["lost"], 1)
        cluster.ensemble.expire(held)
        await asyncio.sleep(LAG_S)
        assert not_ready(cluster, 2) == []
        assert (session_state(cluster, 2), shown(cluster, 2, EXPIRES)) == (["connected"], 1)

    with_cluster(story, Cluster(2))


def test_a_broker_that_does_not_apply_the_metadata_log_is_not_ready() -> None:
    async def story(cluster: Cluster) -> None:
        await topic_on(cluster, 1)
        image = image_of(cluster, 2)
        # As if the last three entries had not been applied for a while.
        image.offset -= 3
        await asyncio.sleep(2)
        assert not_ready(cluster, 2) == ["metadata: 3 entries of its log are not applied yet"]
        image.offset += 3
        await asyncio.sleep(2)
        assert not_ready(cluster, 2) == []

    with_cluster(story, Cluster(2))


def test_the_controller_counts_the_leaders_that_it_elects() -> None:
    async def story(cluster: Cluster) -> None:
        before = shown(cluster, 1, f"{ELECTIONS}_count")
        await topic_on(cluster, 2, 3)
        assert shown(cluster, 1, f"{ELECTIONS}_count") == before, "the first one was assigned"
        await cluster.kill(2)
        await asyncio.sleep(2)
        assert leader_of(cluster, 1) == 3
        assert shown(cluster, 1, f"{ELECTIONS}_count") == before + 1
        assert shown(cluster, 1, f"{ELECTIONS}_sum") >= 0
        assert shown(cluster, 3, f"{ELECTIONS}_count") == 0, "another is the controller"

    with_cluster(story, Cluster(3))


def test_the_applied_offset_is_saved_before_a_broker_serves() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.nodes.pop(2).stop()
        await cluster.start(2)
        saved = read_file(cluster.machine(2).disk.process(), f"/data/{FILE_NAME}")
        epoch = cluster.broker_epoch(2)
        brought_up = [
            entry.offset
            for entry in cluster.ensemble.entries
            for record in entry.records
            if isinstance(record, Broker) and (record.epoch, record.state) == (epoch, UP)
        ]
        assert int(saved) >= brought_up[-1]

    with_cluster(story, Cluster(2))
