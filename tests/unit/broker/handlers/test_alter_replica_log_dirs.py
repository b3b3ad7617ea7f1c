"""AlterReplicaLogDirs: logs move between the log directories of a broker while it serves them."""

import asyncio

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, LogDir, Topic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.messages.incremental_alter_configs import (
    Config,
    IncrementalAlterConfigsRequest,
    Resource,
)
from ottla.storage.directory.move_mark import MARK
from tests.sim.seams.loop import run
from tests.support.broker.cluster import Cluster, with_cluster
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.recorded_answers import (
    SETTINGS,
    comparable,
    ours,
    recorded_machine,
    recordings,
)
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic, with_broker

ALTER_REPLICA_LOG_DIRS = 34
NONE = ErrorCode.NONE


async def move(client: Client, path: str, *indexes: int, topic: str = "orders") -> list[ErrorCode]:
    request = AlterReplicaLogDirsRequest(
        dirs=(LogDir(path=path, topics=(Topic(name=topic, partitions=indexes),)),)
    )
    (answered,) = (await client.ask(request)).results
    assert answered.topic_name == topic
    assert tuple(each.partition_index for each in answered.partitions) == indexes
    return [ErrorCode(each.error_code) for each in answered.partitions]


async def write(client: Client, index: int) -> None:
    answer = only(await client.ask(produce("orders", batch(), partition=index), 9))
    assert answer.error_code == NONE


async def directory_of(client: Client, index: int) -> str:
    """The directory of a partition in DescribeLogDirs."""
    for log_dir in (await client.ask(DescribeLogDirsRequest(topics=None))).results:
        for topic in log_dir.topics:
            if index in [partition.partition_index for partition in topic.partitions]:
                return str(log_dir.log_dir)
    raise KeyError(index)


def test_every_recorded_move_is_answered_as_kafka_did() -> None:
    compared: set[int] = set()

    async def story(client: Client) -> None:
        await create(client, new_topic("vec-a-80296", 3))
        for pair in recordings(ALTER_REPLICA_LOG_DIRS):
            answer = await ours(client, pair)
            assert comparable(answer) == comparable(pair["responseJson"]), pair
            compared.update(pair["errors"])

    with_broker(story, machine=recorded_machine(), **SETTINGS)
    assert compared == {ErrorCode.LOG_DIR_NOT_FOUND}


def test_with_one_directory_every_partition_is_in_it() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders", 2))
        await write(client, 0)
        assert await move(client, "/data", 0, 1) == [NONE, NONE]
        assert await move(client, "/data", 2) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await move(client, "/data", 0, topic="none") == [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ]

    with_broker(story)


async def until_moved(client: Client, index: int, path: str) -> None:
    for _ in range(600):
        if await directory_of(client, index) == path and not await futures(client):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{index} is still in {await directory_of(client, index)}")


async def futures(client: Client) -> list[tuple[str, int, int]]:
    """The directory, partition and lag of every copy."""
    return [
        (log_dir.log_dir, partition.partition_index, partition.offset_lag)
        for log_dir in (await client.ask(DescribeLogDirsRequest(topics=None))).results
        for topic in log_dir.topics
        for partition in topic.partitions
        if partition.is_future_key
    ]


def other(path: str) -> str:
    return {"/one": "/two", "/two": "/one"}[path]


async def stored(client: Client, index: int) -> list[bytes | None]:
    found = only(await client.ask(fetch("orders", wanted(index)), 12))
    assert found.error_code == NONE
    return values(found.records)


def test_a_log_moves_with_its_records_and_is_found_there_again() -> None:
    async def story(machine: Machine) -> None:
        async with machine.broker(log_dirs="/one,/two") as client:
            await create(client, new_topic("orders", 2))
            for _ in range(5):
                await write(client, 0)
            home = await directory_of(client, 0)
            before = await stored(client, 0)
            assert len(before) == 5
            assert await move(client, other(home), 0) == [NONE]
            await until_moved(client, 0, other(home))
            assert await stored(client, 0) == before
            await write(client, 0)
            await asyncio.sleep(1)
            assert not [path for path in machine.disk.files() if path.endswith(MARK)]
        async with machine.broker(log_dirs="/one,/two") as client:
            assert await directory_of(client, 0) == other(home)
            assert (await stored(client, 0))[:5] == before
            assert len(await stored(client, 0)) == 6
            # And back again.
            assert await move(client, home, 0) == [NONE]
            await until_moved(client, 0, home)
            assert len(await stored(client, 0)) == 6

    machine = Machine()
    run(story(machine), clock=machine.clock)


def test_a_later_request_replaces_an_earlier_one() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders"))
        await write(client, 0)
        home = await directory_of(client, 0)
        assert await move(client, other(home), 0) == [NONE]
        assert await move(client, home, 0) == [NONE]
        await asyncio.sleep(5)
        assert await directory_of(client, 0) == home
        assert await futures(client) == []

    with_broker(story, log_dirs="/one,/two")


def test_a_throttled_copy_is_listed_with_its_lag_and_resumed_after_a_restart() -> None:
    slow = {
        "log_dirs": "/one,/two",
        "replica_alter_log_dirs_io_max_bytes_per_second": "1",
    }

    async def story(machine: Machine) -> None:
        async with machine.broker(**slow) as client:
            await create(client, new_topic("orders"))
            await write(client, 0)
            home = await directory_of(client, 0)
            await move(client, other(home), 0)
            await asyncio.sleep(1)
            await write(client, 0)
            assert await futures(client) == [(other(home), 0, 1)]
        async with machine.broker(log_dirs="/one,/two") as client:
            await until_moved(client, 0, other(home))
            assert len(await stored(client, 0)) == 2

    machine = Machine()
    run(story(machine), clock=machine.clock)


async def set_rate(client: Client, bytes_per_second: int) -> None:
    name = "replica.alter.log.dirs.io.max.bytes.per.second"
    config = Config(name=name, config_operation=0, value=str(bytes_per_second))
    resource = Resource(resource_type=4, resource_name="1", configs=(config,))
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    (result,) = (await client.ask(request)).responses
    assert result.error_code == NONE


def test_the_rate_of_copies_is_that_of_the_settings_while_the_broker_runs() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders"))
        await write(client, 0)
        home = await directory_of(client, 0)
        await set_rate(client, 1)
        await move(client, other(home), 0)
        await asyncio.sleep(1)
        await write(client, 0)
        await asyncio.sleep(30)
        assert await futures(client) == [(other(home), 0, 1)], "a byte per second"
        await set_rate(client, 1 << 20)
        await until_moved(client, 0, other(home))

    with_broker(story, log_dirs="/one,/two")


def test_a_partition_without_a_log_is_created_where_it_is_wanted() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders", 4))
        assert await move(client, "/two", 0, 1, 2, 3) == [NONE] * 4
        for index in range(4):
            await write(client, index)
            assert await directory_of(client, index) == "/two"

    with_broker(story, log_dirs="/one,/two")


def test_a_topic_that_is_deleted_during_a_move_leaves_nothing() -> None:
    async def story(machine: Machine) -> None:
        slow = {"replica_alter_log_dirs_io_max_bytes_per_second": "1"}
        async with machine.broker(log_dirs="/one,/two", **slow) as client:
            await create(client, new_topic("orders"))
            await write(client, 0)
            await move(client, other(await directory_of(client, 0)), 0)
            await asyncio.sleep(1)
            await client.ask(DeleteTopicsRequest(topic_names=("orders",), timeout_ms=1000), 5)
            await asyncio.sleep(300)
        assert not [path for path in machine.disk.files() if "orders" in path]

    machine = Machine()
    run(story(machine), clock=machine.clock)


@pytest.mark.parametrize("version", [1, 2])
def test_results_of_several_directories_are_grouped_by_topic(version: int) -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders", 2))
        request = AlterReplicaLogDirsRequest(
            dirs=(
                LogDir(path="/data", topics=(Topic(name="orders", partitions=(0,)),)),
                LogDir(path="/none", topics=(Topic(name="orders", partitions=(1,)),)),
            )
        )
        (topic,) = (await client.ask(request, version)).results
        assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
            (0, NONE),
            (1, ErrorCode.LOG_DIR_NOT_FOUND),
        ]

    with_broker(story)


def test_a_failed_directory_is_refused() -> None:
    machine = Machine()
    machine.disk.faults.fail_next("create", "/two/*")

    async def story(client: Client) -> None:
        await create(client, new_topic("orders"))
        assert await move(client, "/two", 0) == [ErrorCode.KAFKA_STORAGE_ERROR]

    with_broker(story, machine=machine, log_dirs="/one,/two")


def test_the_logs_of_leader_and_follower_move_while_records_are_replicated() -> None:
    async def story(cluster: Cluster) -> None:
        clients = {broker_id: await cluster.client(broker_id) for broker_id in (1, 2)}
        await create(clients[1], new_topic("orders", factor=2))
        await asyncio.sleep(5)
        replicas = [
            cluster.services(each).partitions.replicas.named("orders", 0) for each in (1, 2)
        ]
        first, second = replicas
        assert first is not None
        assert second is not None
        leader = 1 if first.partition.is_leader else 2
        for number in range(30):
            await write(clients[leader], 0)
            if number == 5:
                await asyncio.sleep(5)
                before = [await directory_of(clients[each], 0) for each in (1, 2)]
                for each, path in zip((1, 2), before, strict=True):
                    assert await move(clients[each], other(path), 0) == [NONE]
        for each, path in zip((1, 2), before, strict=True):
            await until_moved(clients[each], 0, other(path))
        await write(clients[leader], 0)
        await asyncio.sleep(5)
        assert first.log is not None
        assert second.log is not None
        assert first.log.end_offset == second.log.end_offset == 31
        assert len(first.partition.isr) == 2
        assert first.high_watermark == second.high_watermark == 31

    with_cluster(story, Cluster(2, log_dirs="/one,/two"))


def test_a_broker_without_a_replica_remembers_where_to_create_it() -> None:
    async def story(cluster: Cluster) -> None:
        clients = {broker_id: await cluster.client(broker_id) for broker_id in (1, 2)}
        await create(clients[1], new_topic("orders"))
        await asyncio.sleep(5)
        held = cluster.services(1).partitions.replicas.named("orders", 0) is not None
        without = 2 if held else 1
        directories = cluster.services(without).partitions.replicas.directories
        for path in ("/one", "/two"):
            answer = await move(clients[without], path, 0)
            assert answer == [ErrorCode.REPLICA_NOT_AVAILABLE]
            assert directories.preferred == {("orders", 0): path}

    with_cluster(story, Cluster(2, log_dirs="/one,/two"))
