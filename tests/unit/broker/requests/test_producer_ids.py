"""Blocks of producer ids."""

import asyncio
from typing import Any

import pytest

from ottla.broker.requests.producer_ids import ProducerIdBlocks
from ottla.errors import PeerError
from ottla.metadata.controller.producer_id_blocks import BLOCK_IDS, reserve_block
from ottla.metadata.embedded.store import EmbeddedStore
from ottla.metadata.publisher import Publisher
from tests.sim.seams.clock import SimClock
from tests.sim.seams.disk import SimDisk
from tests.sim.seams.loop import run


def test_concurrent_callers_share_a_block_and_reserve_the_next() -> None:
    async def story() -> None:
        clock = SimClock()
        files = SimDisk(clock=clock).process()
        files.make_dir("/data")
        store = EmbeddedStore.open(files, "/data", clock)
        publisher = Publisher(store)
        await publisher.load()
        following = asyncio.create_task(publisher.follow())
        await publisher.lead(1)
        spawned: list[asyncio.Task[Any]] = []
        blocks = ProducerIdBlocks(
            lambda: publisher.commit(reserve_block),
            lambda work, _: spawned.append(asyncio.create_task(work)),
        )
        assert blocks.take() is None
        count = BLOCK_IDS + 5
        given = await asyncio.gather(*(blocks.next() for _ in range(count)))
        assert sorted(given) == list(range(count))
        assert publisher.image.next_producer_id == 2 * BLOCK_IDS
        assert blocks.take() == count
        while blocks.take() is not None:
            pass
        # Nobody waits: the next block is reserved for whoever asks again.
        for _ in range(2):
            with pytest.raises(PeerError):
                blocks.require()
        await asyncio.gather(*spawned)
        assert blocks.require() == 2 * BLOCK_IDS
        assert publisher.image.next_producer_id == 3 * BLOCK_IDS
        following.cancel()
        await asyncio.wait([following])
        await store.close()

    run(story())
