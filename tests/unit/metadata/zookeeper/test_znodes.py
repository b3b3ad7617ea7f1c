"""Reads that are repeated until they are of one connection, and of one session."""

import asyncio

from ottla.metadata.zookeeper.znodes import Create, fresh, patient
from tests.sim.ensemble.servers import SimEnsemble
from tests.sim.seams.loop import run


def test_a_fresh_read_is_of_the_current_session() -> None:
    """Otherwise a node of the session that has just expired looks like that of another client."""

    async def steps() -> None:
        ensemble = SimEnsemble(3)
        client = ensemble.client()
        await client.multi([Create("/mine", b"", is_ephemeral=True)])
        sessions: list[int] = []

        async def read() -> int:
            node = await client.get("/mine")
            sessions.append(client.session_id)
            if len(sessions) == 1:
                ensemble.expire(client)
                await asyncio.sleep(10)
            return 0 if node is None else node.owner

        owner = await fresh(client, read)
        assert len(sessions) == 2
        assert sessions[0] != sessions[1] == client.session_id
        assert owner == 0

    run(steps())


def test_a_fresh_read_sees_every_completed_write_and_a_patient_one_need_not() -> None:
    async def steps() -> None:
        ensemble = SimEnsemble(4)
        writer = ensemble.client()
        await writer.multi([Create("/0", b"")])
        readers = [ensemble.client() for _ in range(6)]
        for reader in readers:
            await patient(reader.sync)
        for server in ensemble.servers:
            server.lag_us_max = 60_000_000
        await writer.multi([Create("/1", b"")])
        stale = [await patient(lambda reader=reader: reader.get("/1")) for reader in readers]
        assert None in stale
        assert None not in [
            await fresh(reader, lambda reader=reader: reader.get("/1")) for reader in readers
        ]

    run(steps())


def test_a_read_is_repeated_on_the_next_connection() -> None:
    async def steps() -> None:
        ensemble = SimEnsemble(5)
        client = ensemble.client()
        await client.multi([Create("/n", b"")])
        reads = 0

        async def read() -> bool:
            nonlocal reads
            await patient(client.sync)
            reads += 1
            reading = asyncio.ensure_future(client.get("/n"))
            await asyncio.sleep(0)
            if reads < 4:
                client.drop_connection()
            return await reading is not None

        assert await patient(read)
        assert reads == 4

    run(steps())
