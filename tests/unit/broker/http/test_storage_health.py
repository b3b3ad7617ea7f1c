"""A log directory that is removed, replaced or fails while the broker runs goes offline."""

import asyncio
import errno
from collections.abc import Callable

import pytest

from ottla.broker.http.storage_health import NAMED_LOGS_MAX, storage_faults
from ottla.broker.node.node import Node
from ottla.errors import ErrorCode
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.delete_records import DeleteRecordsRequest
from ottla.protocol.messages.delete_records import Partition as DeletedPartition
from ottla.protocol.messages.delete_records import Topic as DeletedTopic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.opening.unsynced_tail import MARK
from tests.sim.seams.files import SimFiles
from tests.support.broker.produce_and_fetch import fetch, only, wanted
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic
from tests.unit.broker.node.test_log_directories import TWO, homes, read, tell, two_topics, write

REFUSED = ErrorCode.KAFKA_STORAGE_ERROR
# No checkpoint is due in these tests, except on request.
NO_CHECKPOINT = {"log_flush_offset_checkpoint_interval_ms": "3600000"}
CHECKPOINT_EACH_SECOND = {"log_flush_offset_checkpoint_interval_ms": "1000"}
NOTICED_S = 3


def remove_below(files: SimFiles, path: str) -> None:
    for name in files.list(path):
        below = f"{path}/{name}"
        if files.is_dir(below):
            remove_below(files, below)
        else:
            files.remove(below)
    files.remove_dir(path)


def remove(machine: Machine, path: str) -> None:
    remove_below(machine.disk.process(), path)


def move(machine: Machine, path: str) -> None:
    machine.disk.process().rename(path, "/moved")


def replace(machine: Machine, path: str) -> None:
    """Replaces the directory by a copy with another lock file."""
    files = machine.disk.process()
    files.rename(path, "/moved")
    files.make_dir(path)
    for name in files.list("/moved"):
        if files.is_dir(f"/moved/{name}"):
            files.make_dir(f"{path}/{name}")
    files.create(f"{path}/.lock").close()


def offline_reports(machine: Machine) -> list[object]:
    return [
        fields["path"]
        for level, event, fields in machine.notes.entries
        if (level, event) == ("error", "log directory offline")
    ]


async def make(client: Client, topic: str) -> int:
    response = await client.ask(CreateTopicsRequest(topics=(new_topic(topic),)))
    return int(response.topics[0].error_code)


LOSSES = pytest.mark.parametrize("lose", [remove, move, replace])


@LOSSES
def test_produces_into_a_removed_data_directory_are_refused_though_no_checkpoint_is_due(
    lose: Callable[[Machine, str], None],
) -> None:
    async def story(machine: Machine) -> None:
        async with machine.running(**NO_CHECKPOINT) as (client, node):
            for topic in ("one", "empty"):
                await create(client, new_topic(topic))
            assert await write(client, "one", b"x") == 0
            await asyncio.sleep(NOTICED_S)
            assert node.health.not_ready() == []
            assert node.health.warnings.reasons == []
            lose(machine, "/data")
            left = machine.disk.files()
            await asyncio.sleep(NOTICED_S)
            assert await write(client, "one", b"no") == REFUSED
            assert await write(client, "empty", b"no") == REFUSED
            assert await read(client, "one") is REFUSED
            assert await make(client, "new") == REFUSED, "its metadata would be lost"
            said = "/data was removed, moved or replaced"
            assert node.health.not_ready() == [
                "log directories: all are offline: /data",
                f"metadata: its log directory /data is offline: {said}",
            ]
            assert node.health.warnings.reasons == [f"log directory /data: offline: {said}"]
            assert node.health.not_live() == []
            await asyncio.sleep(10 * NOTICED_S)
            assert offline_reports(machine) == ["/data"], "told once"
            assert "disk fault" not in machine.notes.events("error")
        assert machine.disk.files() == left, "nothing is written where another directory may be"

    tell(story)


def test_a_parked_fetch_gets_the_error_of_a_lost_directory() -> None:
    async def story(machine: Machine) -> None:
        async with machine.running() as (client, _):
            await create(client, new_topic("one"))
            assert await write(client, "one", b"x") == 0
            request = fetch("one", wanted(offset=1), wait_ms=600_000)
            waiting = asyncio.create_task(client.ask(request, 12))
            await asyncio.sleep(1)
            assert not waiting.done()
            remove(machine, "/data")
            answer = await asyncio.wait_for(waiting, NOTICED_S)
            assert only(answer).error_code == REFUSED

    tell(story)


@LOSSES
def test_one_lost_directory_of_two_takes_its_logs_offline_and_no_others(
    lose: Callable[[Machine, str], None],
) -> None:
    async def story(machine: Machine) -> None:
        kept, lost = await two_topics(machine)
        async with machine.running(**TWO, **NO_CHECKPOINT) as (client, node):
            lose(machine, "/b")
            await asyncio.sleep(NOTICED_S)
            assert await write(client, lost, b"no") == REFUSED
            assert await read(client, lost) is REFUSED
            assert await write(client, kept, b"yes") == 0
            for topic in ("new-1", "new-2", "new-3"):
                await create(client, new_topic(topic))
                assert await write(client, topic, b"yes") == 0
                assert homes(machine)[f"{topic}-0"] == "a", "no new log is placed there"
            assert node.health.not_ready() == []
            assert node.health.warnings.reasons == [
                "log directory /b: offline: /b was removed, moved or replaced"
            ]
            assert offline_reports(machine) == ["/b"]
            assert node.metrics.broker.offline_log_dirs == 1

    tell(story)


def test_a_node_without_its_metadata_directory_is_not_ready() -> None:
    async def story(machine: Machine) -> None:
        kept, lost = await two_topics(machine)
        async with machine.running(**TWO, **NO_CHECKPOINT) as (client, node):
            move(machine, "/a")
            await asyncio.sleep(NOTICED_S)
            assert await write(client, kept, b"no") == REFUSED
            assert await write(client, lost, b"yes") == 0, "the log in /b"
            assert node.health.not_ready() == [
                "metadata: its log directory /a is offline: /a was removed, moved or replaced"
            ]

    tell(story)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOENT, errno.EROFS])
def test_a_checkpoint_that_fails_takes_its_directory_offline_until_the_restart(code: int) -> None:
    async def story(machine: Machine) -> None:
        kept, lost = await two_topics(machine)
        async with machine.running(**TWO, **CHECKPOINT_EACH_SECOND) as (client, node):
            machine.disk.faults.fail_next("rename", "/b/recovery-point*", error=code)
            await asyncio.sleep(NOTICED_S)
            assert await write(client, lost, b"no") == REFUSED
            assert await read(client, lost) is REFUSED
            assert await write(client, kept, b"yes") == 0
            assert node.health.not_ready() == []
            (warning,) = node.health.warnings.reasons
            assert warning.startswith(f"log directory /b: offline: [Errno {code}]")
            await asyncio.sleep(10 * NOTICED_S)
            assert offline_reports(machine) == ["/b"], "told once"
            assert f"/b/{lost}-0/{MARK}" in machine.disk.files(), "remembered on the disk"
            assert f"/a/{kept}-0/{MARK}" not in machine.disk.files()
        assert "/b/.kafka_cleanshutdown" not in machine.disk.files()
        async with machine.running(**TWO) as (client, node):
            await asyncio.sleep(NOTICED_S)
            assert await write(client, lost, b"more") == 0
            assert await read(client, lost) == [lost.encode(), b"more"]
            assert node.health.warnings.reasons == []

    tell(story)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_checkpoint_on_a_full_disk_takes_nothing_offline(code: int) -> None:
    async def story(machine: Machine) -> None:
        _kept, lost = await two_topics(machine)
        async with machine.running(**TWO, **CHECKPOINT_EACH_SECOND) as (client, node):
            machine.disk.faults.fail_next("rename", "/b/recovery-point*", error=code)
            await asyncio.sleep(NOTICED_S)
            assert "disk fault" in machine.notes.events("error")
            assert await write(client, lost, b"yes") == 0
            assert node.health.warnings.reasons == []
            assert offline_reports(machine) == []

    tell(story)


def test_deleted_records_whose_checkpoint_fails_take_the_directory_offline() -> None:
    async def story(machine: Machine) -> None:
        async with machine.running(**NO_CHECKPOINT) as (client, node):
            for topic in ("one", "two"):
                await create(client, new_topic(topic))
                assert await write(client, topic, b"x") == 0
            machine.disk.faults.fail_next("rename", "/data/log-start*", error=errno.EIO)
            partition = DeletedPartition(partition_index=0, offset=1)
            topic = DeletedTopic(name="one", partitions=(partition,))
            request = DeleteRecordsRequest(topics=(topic,), timeout_ms=1_000)
            answer = await client.ask(request)
            assert answer.topics[0].partitions[0].error_code == REFUSED
            assert await write(client, "two", b"no") == REFUSED
            await asyncio.sleep(NOTICED_S)
            assert len(node.health.not_ready()) == 2
            assert offline_reports(machine) == ["/data"]

    tell(story)


def test_a_log_that_failed_by_itself_is_a_warning_until_it_is_deleted() -> None:
    async def story(machine: Machine) -> None:
        async with machine.running(**NO_CHECKPOINT) as (client, node):
            for topic in ("one", "two"):
                await create(client, new_topic(topic))
                assert await write(client, topic, b"x") == 0
            machine.disk.faults.fail_next_write("/data/one-0/*.log", error=errno.EIO)
            assert await write(client, "one", b"no") == REFUSED
            await asyncio.sleep(NOTICED_S)
            (warning,) = node.health.warnings.reasons
            assert warning.startswith("partition one-0: offline: [Errno 5]")
            assert node.health.not_ready() == []
            assert await write(client, "two", b"yes") == 0
            await client.ask(DeleteTopicsRequest(topic_names=("one",), timeout_ms=1_000), 5)
            await asyncio.sleep(NOTICED_S)
            assert node.health.warnings.reasons == []

    tell(story)


def test_a_directory_that_was_missing_at_the_start_is_a_warning_with_its_partitions() -> None:
    async def story(machine: Machine) -> None:
        _kept, lost = await two_topics(machine)
        move(machine, "/b")
        async with machine.running(**TWO) as (_, node):
            await asyncio.sleep(NOTICED_S)
            directory, partition = node.health.warnings.reasons
            assert directory.startswith("log directory /b: offline: ")
            assert partition == f"partition {lost}-0: offline: its log directory is missing"
            assert node.health.not_ready() == []

    tell(story)


async def stop_at_once(machine: Machine, node: Node) -> None:
    remove(machine, "/data")
    await node.stop()


def test_a_stop_after_the_data_directory_was_removed_ends_and_logs_it() -> None:
    async def story(machine: Machine) -> None:
        node = machine.node()
        await node.start()
        client = await machine.client()
        await create(client, new_topic("one"))
        assert await write(client, "one", b"x") == 0
        await stop_at_once(machine, node)
        assert "not closed cleanly" in machine.notes.events("error")
        assert machine.disk.files() == {}

    tell(story)


def test_the_page_names_a_limited_number_of_partitions() -> None:
    logs = {TopicPartition("t", number): "EIO" for number in range(NAMED_LOGS_MAX + 5)}
    faults = storage_faults({}, logs, metadata_path="/a", has_usable=True)
    assert faults.not_ready == {}
    assert len(faults.warnings) == NAMED_LOGS_MAX + 1
    assert faults.warnings["more partitions"] == "5 are offline"
