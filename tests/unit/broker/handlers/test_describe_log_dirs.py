"""DescribeLogDirs: log directories and the sizes of logs."""

from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.batch import Record, build
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, RequestedTopic
from ottla.protocol.messages.produce import Partition, ProduceRequest, Topic
from tests.support.broker.recorded_answers import (
    SETTINGS,
    comparable,
    ours,
    recorded_machine,
    recordings,
)
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic, with_broker

DESCRIBE_LOG_DIRS = 35
ALL = DescribeLogDirsRequest(topics=None)


def sizes(log_dir: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, partition.partition_index): partition.partition_size
        for topic in log_dir.topics
        for partition in topic.partitions
    }


async def produce(client: Client, topic: str, index: int) -> int:
    """Appends one batch; its size."""
    batch = build([Record(0, 1, b"key", b"value")])
    request = ProduceRequest(
        acks=1,
        timeout_ms=1000,
        topic_data=(Topic(name=topic, partition_data=(Partition(index=index, records=batch),)),),
    )
    response = await client.ask(request, 9)
    if response.responses[0].partition_responses[0].error_code:
        raise AssertionError(response)
    return len(batch)


def test_every_recorded_question_about_known_topics_is_answered_as_kafka_did() -> None:
    """Except the directory's path, the size of its volume, and the size of one written log."""

    def alike(answer: Any) -> Any:
        for result in answer["results"]:
            result["logDir"] = "a directory"
            for name in ("totalBytes", "usableBytes"):
                if name in result:
                    result[name] = "some"
            for topic in result["topics"]:
                for partition in topic["partitions"]:
                    partition["partitionSize"] = "some"
        return comparable(answer)

    async def story(client: Client) -> None:
        await create(client, new_topic("vec-a-80296", 3), new_topic("vec-b-80296", 1))
        compared = 0
        for pair in recordings(DESCRIBE_LOG_DIRS):
            if pair["requestJson"]["topics"] is not None:
                assert alike(await ours(client, pair)) == alike(pair["responseJson"])
                compared += 1
        assert compared > 10

    with_broker(story, machine=recorded_machine(), **SETTINGS)


def test_each_partition_has_the_size_of_its_log_and_an_unwritten_one_none() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders", 2), new_topic("other"))
        batch_bytes = await produce(client, "orders", 1)

        (every,) = (await client.ask(ALL)).results
        asked = DescribeLogDirsRequest(topics=(RequestedTopic(topic="orders", partitions=(1, 9)),))
        (some,) = (await client.ask(asked)).results

        assert sizes(every) == {("orders", 0): 0, ("orders", 1): batch_bytes, ("other", 0): 0}
        assert sizes(some) == {("orders", 1): batch_bytes}
        assert (every.log_dir, every.error_code) == ("/data", ErrorCode.NONE)
        assert 0 < every.usable_bytes < every.total_bytes == 1 << 30

    with_broker(story)


def test_with_several_directories_every_partition_is_in_one_of_them() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders", 5))
        for index in range(4):
            await produce(client, "orders", index)

        results = (await client.ask(ALL)).results

        assert [result.log_dir for result in results] == ["/one", "/two"]
        listed = [name for result in results for name in sizes(result)]
        assert sorted(listed) == [("orders", index) for index in range(5)]
        assert all(sizes(result) for result in results)

    with_broker(story, log_dirs="/one,/two")


@pytest.mark.parametrize("version", [1, 5])
def test_an_unusable_directory_has_an_error(version: int) -> None:
    machine = Machine()
    machine.disk.faults.fail_next("create", "/two/*")

    async def story(client: Client) -> None:
        good, bad = (await client.ask(ALL, version)).results

        assert (good.log_dir, good.error_code) == ("/one", ErrorCode.NONE)
        assert (bad.log_dir, bad.error_code) == ("/two", ErrorCode.KAFKA_STORAGE_ERROR)
        assert bad.topics == ()

    with_broker(story, machine=machine, log_dirs="/one,/two")


def test_a_removed_directory_has_an_error_before_the_checks_notice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine()

    async def story(client: Client) -> None:
        def gone(*_: object) -> int:
            raise FileNotFoundError(2, "No such file or directory", "/data")

        with monkeypatch.context() as patch:
            patch.setattr(type(machine.files), "total_bytes", gone)
            (result,) = (await client.ask(ALL)).results
        assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        (result,) = (await client.ask(ALL)).results
        assert result.error_code == ErrorCode.NONE

    with_broker(story, machine=machine)
