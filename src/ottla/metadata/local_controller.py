"""The controller on this broker: it campaigns, and has the controller's duties while it leads."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.broker_restart import is_started
from ottla.metadata.controller_duties import SettingsNow, agree_on_min_isr, start_broker
from ottla.metadata.image import Image
from ottla.metadata.publisher import NotController, Publisher
from ottla.metadata.records import Record
from ottla.metadata.store import Member, MetadataStore
from ottla.protocol.topic_partition import TopicPartition

Reply = TypeVar("Reply")


class LocalController:
    """A `Controller` for as long as this broker leads the metadata. `run` does not end."""

    def __init__(
        self,
        *,
        publisher: Publisher,
        store: MetadataStore,
        broker_id: int,
        settings_now: SettingsNow,
        on_elected: Callable[[int], None] = lambda _epoch: None,
        on_possible_loss: Callable[[TopicPartition], None] = lambda _partition: None,
    ) -> None:
        """`on_elected` hears the epoch of each term, `on_possible_loss` of partitions that may have
        lost something because a replica came back without its disks."""
        self._publisher = publisher
        self._store = store
        self._broker_id = broker_id
        self._settings_now = settings_now
        self._on_elected = on_elected
        self._on_possible_loss = on_possible_loss
        self._is_settled = asyncio.Event()
        self._is_settled.set()

    async def commit(self, decide: Callable[[Image], tuple[Sequence[Record], Reply]]) -> Reply:
        try:
            return await self._publisher.commit(decide)
        except OSError as error:
            # Nothing was written, and the next attempt may find room.
            raise PeerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    async def until_settled(self) -> None:
        """Waits while this broker, newly elected, brings the metadata up to date."""
        await self._is_settled.wait()

    async def run(self) -> None:
        """Campaigns, does what only a controller does, and campaigns again when it is deposed.

        OSError or StorageError if the disk below the store fails on the way.
        """
        while True:
            try:
                await self._publisher.lead(self._broker_id)
                await self._serve_term()
            except NotController:
                continue

    async def _serve_term(self) -> None:
        self._is_settled.clear()
        loop = asyncio.get_running_loop()
        duties = loop.create_task(self._do_duties(), name="controller duties")
        resigned = loop.create_task(self._publisher.until_resigned(), name="controller term")
        try:
            await asyncio.wait((duties, resigned), return_when=asyncio.FIRST_COMPLETED)
        finally:
            duties.cancel()
            resigned.cancel()
            await asyncio.gather(duties, resigned, return_exceptions=True)
            self._is_settled.set()
        if not duties.cancelled():
            duties.result()

    async def _do_duties(self) -> None:
        """Brings brokers up that have registered; does not end."""
        self._on_elected(self._publisher.image.controller_epoch)
        async for members in self._store.members():
            for member in members:
                await self._bring_up(member)
            if not self._is_settled.is_set():
                await agree_on_min_isr(self._publisher, None, self._settings_now)
                self._is_settled.set()

    async def _bring_up(self, member: Member) -> None:
        if not is_started(self._publisher.image, member):
            for partition in await start_broker(self._publisher, member):
                self._on_possible_loss(partition)
