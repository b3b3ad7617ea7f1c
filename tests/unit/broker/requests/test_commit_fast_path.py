"""Commits of many clients that arrive in one turn of the event loop."""

import asyncio
import errno
from collections.abc import Sequence
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.metadata import MetadataRequest, RequestedTopic
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, Partition, Topic
from ottla.seams.files import Buffer
from tests.sim.seams.files import SimFile
from tests.sim.seams.loop import run
from tests.sim.seams.wire import Conditions
from tests.support.broker.group_requests import (
    COMMIT_VERSION,
    QUICK,
    codes,
    commit,
    committed,
    find,
    join,
)
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic

CLIENTS = 12
# Everything arrives in one piece, and at the same time.
AT_ONCE = Conditions(split_rate=0.0, gather_rate=0.0, latency_us_min=500, latency_us_max=500)
NONE = [ErrorCode.NONE]


def tell(story: Any, **settings: str) -> None:
    """Runs a story with many clients of one broker, whose coordinators exist."""
    machine = Machine()
    machine.network.conditions = AT_ONCE

    async def begin() -> None:
        async with machine.broker(**QUICK, **settings) as client:
            await create(client, new_topic("events", CLIENTS))
            await find(client, "g")
            assert codes(await client.ask(commit("g", "events", {0: 1}), COMMIT_VERSION)) == NONE
            clients = [client, *[await machine.client() for _ in range(CLIENTS - 1)]]
            await story(clients, machine)

    run(begin(), clock=machine.clock)


async def ask_all(
    clients: list[Client], *requests: Any, version: int = COMMIT_VERSION
) -> list[list[int]]:
    answers = await asyncio.gather(
        *(client.ask(request, version) for client, request in zip(clients, requests, strict=False))
    )
    return [codes(answer) for answer in answers]


def one_each(group_id: str = "g", offset: int = 10) -> list[OffsetCommitRequest]:
    """Each client commits for its own partition."""
    return [commit(group_id, "events", {number: offset + number}) for number in range(CLIENTS)]


ALL_COMMITTED = {("events", number): 10 + number for number in range(CLIENTS)}


def test_requests_of_one_turn_share_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    write_at = SimFile.write_at

    def noted(file: SimFile, position: int, parts: Sequence[Buffer]) -> int:
        written.append(file.path)
        return write_at(file, position, parts)

    async def story(clients: list[Client], machine: Machine) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(SimFile, "write_at", noted)
            assert await ask_all(clients, *one_each()) == [NONE] * CLIENTS
        assert [path for path in written if "__consumer_offsets" in path] == written
        assert len(written) == 1
        assert await committed(clients[0], "g") == ALL_COMMITTED

    tell(story)


def test_a_refused_request_does_not_affect_the_others() -> None:
    async def story(clients: list[Client], machine: Machine) -> None:
        member_id = (await join(clients[0], "members")).member_id
        requests = [
            commit("members", "events", {0: 5}, member_id=member_id, generation=1),
            commit("members", "events", {1: 6}, member_id=member_id, generation=9),
            commit("members", "events", {2: 7}, member_id="nobody", generation=1),
            commit("g", "events", {3: 8, 99: 8, 4: 9}),
            commit("g", "nothing", {0: 1}),
            commit("g", "events", {5: 1}, metadata="m" * 4097),
            commit("never seen", "events", {6: 3}),
        ]
        assert await ask_all(clients, *requests) == [
            [ErrorCode.NONE],
            [ErrorCode.ILLEGAL_GENERATION],
            [ErrorCode.UNKNOWN_MEMBER_ID],
            [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE],
            [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
            [ErrorCode.OFFSET_METADATA_TOO_LARGE],
            [ErrorCode.NONE],
        ]
        assert await committed(clients[0], "members") == {("events", 0): 5}
        assert await committed(clients[0], "g") == {
            ("events", 0): 1,
            ("events", 3): 8,
            ("events", 4): 9,
        }
        assert await committed(clients[0], "never seen") == {("events", 6): 3}

    tell(story)


@pytest.mark.parametrize("version", range(2, 10))
def test_every_version_may_be_gathered(version: int) -> None:
    async def story(clients: list[Client], machine: Machine) -> None:
        assert await ask_all(clients, *one_each(), version=version) == [NONE] * CLIENTS
        assert await committed(clients[0], "g") == ALL_COMMITTED

    tell(story)


def test_topics_may_be_named_by_their_ids() -> None:
    async def story(clients: list[Client], machine: Machine) -> None:
        described = await clients[0].ask(MetadataRequest(topics=(RequestedTopic(name="events"),)))
        known = described.topics[0].topic_id
        asked = (Partition(partition_index=2, committed_offset=8, committed_metadata=None),)
        requests = [
            OffsetCommitRequest(
                group_id="g", member_id="", topics=(Topic(topic_id=topic_id, partitions=asked),)
            )
            for topic_id in (known, type(known)(b"no topic of ours"))
        ]
        answers = await ask_all(clients, *requests, version=10)
        assert answers == [NONE, [ErrorCode.UNKNOWN_TOPIC_ID]]
        assert await committed(clients[0], "g") == {("events", 0): 1, ("events", 2): 8}

    tell(story)


def test_a_client_that_disconnects_does_not_cancel_the_wait_of_others() -> None:
    async def story(clients: list[Client], machine: Machine) -> None:
        waiting = asyncio.ensure_future(ask_all(clients[1:], *one_each()[1:]))
        leaving = asyncio.ensure_future(clients[0].ask(one_each()[0], COMMIT_VERSION))
        await asyncio.sleep(0)
        clients[0].close()
        assert await waiting == [NONE] * (CLIENTS - 1)
        with pytest.raises(ConnectionError):
            await leaving
        assert await committed(clients[1], "g") == ALL_COMMITTED

    tell(story, log_flush_interval_messages="1")


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_failed_write_fails_all_gathered_commits(error: int) -> None:
    async def story(clients: list[Client], machine: Machine) -> None:
        machine.disk.faults.fail_next_write("*__consumer_offsets-*.log", error=error)
        refused = [[ErrorCode.NOT_COORDINATOR]] * CLIENTS
        assert await ask_all(clients, *one_each()) == refused

    tell(story)


def test_commits_and_later_requests_are_answered_in_order() -> None:
    async def story(clients: list[Client], machine: Machine) -> None:
        client = clients[0]
        coming = [
            asyncio.ensure_future(client.ask(commit("g", "events", {0: offset}), COMMIT_VERSION))
            for offset in range(20, 30)
        ]
        await asyncio.sleep(0)  # they are sent
        seen = await committed(client, "g")
        assert [codes(await answer) for answer in coming] == [NONE] * 10
        assert seen == {("events", 0): 29}

    tell(story)
