"""The connection breaks inside every request and every reply of each operation of a store.

Each operation succeeds nevertheless, exactly once: a second client, whose connection is whole, sees
its outcome.
"""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from ottla.cli.cluster.zookeeper_servers import ZooKeeperServers
from ottla.metadata.image import Image
from ottla.metadata.records import Config, Record
from ottla.metadata.store import Fence, Fenced, MetadataStore, RegisteredBroker
from ottla.metadata.values import ResourceKind
from ottla.metadata.zookeeper.kazoo_client import KazooZnodes
from ottla.metadata.zookeeper.store import ZooKeeperStore
from tests.support.cutting_proxy import Cut, CuttingProxy, Direction
from tests.support.metadata.sample_records import registration
from tests.support.zookeeper import (
    Clients,
    access_to,
    end_session,
    new_chroot,
    session_of,
    soon,
    tell,
    until,
)

# No ping falls into a case.
LONG_SESSION_MS = 120_000
# The second cut of a case, in the bytes of the next connection: inside its handshake, inside the
# reply to it, and inside the first calls after it.
SECOND_CUTS = (
    Cut(Direction.TO_SERVER, 20),
    Cut(Direction.FROM_SERVER, 20),
    Cut(Direction.TO_SERVER, 60),
    Cut(Direction.FROM_SERVER, 80),
)


class World:
    """A store whose connection is cut, and one that watches its outcomes."""

    def __init__(
        self, clients: Clients, proxy: CuttingProxy, connect: str, direct: str, number: int = 0
    ) -> None:
        self.clients = clients
        self.proxy = proxy
        self.connect = connect
        self.direct = direct
        self.number = number

    async def open(self) -> None:
        access = access_to(self.connect, session_timeout_ms=LONG_SESSION_MS)
        self.client: KazooZnodes = await self.clients.client(access)
        self.store: MetadataStore = ZooKeeperStore(self.client)
        self.watching: MetadataStore = await self.clients.store(access_to(self.direct))
        self.fence: Fence = await self.store.campaign()
        # Numbers of the same length all the time: so all cases have the same bytes.
        for _ in range(100):
            await self.store.append([], self.fence)

    async def entries(self) -> list[Record]:
        """All appended records."""
        loaded = await self.watching.load()
        return [record for entry in loaded.entries for record in entry.records]

    def record(self) -> Record:
        self.number += 1
        return Config(ResourceKind.BROKER, "", f"key-{self.number:05}", "x" * 50)


@asynccontextmanager
async def world(clients: Clients, ensemble: ZooKeeperServers) -> AsyncIterator[World]:
    chroot = new_chroot()
    with CuttingProxy([server.port for server in ensemble.servers]) as proxy:
        made = World(
            clients, proxy, proxy.connect_string + chroot, ensemble.connect_string + chroot
        )
        await made.open()
        yield made
        # Before the proxy: a client of a closed one would try to connect for a while.
        await clients.close()


Case = Callable[[], Awaitable[None]]
# Prepares a case, and returns the operation to be cut and the check of its outcome.
Operation = Callable[[World], Awaitable[tuple[Case, Case]]]


async def append(world: World) -> tuple[Case, Case]:
    before, record = await world.entries(), world.record()

    async def act() -> None:
        await world.store.append([record], world.fence)

    async def check() -> None:
        assert await world.entries() == [*before, record]

    return act, check


async def elect(world: World) -> tuple[Case, Case]:
    """Of a new client, while nobody is the controller."""
    await world.client.close()
    access = access_to(world.connect, session_timeout_ms=LONG_SESSION_MS)
    world.client = await world.clients.client(access)
    world.store = ZooKeeperStore(world.client)
    await world.store.load()
    before = world.fence

    async def act() -> None:
        world.fence = await world.store.campaign()

    async def check() -> None:
        assert world.fence.epoch == before.epoch + 1
        record = world.record()
        await world.store.append([record], world.fence)
        assert (await world.entries())[-1] == record

    return act, check


async def register(world: World) -> tuple[Case, Case]:
    world.number += 1
    mine = replace(registration(1), incarnation_id=f"incarnation-{world.number:05}")
    epochs: list[int] = []

    async def act() -> None:
        epochs.append(await world.store.register(mine))

    async def check() -> None:
        found = await anext(world.watching.registered_brokers())
        assert found == (RegisteredBroker(mine, epochs[0]),)

    return act, check


async def drain(world: World) -> tuple[Case, Case]:
    world.number += 1
    mine = replace(registration(1), incarnation_id=f"incarnation-{world.number:05}")
    epoch = await world.store.register(mine)

    async def check() -> None:
        found = await anext(world.watching.registered_brokers())
        assert found == (RegisteredBroker(replace(mine, is_draining=True), epoch),)

    return world.store.drain, check


async def save(world: World) -> tuple[Case, Case]:
    for _ in range(3):
        await world.store.append([world.record()], world.fence)
    image = Image.of(await world.watching.load())
    snapshot = image.snapshot()

    async def act() -> None:
        await world.store.save(snapshot, world.fence)

    async def check() -> None:
        loaded = await world.watching.load()
        assert loaded.snapshot == snapshot
        assert loaded.entries == ()
        assert Image.of(loaded) == image

    return act, check


async def load(world: World) -> tuple[Case, Case]:
    """Of a snapshot and a few entries."""
    await world.store.save(Image.of(await world.watching.load()).snapshot(), world.fence)
    for _ in range(3):
        await world.store.append([world.record()], world.fence)
    found: list[Any] = []

    async def act() -> None:
        found.append(await world.store.load())

    async def check() -> None:
        assert found == [await world.watching.load()]

    return act, check


OPERATIONS: dict[str, Operation] = {
    "append": append,
    "elect": elect,
    "register": register,
    "drain": drain,
    "save": save,
    "load": load,
}


def positions(stream: bytes) -> list[int]:
    """Positions before, inside and shortly before the end of each frame."""
    found: list[int] = []
    start = 0
    while start < len(stream):
        (size,) = struct.unpack_from(">i", stream, start)
        end = start + 4 + size
        found += [start, start + 2, (start + end) // 2, end - 1]
        start = end
    assert start == len(stream)
    return sorted(set(found))


async def run_case(world: World, operation: Operation, *cuts: Cut) -> int:
    """The number of cuts that happened."""
    act, check = await operation(world)
    world.proxy.watch(*cuts)
    await soon(act())
    left = world.proxy.cuts_left
    world.proxy.watch()
    await soon(check())
    return len(cuts) - left


async def cuts_of(world: World, operation: Operation) -> list[Cut]:
    """Cuts inside all requests and replies of an operation that is not disturbed."""
    act, check = await operation(world)
    world.proxy.watch()
    await soon(act())
    passed = {direction: bytes(each) for direction, each in world.proxy.passed.items()}
    await soon(check())
    return [Cut(each, position) for each in Direction for position in positions(passed[each])]


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_survives_a_cut_at_any_place(ensemble: ZooKeeperServers, name: str) -> None:
    operation = OPERATIONS[name]

    async def story(clients: Clients) -> None:
        async with world(clients, ensemble) as made:
            # The first snapshots delete the entries before them; then each case is like the last.
            for _ in range(3):
                await run_case(made, operation)
            cuts = await cuts_of(made, operation)
            happened = [await run_case(made, operation, cut) for cut in cuts]
            assert len(cuts) >= 8
            assert happened == [1] * len(cuts)

    tell(story)


@pytest.mark.parametrize("name", ["append", "register"])
def test_an_operation_survives_a_second_cut_while_it_looks_for_its_outcome(
    ensemble: ZooKeeperServers, name: str
) -> None:
    operation = OPERATIONS[name]

    async def story(clients: Clients) -> None:
        async with world(clients, ensemble) as made:
            await run_case(made, operation)
            for first in await cuts_of(made, operation):
                for second in SECOND_CUTS:
                    assert await run_case(made, operation, first, second) == 2, (first, second)

    tell(story)


@pytest.mark.parametrize("is_applied", [False, True], ids=["unsent", "unanswered"])
def test_an_append_of_a_deposed_controller_is_committed_or_fenced(
    ensemble: ZooKeeperServers, is_applied: bool
) -> None:
    """Its connection breaks, and another controller is elected before it can look."""

    async def story(clients: Clients) -> None:
        async with world(clients, ensemble) as made:
            before, record = await made.entries(), made.record()
            cut = Cut(Direction.FROM_SERVER if is_applied else Direction.TO_SERVER, 3)
            identity = session_of(made.client)
            made.proxy.watch(cut, then_refuse=True)
            appending = asyncio.create_task(made.store.append([record], made.fence))
            await until(lambda: made.proxy.cuts_left == 0)
            end_session(made.client, made.direct, identity)
            fence = await soon(made.watching.campaign())
            later = made.record()
            await made.watching.append([later], fence)
            made.proxy.heal()
            if is_applied:
                await soon(appending)
                assert await made.entries() == [*before, record, later]
            else:
                with pytest.raises(Fenced):
                    await soon(appending)
                assert await made.entries() == [*before, later]

    tell(story)
