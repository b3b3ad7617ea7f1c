"""Brokers that replicate partitions from each other."""

import asyncio
from typing import Any, NamedTuple

import pytest

from ottla.errors import ErrorCode
from ottla.metadata.image import Image
from ottla.metadata.records import Partition
from ottla.protocol.messages.delete_records import DeleteRecordsRequest
from ottla.protocol.messages.delete_records import Partition as Deleted
from ottla.protocol.messages.delete_records import Topic as DeletedTopic
from ottla.protocol.messages.fetch import FetchRequest, ReplicaState
from ottla.protocol.messages.fetch import Topic as FetchTopic
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.following.session import FetchBounds, FollowerSession, PlannedFetch
from ottla.replication.replica import Replica
from ottla.seams.files import read_file
from ottla.storage.directory.checkpoint_files import HIGH_WATERMARKS, read_offsets
from tests.support.broker.cluster import BROKERS_PORT, HOSTS, Cluster, with_cluster
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.simulated_broker import Client, create, new_topic


def image_of(cluster: Cluster, broker_id: int) -> Image:
    publisher = cluster.nodes[broker_id]._publisher
    assert publisher is not None
    return publisher.image


def replica_of(cluster: Cluster, broker_id: int, topic: str = "orders", index: int = 0) -> Replica:
    replicas = cluster.nodes[broker_id]._replicas
    assert replicas is not None
    replica = replicas.named(topic, index)
    assert replica is not None
    return replica


def record_of(cluster: Cluster, broker_id: int, topic: str = "orders", index: int = 0) -> Partition:
    image = image_of(cluster, broker_id)
    known = image.topic(topic)
    assert known is not None
    record = image.partition(known.topic_id, index)
    assert record is not None
    return record


async def replicated_topic(cluster: Cluster, client: Client, **configs: str) -> int:
    """Creates a topic with a replica on every broker. Returns the id of its leader."""
    given = {name.replace("_", "."): value for name, value in configs.items()}
    # The first replica leads. It is the controller, too.
    replicas = {0: tuple(sorted(cluster.nodes))}
    topic = new_topic("orders", -1, factor=-1, configs=given, assignments=replicas)
    await create(client, topic)
    await asyncio.sleep(1)
    leader = record_of(cluster, 1).leader
    assert leader is not None
    return leader.broker_id


def bytes_of(replica: Replica) -> bytes:
    assert replica.log is not None
    return b"".join(
        read_file(replica.log._pool.files, segment.path(".log")) for segment in replica.log.segments
    )


def test_followers_copy_what_the_leader_appends_and_then_it_is_committed() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(1)
        leader_id = await replicated_topic(cluster, client, min_insync_replicas="3")
        leader = await cluster.client(leader_id)
        answer = only(await leader.ask(produce("orders", batch(b"a", b"b")), 9))
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
        await asyncio.sleep(1)
        logs = [bytes_of(replica_of(cluster, each)) for each in (1, 2, 3)]
        assert logs[0] == logs[1] == logs[2] != b""
        assert [replica_of(cluster, each).high_watermark for each in (1, 2, 3)] == [2, 2, 2]
        fetched = only(await leader.ask(fetch("orders", wanted(0, 0)), 12))
        assert values(fetched.records) == [b"a", b"b"]

    with_cluster(story, Cluster(3))


def test_another_replica_leads_when_the_leader_is_gone_and_has_everything() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(1)
        leader_id = await replicated_topic(cluster, client, min_insync_replicas="2")
        leader = await cluster.client(leader_id)
        for number in range(20):
            answer = only(await leader.ask(produce("orders", batch(b"%d" % number)), 9))
            assert answer.error_code == ErrorCode.NONE
        await cluster.kill(leader_id)
        await asyncio.sleep(10)
        (other_id, *_) = cluster.nodes
        record = record_of(cluster, other_id)
        assert record.leader is not None
        assert record.leader.broker_id != leader_id
        assert leader_id not in [member.broker_id for member in record.isr]
        next_leader = await cluster.client(record.leader.broker_id)
        answer = only(await next_leader.ask(produce("orders", batch(b"last")), 9))
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 20)
        fetched = only(await next_leader.ask(fetch("orders", wanted(0, 0)), 12))
        assert values(fetched.records) == [b"%d" % number for number in range(20)] + [b"last"]
        # The old leader comes back, follows, and is in sync again.
        await cluster.start(leader_id)
        await asyncio.sleep(40)
        assert len(record_of(cluster, other_id).isr) == 3
        assert bytes_of(replica_of(cluster, leader_id)) == bytes_of(replica_of(cluster, other_id))

    with_cluster(story, Cluster(3))


def isr_of(cluster: Cluster, broker_id: int = 1) -> list[int]:
    return sorted(member.broker_id for member in record_of(cluster, broker_id).isr)


async def led(cluster: Cluster, **configs: str) -> tuple[int, list[int], Client]:
    """A replicated topic: its leader, its followers, and a client of the leader."""
    leader_id = await replicated_topic(cluster, await cluster.client(1), **configs)
    followers = [each for each in sorted(cluster.nodes) if each != leader_id]
    return leader_id, followers, await cluster.client(leader_id)


async def send(client: Client, *values: bytes, acks: int = -1, timeout_ms: int = 1_000) -> Any:
    request = produce("orders", batch(*values), acks=acks, timeout_ms=timeout_ms)
    return only(await client.ask(request, 9))


def cut_off(cluster: Cluster, broker_id: int) -> None:
    """No other broker reaches this one. The metadata ensemble does."""
    for other in HOSTS[: len(cluster.machines)]:
        if other != HOSTS[broker_id - 1]:
            cluster.machines[0].network.partition(other, HOSTS[broker_id - 1])


def heal(cluster: Cluster) -> None:
    cluster.machines[0].network.heal()


# Twice replica.lag.time.max.ms of these clusters.
LAG_S = 4
FAST = {
    "replica_lag_time_max_ms": "2000",
    "replica_fetch_backoff_ms": "100",
    "replica_socket_timeout_ms": "1000",
}


def test_a_follower_that_lags_leaves_the_isr_and_joins_again_when_it_has_caught_up() -> None:
    async def story(cluster: Cluster) -> None:
        leader_id, followers, client = await led(cluster, min_insync_replicas="2")
        lost = followers[-1]
        cut_off(cluster, lost)
        answer = await send(client, b"a")
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT, "it is still in the ISR"
        await asyncio.sleep(LAG_S)
        assert isr_of(cluster, leader_id) == sorted({1, 2, 3} - {lost})
        assert replica_of(cluster, leader_id).high_watermark == 1
        answer = await send(client, b"b")
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 1)
        heal(cluster)
        await asyncio.sleep(LAG_S)
        assert isr_of(cluster, leader_id) == [1, 2, 3]
        assert bytes_of(replica_of(cluster, lost)) == bytes_of(replica_of(cluster, leader_id))

    with_cluster(story, Cluster(3, **FAST))


def test_a_follower_with_a_full_disk_leaves_the_isr_and_joins_again_when_it_has_space() -> None:
    async def story(cluster: Cluster) -> None:
        leader_id, followers, client = await led(cluster, min_insync_replicas="2")
        full = followers[-1]
        assert (await send(client, b"a")).error_code == ErrorCode.NONE
        cluster.machine(full).disk.resize(0)
        answer = await send(client, b"b")
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT, "it is still in the ISR"
        await asyncio.sleep(LAG_S)
        assert isr_of(cluster, leader_id) == sorted({1, 2, 3} - {full})
        assert (await send(client, b"c")).error_code == ErrorCode.NONE
        replica = replica_of(cluster, full)
        assert (replica.end_offset, replica.is_unusable) == (1, False), "its log is not offline"
        cluster.machine(full).disk.resize(1 << 30)
        await asyncio.sleep(LAG_S)
        assert isr_of(cluster, leader_id) == [1, 2, 3]
        assert bytes_of(replica_of(cluster, full)) == bytes_of(replica_of(cluster, leader_id))
        assert not any(node.fault.done() for node in cluster.nodes.values())

    with_cluster(story, Cluster(3, **FAST))


def test_an_idle_follower_that_is_cut_off_stays_in_the_isr() -> None:
    async def story(cluster: Cluster) -> None:
        leader_id, followers, _ = await led(cluster)
        cut_off(cluster, followers[-1])
        await asyncio.sleep(5 * LAG_S)
        assert isr_of(cluster, leader_id) == [1, 2, 3]

    with_cluster(story, Cluster(3, **FAST))


def test_with_too_few_in_sync_nothing_is_committed_or_accepted_with_acks_all() -> None:
    async def story(cluster: Cluster) -> None:
        leader_id, followers, client = await led(cluster, min_insync_replicas="2")
        for follower in followers:
            cut_off(cluster, follower)
        waiting = asyncio.ensure_future(send(client, b"a", timeout_ms=60_000))
        await asyncio.sleep(LAG_S)
        assert isr_of(cluster, leader_id) == [leader_id]
        late = await waiting
        assert late.error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert replica_of(cluster, leader_id).high_watermark == 0
        refused = await send(client, b"b")
        assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        taken = await send(client, b"c", acks=1)
        assert (taken.error_code, taken.base_offset) == (ErrorCode.NONE, 1)
        assert replica_of(cluster, leader_id).high_watermark == 0
        heal(cluster)
        await asyncio.sleep(LAG_S)
        assert replica_of(cluster, leader_id).high_watermark == 2

    with_cluster(story, Cluster(3, **FAST))


def test_a_former_leader_truncates_what_nobody_else_has() -> None:
    async def story(cluster: Cluster) -> None:
        leader_id, followers, client = await led(cluster, min_insync_replicas="2")
        assert (await send(client, b"a")).error_code == ErrorCode.NONE
        cut_off(cluster, leader_id)
        lost = await send(client, b"lost")
        assert lost.error_code == ErrorCode.REQUEST_TIMED_OUT
        await cluster.kill(leader_id)
        heal(cluster)
        await asyncio.sleep(1)
        record = record_of(cluster, followers[0])
        assert record.leader is not None
        assert record.leader.broker_id in followers
        client = await cluster.client(record.leader.broker_id)
        assert (await send(client, b"kept")).error_code == ErrorCode.NONE
        await cluster.start(leader_id)
        await asyncio.sleep(LAG_S)
        logs = [bytes_of(replica_of(cluster, each)) for each in (1, 2, 3)]
        assert logs[0] == logs[1] == logs[2]
        fetched = only(await client.ask(fetch("orders", wanted(0, 0)), 12))
        assert values(fetched.records) == [b"a", b"kept"]
        assert isr_of(cluster, leader_id) == [1, 2, 3]

    with_cluster(story, Cluster(3, **FAST))


def test_a_follower_fetches_in_pieces_and_waits_as_its_settings_say() -> None:
    async def story(cluster: Cluster) -> None:
        leader_id, followers, client = await led(cluster)
        follower = cluster.nodes[followers[0]]
        requests: list[FetchRequest] = []
        request = FollowerSession.request

        def noted(session: FollowerSession, bounds: FetchBounds) -> PlannedFetch:
            made = request(session, bounds)
            if session.me.broker_id == followers[0]:
                requests.append(made.message())
            return made

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(FollowerSession, "request", noted)
            for _ in range(10):
                await send(client, b"x" * 400)
            await asyncio.sleep(10)
        assert not follower.fault.done()
        assert {each.max_wait_ms for each in requests} == {300}
        assert {each.min_bytes for each in requests} == {2}
        assert {each.max_bytes for each in requests} == {2_000}
        named = [each for made in requests for topic in made.topics for each in topic.partitions]
        assert {each.partition_max_bytes for each in named} == {1_000}
        assert 25 <= len(requests) <= 80, "about ten in three seconds, and ten with records"
        assert isr_of(cluster, leader_id) == [1, 2, 3]
        assert replica_of(cluster, followers[0]).end_offset == 10

    settings = {
        "replica_fetch_wait_max_ms": "300",
        "replica_fetch_min_bytes": "2",
        "replica_fetch_max_bytes": "1000",
        "replica_fetch_response_max_bytes": "2000",
    }
    with_cluster(story, Cluster(3, **settings))


@pytest.mark.parametrize(("interval_ms", "saved"), [("2000", 1), ("10000", 0)])
def test_high_watermarks_are_saved_as_often_as_the_setting_says(
    interval_ms: str, saved: int
) -> None:
    def saved_by(cluster: Cluster, broker_id: int) -> int:
        files = cluster.machine(broker_id).disk.process()
        return read_offsets(files, f"/data/{HIGH_WATERMARKS}").get(TopicPartition("orders", 0), 0)

    async def story(cluster: Cluster) -> None:
        _, _, client = await led(cluster)
        await send(client, b"a")
        await asyncio.sleep(4)
        assert [saved_by(cluster, each) for each in (1, 2, 3)] == [saved] * 3
        await asyncio.sleep(8)
        assert [saved_by(cluster, each) for each in (1, 2, 3)] == [1, 1, 1]

    with_cluster(story, Cluster(3, replica_high_watermark_checkpoint_interval_ms=interval_ms))


def test_records_are_deleted_on_all_replicas() -> None:
    async def story(cluster: Cluster) -> None:
        _, _, client = await led(cluster)
        for value in (b"a", b"b", b"c"):
            await send(client, value)
        request = DeleteRecordsRequest(
            topics=(
                DeletedTopic(name="orders", partitions=(Deleted(partition_index=0, offset=2),)),
            ),
            timeout_ms=10_000,
        )
        answer = only(await client.ask(request))
        assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 2)
        assert [replica_of(cluster, each).start_offset for each in (1, 2, 3)] == [2, 2, 2]

    with_cluster(story, Cluster(3))


def test_a_replica_that_comes_after_records_were_deleted_begins_behind_them() -> None:
    async def story(cluster: Cluster) -> None:
        leader_id, followers, client = await led(cluster)
        late = followers[-1]
        await cluster.kill(late)
        for value in (b"a", b"b", b"c"):
            assert (await send(client, value)).error_code == ErrorCode.NONE
        request = DeleteRecordsRequest(
            topics=(
                DeletedTopic(name="orders", partitions=(Deleted(partition_index=0, offset=2),)),
            ),
            timeout_ms=10_000,
        )
        answer = only(await client.ask(request))
        assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 2)
        await cluster.start(late)
        await asyncio.sleep(LAG_S)
        replica = replica_of(cluster, late)
        assert (replica.start_offset, replica.end_offset, replica.high_watermark) == (2, 3, 3)
        assert isr_of(cluster, leader_id) == [1, 2, 3]

    with_cluster(story, Cluster(3, **FAST))


class _FetchAs(NamedTuple):
    """A fetch that claims to be a follower's."""

    client: Client
    topic_id: Uuid

    async def __call__(self, broker_id: int, epoch: int, offset: int = 100) -> Any:
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=broker_id, replica_epoch=epoch),
            max_wait_ms=0,
            min_bytes=1,
            topics=(FetchTopic(topic_id=self.topic_id, partitions=(wanted(0, offset),)),),
        )
        return await self.client.ask(request, 17)


def test_nobody_else_can_pretend_to_be_a_follower() -> None:
    async def story(cluster: Cluster) -> None:
        leader_id, followers, client = await led(cluster)
        for follower in followers:
            cut_off(cluster, follower)
        await asyncio.sleep(1)
        await send(client, b"a")
        topic_id = record_of(cluster, leader_id).topic_id
        epochs = {each: cluster.broker_epoch(each) for each in followers}
        as_client = _FetchAs(client, topic_id)
        as_broker = _FetchAs(await cluster.client(leader_id, BROKERS_PORT), topic_id)
        for follower, epoch in epochs.items():
            refused = await as_client(follower, epoch, 1)
            assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            stale = await as_broker(follower, epoch - 1, 1)
            assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH
        assert (await as_broker(9, 1, 1)).error_code == ErrorCode.STALE_BROKER_EPOCH
        assert replica_of(cluster, leader_id).high_watermark == 0
        assert replica_of(cluster, leader_id).partition.followers.keys() <= set(followers)
        beyond = only(await as_broker(followers[0], epochs[followers[0]], 7))
        assert beyond.diverging_epoch is not None
        assert replica_of(cluster, leader_id).high_watermark == 0

    with_cluster(story, Cluster(3, **FAST))
