"""Topic deletion: a thread removes partitions from checkpoints before their names are reused."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.directory import checkpoint_files
from tests.sim.seams.files import SimFile, SimFiles
from tests.sim.seams.loop import run
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic

COUNT = 30
FLUSHED: dict[str, str | None] = {"flush.messages": "1"}


async def delete(client: Client, *names: str) -> None:
    response = await client.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=5_000), 5)
    assert [each.error_code for each in response.responses] == [ErrorCode.NONE] * len(names)


async def fill(client: Client, name: str, *contents: bytes) -> None:
    for content in contents:
        answer = only(await client.ask(produce(name, batch(content), acks=-1), 9))
        assert answer.error_code == ErrorCode.NONE


def noting(method: Callable[..., Any], machine: Machine, noted: list[str]) -> Callable[..., Any]:
    """A sync that notes its path if it runs on the event loop."""

    def sync(self: SimFile | SimFiles, *paths: str) -> None:
        if not machine.threads.is_working:
            noted.append(paths[0] if paths else self.path)  # type: ignore[union-attr]
        method(self, *paths)

    return sync


def test_topic_deletion_does_not_sync_on_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine()
    noted: list[str] = []

    async def story() -> None:
        async with machine.broker(log_dirs="/a,/b") as client:
            names = [f"topic-{number}" for number in range(COUNT)]
            await create(client, *(new_topic(name, configs=FLUSHED) for name in names))
            for name in names:
                await fill(client, name, b"x")
            with monkeypatch.context() as patch:
                patch.setattr(SimFile, "sync", noting(SimFile.sync, machine, noted))
                patch.setattr(SimFiles, "sync_dir", noting(SimFiles.sync_dir, machine, noted))
                await delete(client, *names)
                while points(machine, "/a") or points(machine, "/b"):
                    await client.ask(fetch("topic-0", wanted()), 12)
            assert noted == []

    run(story(), clock=machine.clock)


def points(machine: Machine, path: str) -> dict[TopicPartition, int]:
    assert machine.files is not None
    return checkpoint_files.read_offsets(
        machine.files, f"{path}/{checkpoint_files.RECOVERY_POINTS}"
    )


def test_many_deleted_topics_need_few_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    written: list[str] = []
    write_offsets = checkpoint_files.write_offsets

    def noted(files: Any, path: str, offsets: Any) -> None:
        written.append(path)
        write_offsets(files, path, offsets)

    async def story() -> None:
        async with machine.broker() as client:
            names = [f"topic-{number}" for number in range(COUNT)]
            await create(client, *(new_topic(name, configs=FLUSHED) for name in names))
            for name in names:
                await fill(client, name, b"x")
            monkeypatch.setattr(checkpoint_files, "write_offsets", noted)
            await delete(client, *names)
            while points(machine, "/data"):
                await client.ask(fetch("topic-0", wanted()), 12)
            assert len(written) <= 2 * 2 + 1
            await create(client, new_topic("another", configs=FLUSHED))
            await fill(client, "another", b"x")
            written.clear()
            await delete(client, "another")
            began_ms = machine.clock.wall_ms()
            while not written:
                await client.ask(fetch("another", wanted()), 12)
            assert machine.clock.wall_ms() - began_ms < 5_000, "no round has to come for it"

    run(story(), clock=machine.clock)


def test_a_topic_recreated_at_once_inherits_nothing() -> None:
    """If the thread is late, the first append of the new topic removes the old entries."""
    machine = Machine()

    async def story() -> None:
        async with machine.broker() as client:
            await create(client, new_topic("events", configs=FLUSHED))
            await fill(client, "events", *(b"old-%d" % number for number in range(COUNT)))
            machine.disk.faults.fail_next_write(f"*/{checkpoint_files.LOG_START_OFFSETS}*")
            await delete(client, "events")
            await create(client, new_topic("events", configs=FLUSHED))
            await fill(client, "events", b"new")
        machine.disk.power_loss()

    run(story(), clock=machine.clock)

    async def afterwards() -> None:
        async with machine.broker() as client:
            found = only(await client.ask(fetch("events", wanted()), 12))
            assert values(found.records) == [b"new"]

    run(afterwards(), clock=machine.clock)
