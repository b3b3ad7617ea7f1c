"""Requests that create, extend or delete many topics: few commits, few syncs, no full scans."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.metadata.controller.entry_packing import MAX_RECORDS_PER_ENTRY
from ottla.metadata.embedded.store import EmbeddedStore
from ottla.metadata.image import Image
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest
from ottla.protocol.messages.create_partitions import Topic as GrownTopic
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.delete_topics import Topic as DeletedTopic
from ottla.protocol.messages.metadata import MetadataRequest, RequestedTopic
from ottla.protocol.primitives import ZERO_UUID
from tests.sim.seams.faults import Operation
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic, with_broker

METADATA_LOG = "/data/__ottla_metadata-0/*.log"
NONE = ErrorCode.NONE


class Counts:
    """The metadata operations since the last call."""

    def __init__(self) -> None:
        self.commits = 0
        self.syncs = 0
        self.scans = 0

    def take(self) -> tuple[int, int, int]:
        counted = (self.commits, self.syncs, self.scans)
        self.commits = self.syncs = self.scans = 0
        return counted


@contextmanager
def counted(machine: Machine) -> Iterator[Counts]:
    """Counts metadata commits, syncs of the metadata log, and scans of all topic names."""
    counts = Counts()
    append, names = EmbeddedStore.append, Image.topic_names.fget
    error_for = machine.disk.faults.error_for
    assert names is not None

    async def counting_append(store: EmbeddedStore, *arguments: Any) -> int:
        counts.commits += 1
        return await append(store, *arguments)

    def counting_names(image: Image) -> Any:
        counts.scans += 1
        return names(image)

    def counting_error_for(operation: Operation, path: str) -> int:
        counts.syncs += operation == "sync" and fnmatch(path, METADATA_LOG)
        return error_for(operation, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EmbeddedStore, "append", counting_append)
        patch.setattr(Image, "topic_names", property(counting_names))
        patch.setattr(machine.disk.faults, "error_for", counting_error_for)
        yield counts


def asking(*names: str) -> MetadataRequest:
    return MetadataRequest(
        topics=tuple(RequestedTopic(name=name) for name in names), allow_auto_topic_creation=True
    )


async def missing(client: Client, names: list[str]) -> list[str | None]:
    """Requests topics, and so creates the missing ones."""
    topics = (await client.ask(asking(*names))).topics
    assert {topic.error_code for topic in topics} <= {NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    return [topic.name for topic in topics if topic.error_code]


async def made(client: Client) -> int:
    """The number of topics, after the time of a commit."""
    await asyncio.sleep(1)
    return len((await client.ask(MetadataRequest(topics=None))).topics)


def test_one_metadata_request_for_thousands_of_topics_creates_some_of_them_with_one_commit() -> (
    None
):
    machine = Machine()
    names = [f"new.topic_{number}" for number in range(5_000)]

    async def story(client: Client) -> None:
        with counted(machine) as counts:
            assert await missing(client, names) == names
            assert await made(client) == 100
            commits, syncs, scans = counts.take()
        assert (commits, syncs) == (1, 1)
        # By requests for all topics, and by the gauges; not by creation.
        assert scans <= 3

    with_broker(story, machine=machine)


def test_topics_beyond_the_limit_are_created_by_the_next_request() -> None:
    machine = Machine()
    names = [f"new-{number}" for number in range(25)]

    async def story(client: Client) -> None:
        left = []
        while absent := await missing(client, names):
            left.append(len(absent))
            await made(client)
        assert left == [25, 15, 5]

    with_broker(story, machine=machine, ottla_auto_create_request_topics_max="10")
    assert machine.notes.events("warning") == []


def test_pending_topics_are_not_queued_twice() -> None:
    machine = Machine()

    async def story(client: Client) -> None:
        names = [f"new-{number}" for number in range(100)]
        others = [await machine.client() for _ in range(5)]
        with counted(machine) as counts:
            for each in others:
                await missing(each, names)
            assert await made(client) == 100
        assert counts.commits == 1

    with_broker(story, machine=machine)
    assert machine.notes.events("warning") == []


def test_many_topics_are_created_with_one_commit_and_no_look_at_all_others() -> None:
    machine = Machine()

    async def story(client: Client) -> None:
        topics = [new_topic(f"many.topics_{number}") for number in range(200)]
        with counted(machine) as counts:
            await create(client, *topics)
        assert counts.take() == (1, 1, 0)
        assert await made(client) == 200

    with_broker(story, machine=machine)


def test_more_topics_than_an_entry_holds_are_created_with_few_commits() -> None:
    machine = Machine()

    async def story(client: Client) -> None:
        topics = [new_topic(f"many-{number}", 10) for number in range(100)]
        with counted(machine) as counts:
            await create(client, *topics)
        # A topic is a record, and each of its partitions is.
        commits = -(-100 // (MAX_RECORDS_PER_ENTRY // 11))
        assert counts.take() == (commits, commits, 0)

    with_broker(story, machine=machine)


def test_each_topic_of_a_request_is_created_or_refused_by_itself() -> None:
    machine = Machine()

    async def story(client: Client) -> None:
        await create(client, new_topic("there"))
        topics = (
            new_topic("first"),
            new_topic("there"),
            new_topic("a.b"),
            new_topic("a_b"),
            new_topic("twice"),
            new_topic("twice"),
            new_topic("bad name!"),
            new_topic("wide", factor=3),
            new_topic("last"),
        )
        with counted(machine) as counts:
            response = await client.ask(CreateTopicsRequest(topics=topics))
        assert [(each.name, each.error_code) for each in response.topics] == [
            ("first", NONE),
            ("there", ErrorCode.TOPIC_ALREADY_EXISTS),
            ("a.b", NONE),
            ("a_b", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("twice", ErrorCode.INVALID_REQUEST),
            ("bad name!", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("wide", ErrorCode.INVALID_REPLICATION_FACTOR),
            ("last", NONE),
        ]
        assert counts.commits == 1
        assert await made(client) == 4

    with_broker(story, machine=machine)


def test_validate_only_finds_collisions_within_a_request() -> None:
    machine = Machine()

    async def story(client: Client) -> None:
        topics = (new_topic("a.b"), new_topic("a_b"))
        with counted(machine) as counts:
            request = CreateTopicsRequest(topics=topics, validate_only=True)
            response = await client.ask(request)
        assert [each.error_code for each in response.topics] == [
            NONE,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        ]
        assert counts.commits == 0
        assert await made(client) == 0

    with_broker(story, machine=machine)


def test_many_topics_grow_with_one_commit_and_no_look_at_all_others() -> None:
    machine = Machine()

    async def story(client: Client) -> None:
        names = [f"many-{number}" for number in range(100)]
        await create(client, *map(new_topic, names))
        grown = [GrownTopic(name=name, count=2, assignments=None) for name in names]
        grown.append(GrownTopic(name="nobody", count=2, assignments=None))
        with counted(machine) as counts:
            request = CreatePartitionsRequest(
                topics=tuple(grown), timeout_ms=0, validate_only=False
            )
            response = await client.ask(request)
        assert counts.take() == (1, 1, 0)
        assert [each.error_code for each in response.results] == [NONE] * 100 + [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ]

    with_broker(story, machine=machine)


def test_many_topics_are_deleted_with_one_commit_and_no_look_at_all_others() -> None:
    machine = Machine()

    async def story(client: Client) -> None:
        names = [f"many-{number}" for number in range(100)]
        created = await create(client, *map(new_topic, names))
        deleted = [DeletedTopic(name=name, topic_id=ZERO_UUID) for name in names[:99]]
        # One of them by its name and by its id.
        deleted.append(DeletedTopic(name=None, topic_id=created[0].topic_id))
        with counted(machine) as counts:
            request = DeleteTopicsRequest(topics=tuple(deleted), timeout_ms=0)
            response = await client.ask(request)
        assert counts.take() == (1, 1, 0)
        codes = [each.error_code for each in response.responses]
        assert codes == [ErrorCode.INVALID_REQUEST, *[NONE] * 99]
        assert await made(client) == 1

    with_broker(story, machine=machine)


def test_a_full_disk_refuses_each_topic_and_the_broker_continues() -> None:
    machine = Machine()

    async def story(client: Client) -> None:
        machine.disk.faults.fail_next_write(METADATA_LOG)
        topics = tuple(new_topic(f"many-{number}", 10) for number in range(100))
        response = await client.ask(CreateTopicsRequest(topics=topics))
        assert [each.error_code for each in response.topics] == [
            ErrorCode.KAFKA_STORAGE_ERROR
        ] * 100
        await create(client, new_topic("later"))
        assert await made(client) == 1

    with_broker(story, machine=machine)
