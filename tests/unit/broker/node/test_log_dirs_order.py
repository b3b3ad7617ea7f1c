"""log.dirs in another order, or with more or fewer of them: the metadata is still found."""

import errno
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.metadata.embedded.metadata_directory import MetadataDirectoryError
from ottla.metadata.incarnation import read_incarnation
from ottla.storage.directory.checkpoint_files import MetaProperties
from ottla.storage.directory.placements import FILE_NAME, Placements
from tests.sim.seams.loop import run
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic

TOPICS = [f"topic-{number}" for number in range(6)]
Story = Callable[[Machine], Coroutine[Any, Any, None]]


def tell(story: Story) -> None:
    machine = Machine()
    run(story(machine), clock=machine.clock)


async def begin(machine: Machine, log_dirs: str) -> None:
    """Runs a broker once, with a record in each topic."""
    async with machine.broker(log_dirs=log_dirs) as client:
        await create(client, *(new_topic(topic) for topic in TOPICS))
        for topic in TOPICS:
            assert await write(client, topic, topic.encode()) == 0


async def write(client: Client, topic: str, value: bytes) -> int:
    return int(only(await client.ask(produce(topic, batch(value)), 9)).error_code)


async def read(client: Client, topic: str) -> list[bytes | None] | int:
    found = only(await client.ask(fetch(topic, wanted()), 12))
    return values(found.records) if found.error_code == 0 else int(found.error_code)


async def has_all(machine: Machine, log_dirs: str, *later: bytes) -> None:
    """A broker with these directories has every record, and no stray partition."""
    async with machine.broker(log_dirs=log_dirs) as client:
        for topic in TOPICS:
            assert await read(client, topic) == [topic.encode(), *later]
    assert "stray partition set aside" not in machine.notes.events("warning")
    assert not [path for path in machine.disk.files() if "-stray" in path]


def metadata_homes(machine: Machine) -> set[str]:
    return {path.split("/")[1] for path in machine.disk.files() if "__ottla_metadata-0/" in path}


def with_file(machine: Machine, name: str) -> set[str]:
    return {path.split("/")[1] for path in machine.disk.files() if path.endswith(f"/{name}")}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("/a,/b", "/b,/a"),
        ("/a,/b,/c", "/c,/b,/a"),
        ("/a", "/new,/a"),
        ("/a,/b", "/new,/b,/a"),
        ("/b,/a", "/a,/new,/b"),
    ],
)
def test_log_dirs_in_another_order_or_with_a_new_one_in_front_lose_nothing(
    before: str, after: str
) -> None:
    async def story(machine: Machine) -> None:
        home = before.split(",")[0]
        await begin(machine, before)
        cluster_id = cluster_of(machine, home)
        await has_all(machine, after)
        assert metadata_homes(machine) == {home.strip("/")}
        assert with_file(machine, "incarnation.json") == {home.strip("/")}
        assert with_file(machine, FILE_NAME) == {home.strip("/")}
        for path in after.split(","):
            assert cluster_of(machine, path) == cluster_id
        async with machine.broker(log_dirs=after) as client:
            for topic in TOPICS:
                assert await write(client, topic, b"more") == 0
        await has_all(machine, before, b"more")

    tell(story)


def cluster_of(machine: Machine, path: str) -> str:
    meta = MetaProperties.read(machine.disk.process(), path)
    assert meta is not None
    return meta.cluster_id


def test_placements_are_in_the_directory_with_the_metadata() -> None:
    async def story(machine: Machine) -> None:
        await begin(machine, "/a")
        async with machine.broker(log_dirs="/new,/a") as client:
            await create(client, *(new_topic(f"more-{number}") for number in range(4)))
            for number in range(4):
                assert await write(client, f"more-{number}", b"x") == 0
        placements = Placements(machine.disk.process(), "/a")
        assert len(placements.partitions) == 4, "the emptier directory has the new ones"
        # Without it they are offline, not empty.
        async with machine.broker(log_dirs="/a") as client:
            assert await read(client, "more-0") == 56
            assert await read(client, TOPICS[0]) == [TOPICS[0].encode()]

    tell(story)


def test_an_incarnation_is_continued_in_another_order() -> None:
    async def story(machine: Machine) -> None:
        await begin(machine, "/a,/b")
        before = read_incarnation(machine.disk.process(), "/a")
        async with machine.broker(log_dirs="/b,/a"):
            pass
        after = read_incarnation(machine.disk.process(), "/a")
        assert before is not None
        assert after is not None
        assert after.incarnation_id != before.incarnation_id
        assert "possible data loss" not in machine.notes.events("warning")

    tell(story)


@pytest.mark.parametrize("after", ["/b", "/b,/c", "/new,/b", "/missing,/c,/b"])
def test_without_the_directory_that_has_the_metadata_no_new_cluster_begins(after: str) -> None:
    async def story(machine: Machine) -> None:
        await begin(machine, "/a,/b,/c")
        cluster_id = cluster_of(machine, "/a")
        content = machine.disk.files()
        with pytest.raises(MetadataDirectoryError) as refused:
            await machine.node(log_dirs=after).start()
        message = str(refused.value)
        assert f"/b is of cluster {cluster_id}" in message
        assert "__ottla_metadata-0" in message
        assert "mounted" in message
        assert machine.disk.files() == content, "nothing was written"
        await has_all(machine, "/a,/b,/c")

    tell(story)


def test_metadata_on_an_unmounted_disk_fails_the_start() -> None:
    async def story(machine: Machine) -> None:
        await begin(machine, "/a,/b")
        files = machine.disk.process()
        files.rename("/a", "/unmounted")
        files.make_dir("/a")
        with pytest.raises(MetadataDirectoryError, match="/b is of cluster"):
            await machine.node(log_dirs="/a,/b").start()
        files.remove_dir("/a")
        files.rename("/unmounted", "/a")
        await has_all(machine, "/a,/b")

    tell(story)


def test_a_disk_that_cannot_be_read_may_have_the_metadata() -> None:
    """A new directory beside it does not start a new cluster."""

    async def story(machine: Machine) -> None:
        files = machine.disk.process()
        files.make_dir("/dead")
        machine.disk.faults.fail_next("list", "/dead", error=errno.EIO)
        with pytest.raises(OSError, match=str(errno.EIO)):
            await machine.node(log_dirs="/new,/dead").start()
        assert not files.exists("/new")

    tell(story)


def test_two_directories_with_metadata_are_refused_by_name() -> None:
    async def story(machine: Machine) -> None:
        await begin(machine, "/a")
        async with machine.broker(log_dirs="/b"):
            pass
        content = machine.disk.files()
        for order in ("/a,/b", "/b,/a", "/new,/b,/a"):
            with pytest.raises(MetadataDirectoryError) as refused:
                await machine.node(log_dirs=order).start()
            assert "/a" in str(refused.value)
            assert "/b" in str(refused.value)
            assert machine.disk.files() == content
        await has_all(machine, "/a")

    tell(story)
