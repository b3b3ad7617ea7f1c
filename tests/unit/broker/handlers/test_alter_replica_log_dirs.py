"""AlterReplicaLogDirs: what is where it should be, and what does not move there."""

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, LogDir, Topic
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.support.broker.produce_and_fetch import batch, only, produce
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
DOES_NOT_MOVE = ErrorCode.UNSUPPORTED_VERSION


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
    """The directory that a partition is told to be in."""
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


def test_with_one_directory_everything_is_and_will_be_there() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders", 2))
        await write(client, 0)
        assert await move(client, "/data", 0, 1) == [NONE, NONE]
        assert await move(client, "/data", 2) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await move(client, "/data", 0, topic="none") == [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ]

    with_broker(story)


def test_with_several_directories_a_log_stays_where_it_is_and_that_is_said() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders", 3))
        await write(client, 0)
        await write(client, 1)
        homes = [await directory_of(client, index) for index in (0, 1)]
        assert sorted(homes) == ["/one", "/two"]
        assert await move(client, homes[0], 0, 1) == [NONE, DOES_NOT_MOVE]
        # Nobody knows yet where it will be.
        assert await move(client, "/one", 2) == [DOES_NOT_MOVE]
        assert [await directory_of(client, index) for index in (0, 1)] == homes

    with_broker(story, log_dirs="/one,/two")


@pytest.mark.parametrize("version", [1, 2])
def test_partitions_asked_for_in_several_directories_are_told_by_topic(version: int) -> None:
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


def test_a_directory_that_failed_takes_nothing() -> None:
    machine = Machine()
    machine.disk.faults.fail_next("create", "/two/*")

    async def story(client: Client) -> None:
        await create(client, new_topic("orders"))
        assert await move(client, "/two", 0) == [ErrorCode.KAFKA_STORAGE_ERROR]

    with_broker(story, machine=machine, log_dirs="/one,/two")
