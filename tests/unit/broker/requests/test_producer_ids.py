"""Blocks of producer ids."""

import asyncio

from ottla.broker.requests.producer_ids import BLOCK_IDS, ProducerIdBlocks
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
        blocks = ProducerIdBlocks(publisher)
        assert blocks.take() is None
        count = BLOCK_IDS + 5
        given = await asyncio.gather(*(blocks.next() for _ in range(count)))
        assert sorted(given) == list(range(count))
        assert publisher.image.next_producer_id == 2 * BLOCK_IDS
        assert blocks.take() == count
        following.cancel()
        await asyncio.wait([following])
        await store.close()

    run(story())
