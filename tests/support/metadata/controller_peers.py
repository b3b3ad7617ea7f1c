"""One broker's metadata with its controller, on metadata in memory."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.configs import broker_settings
from ottla.metadata.controller.unclean_election import LogEnd
from ottla.metadata.image import Image
from ottla.metadata.local_controller import LocalController
from ottla.metadata.memory import MemoryEnsemble
from ottla.metadata.publisher import Publisher
from ottla.metadata.records import Record
from ottla.metadata.unclean_elections import ToldLogEnds
from ottla.metadata.values import Incarnation, PartitionId
from ottla.settings.broker import BrokerSettings
from ottla.settings.sources import load
from tests.sim.seams.loop import run
from tests.support.metadata.sample_records import topic_id

SETTINGS = load(given={"min.insync.replicas": "2"}, environment={}, file=None)


def deciding(*records: Record) -> Callable[[Image], tuple[Sequence[Record], None]]:
    return lambda _: (records, None)


class Peer:
    """One broker's metadata: its store, its image and its controller."""

    def __init__(
        self, ensemble: MemoryEnsemble, broker_id: int, *, settings: BrokerSettings = SETTINGS
    ) -> None:
        self.broker_id = broker_id
        self.store = ensemble.connect()
        self.publisher = Publisher(self.store)
        self.terms: list[int] = []
        # The log ends that brokers tell, and the brokers that were asked.
        self.log_ends: dict[Incarnation, dict[PartitionId, LogEnd]] = {}
        self.asked: list[int] = []
        self.controller = LocalController(
            publisher=self.publisher,
            store=self.store,
            broker_id=broker_id,
            current_settings=lambda: broker_settings(self.image, broker_id, settings),
            is_shared=True,
            on_elected=self.terms.append,
            ask_log_ends=self.ask_log_ends,
        )
        self.tasks: list[asyncio.Task[None]] = []

    @property
    def image(self) -> Image:
        return self.publisher.image

    @property
    def losses(self) -> list[int]:
        """The partitions of the topic that may have lost records."""
        partitions = self.image.partitions(topic_id(1))
        return [each.index for each in partitions if each.possible_loss_epoch is not None]

    async def ask_log_ends(self, broker_id: int, partitions: Sequence[PartitionId]) -> ToldLogEnds:
        self.asked.append(broker_id)
        for incarnation, ends in self.log_ends.items():
            if incarnation.broker_id == broker_id:
                return ToldLogEnds(incarnation, {each: ends[each] for each in partitions})
        raise PeerError(ErrorCode.REQUEST_TIMED_OUT, f"broker {broker_id} is silent")

    async def follow(self) -> None:
        await self.publisher.load()
        self.tasks.append(asyncio.create_task(self.publisher.follow()))

    async def run(self) -> None:
        await self.follow()
        self.tasks.append(asyncio.create_task(self.controller.run()))

    async def refusal(self, *records: Record) -> ErrorCode:
        with pytest.raises(PeerError) as caught:
            await self.controller.commit(deciding(*records))
        return caught.value.code

    def check(self) -> None:
        """Raises the error of a task that has ended."""
        for task in self.tasks:
            if task.done():
                task.result()


async def settle() -> None:
    await asyncio.sleep(1)


def story(steps: Callable[[MemoryEnsemble], Coroutine[Any, Any, None]]) -> None:
    async def tell() -> None:
        await steps(MemoryEnsemble())
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(tell())
