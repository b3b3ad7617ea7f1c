"""The simulated ZooKeeper gives the guarantees of a real one, and no others."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from typing import Any

import pytest

from ottla.metadata.store import StoreClosed
from ottla.metadata.zookeeper.znodes import (
    Check,
    ConnectionLost,
    Create,
    Delete,
    Refused,
    SetData,
    fresh,
    patient,
)
from tests.sim.ensemble.client import LostWrite, SimZnodes
from tests.sim.ensemble.servers import SimEnsemble
from tests.sim.seams.loop import run


def story(steps: Callable[[SimEnsemble], Coroutine[Any, Any, None]], seed: int = 1) -> str:
    async def tell() -> str:
        ensemble = SimEnsemble(seed)
        await asyncio.wait_for(steps(ensemble), 3_600)
        return ensemble.trace.hash()

    return run(tell())


async def connected(ensemble: SimEnsemble) -> SimZnodes:
    client = ensemble.client()
    await client.sync()
    return client


def test_a_multi_is_applied_as_a_whole_or_not_at_all() -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        client = await connected(ensemble)
        await client.multi([Create("/a", b"0"), Create("/a/b", b"1")])
        refusals = (
            ([Create("/c", b""), Create("/a", b"")], 1),
            ([SetData("/a", b"9", 0), Check("/a", 0)], 1),
            ([SetData("/a", b"9", 5)], 0),
            ([Delete("/a/b", 0), Delete("/a/b", 0)], 1),
        )
        for operations, index in refusals:
            with pytest.raises(Refused) as caught:
                await client.multi(operations)
            assert caught.value.index == index
        node = await client.get("/a")
        assert node is not None
        assert (node.data, node.version) == (b"0", 0)
        assert await client.children("/a") == ("b",)
        assert await client.get("/c") is None

    story(steps)


def test_a_read_without_sync_may_be_stale_but_never_goes_back() -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        writer = await connected(ensemble)
        await writer.multi([Create("/n", b"0")])
        readers = [await connected(ensemble) for _ in range(6)]
        for server in ensemble.servers:
            server.lag_us_max = 3_000_000
        stale = 0
        seen = [0] * len(readers)
        for number in range(1, 20):
            await writer.multi([SetData("/n", b"%d" % number, -1)])
            for index, reader in enumerate(readers):
                if number % 5 == 0:
                    reader.drop_connection()
                node = await patient(lambda reader=reader: reader.get("/n"))  # type: ignore[misc]
                found = 0 if node is None else int(node.data)
                assert seen[index] <= found <= number
                seen[index] = found
                stale += found < number
                if index == 0:
                    node = await fresh(reader, lambda reader=reader: reader.get("/n"))  # type: ignore[misc]
                    assert node is not None
                    assert int(node.data) == number
                    seen[0] = number
        assert stale > 10

    story(steps)


def test_a_client_reads_its_own_writes() -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        for server in ensemble.servers:
            server.lag_us_max = 1_000_000
        for _ in range(5):
            client = await connected(ensemble)
            path = f"/{client.session_id}"
            await client.multi([Create(path, b"mine")])
            assert await client.get(path) is not None

    story(steps)


def test_a_watch_fires_once_and_late_and_not_after_the_new_state_was_read() -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        writer, reader = await connected(ensemble), await connected(ensemble)
        node, children, other = (asyncio.Event() for _ in range(3))
        assert await reader.get("/n", node) is None
        assert await reader.children("", children) == ()
        await writer.multi([Create("/n", b"0")])
        assert not node.is_set()
        await asyncio.wait_for(asyncio.gather(node.wait(), children.wait()), 10)
        assert await reader.get("/n") is not None
        node.clear()
        await writer.multi([SetData("/n", b"1", -1)])
        await asyncio.sleep(10)
        assert not node.is_set()
        await reader.get("/n", other)
        await writer.multi([SetData("/n", b"2", -1)])
        while (found := await reader.get("/n")) is None or found.data != b"2":
            pass
        assert other.is_set()

    story(steps)


@pytest.mark.parametrize(
    ("to_servers", "from_servers"), [(True, False), (False, True), (True, True)]
)
def test_a_client_that_is_cut_off_loses_its_session(to_servers: bool, from_servers: bool) -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        client, other = await connected(ensemble), await connected(ensemble)
        await client.multi([Create("/mine", b"", is_ephemeral=True)])
        session_id = client.session_id
        watch = asyncio.Event()
        await other.sync()
        assert await other.get("/mine", watch) is not None
        client.link.cut(to_servers=to_servers, from_servers=from_servers)
        await asyncio.sleep(ensemble.session_timeout_s - 0.5)
        # Both learn it late: the servers after the timeout, the client when it can ask them.
        assert not watch.is_set()
        await asyncio.sleep(2 * ensemble.session_timeout_s)
        assert watch.is_set()
        assert await other.get("/mine") is None
        assert client.session_id == session_id
        client.link.heal()
        await asyncio.wait_for(fresh(client, lambda: client.get("/mine")), 60)
        assert client.session_id not in (0, session_id)
        assert client.session_expiries == 1

    story(steps)


def test_a_short_cut_keeps_the_session_and_its_requests() -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        client = await connected(ensemble)
        session_id = client.session_id
        client.link.cut()
        reading = asyncio.create_task(client.get("/n"))
        await asyncio.sleep(1)
        assert not reading.done()
        client.link.heal()
        assert await reading is None
        assert client.session_id == session_id

    story(steps)


def test_a_write_is_not_applied_after_its_session_has_moved() -> None:
    """A held request reaches its old server after the client has continued elsewhere."""

    async def steps(ensemble: SimEnsemble) -> None:
        lost = 0
        for number in range(30):
            client = await connected(ensemble)
            client.link.cut(from_servers=False)
            writing = asyncio.create_task(client.multi([Create(f"/n{number}", b"")]))
            await asyncio.sleep(0.1)
            client.drop_connection()
            with pytest.raises(ConnectionLost):
                await writing
            client.link.heal()
            found = await fresh(client, lambda: client.get(f"/n{number}"))  # noqa: B023
            await asyncio.sleep(10)
            later = await fresh(client, lambda: client.get(f"/n{number}"))  # noqa: B023
            assert found == later
            lost += later is None
            await client.close()
        assert 0 < lost < 30

    story(steps)


@pytest.mark.parametrize(
    ("lost", "is_applied"), [(LostWrite.UNSENT, False), (LostWrite.UNANSWERED, True)]
)
def test_a_lost_connection_says_nothing_of_a_write(lost: LostWrite, is_applied: bool) -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        client = await connected(ensemble)
        client.lose_next_write = lost
        with pytest.raises(ConnectionLost):
            await client.multi([Create("/n", b"")])
        found = await fresh(client, lambda: client.get("/n"))
        assert (found is not None) == is_applied

    story(steps)


def test_a_change_of_the_leader_interrupts_the_service_and_loses_only_unacknowledged_writes() -> (
    None
):
    async def steps(ensemble: SimEnsemble) -> None:
        kept = lost = 0
        client = await connected(ensemble)
        session_id = client.session_id
        for number in range(40):
            await patient(lambda: client.sync())
            writing = asyncio.create_task(client.multi([Create(f"/n{number}", b"")]))
            await asyncio.sleep(0.001 * (number % 20))
            ensemble.change_leader(down_s=1)
            outcome = (await asyncio.gather(writing, return_exceptions=True))[0]
            found = await fresh(client, lambda: client.get(f"/n{number}"))  # noqa: B023
            if outcome is None:
                assert found is not None
            else:
                assert isinstance(outcome, ConnectionLost)
                kept += found is not None
                lost += found is None
        assert kept > 0
        assert lost > 0
        assert client.session_id == session_id

    story(steps)


def test_no_session_expires_while_there_is_no_leader() -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        client = await connected(ensemble)
        session_id = client.session_id
        ensemble.change_leader(down_s=10 * ensemble.session_timeout_s)
        await patient(client.sync)
        assert client.session_id == session_id

    story(steps)


def test_a_closed_client_ends_its_session_at_once() -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        client, other = await connected(ensemble), await connected(ensemble)
        await client.multi([Create("/mine", b"", is_ephemeral=True)])
        await client.close()
        assert await fresh(other, lambda: other.get("/mine")) is None
        with pytest.raises(StoreClosed):
            await client.get("/mine")

    story(steps)


def test_a_client_runs_in_its_owners_context_and_the_servers_in_none() -> None:
    """So a simulation that pauses an owner stops its pings, and its session expires."""
    owner: ContextVar[str] = ContextVar("owner", default="")

    async def steps(ensemble: SimEnsemble) -> None:
        loop = asyncio.get_running_loop()
        schedule = loop.call_at
        owners: dict[str, set[str]] = {}

        def call_at(when: float, callback: Any, *args: Any, context: Any = None) -> Any:
            used = copy_context() if context is None else context
            owners.setdefault(callback.__qualname__, set()).add(used.get(owner, ""))
            return schedule(when, callback, *args, context=context)

        loop.call_at = call_at  # type: ignore[method-assign]
        context = copy_context()
        context.run(owner.set, "node 1")
        client = context.run(ensemble.client)
        pings = context.run(asyncio.create_task, connected_for(client, 10))
        await pings
        del loop.call_at
        assert owners["Timeout._on_timeout"] == {"node 1"}
        assert owners["Pipe._deliver"] == {"", "node 1"}
        of_servers = [found for name, found in owners.items() if name.startswith("SimEnsemble.")]
        assert len(of_servers) > 3
        assert all(found == {""} for found in of_servers)

    async def connected_for(client: SimZnodes, seconds: float) -> None:
        await client.multi([Create("/n", b"")])
        await asyncio.sleep(seconds)

    story(steps)


def test_a_seed_does_the_same_again() -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        clients = [await connected(ensemble) for _ in range(3)]
        for number in range(10):
            await asyncio.gather(
                *(
                    client.multi([Create(f"/{number}-{index}", b"")])
                    for index, client in enumerate(clients)
                )
            )

    assert story(steps, seed=3) == story(steps, seed=3)
    assert story(steps, seed=3) != story(steps, seed=4)
