"""The controller on this broker: it campaigns, and has the controller's duties while it leads."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller_duties import (
    CurrentSettings,
    OnPossibleLoss,
    record_min_isr,
    update_brokers,
    update_min_isr,
)
from ottla.metadata.image import Image
from ottla.metadata.publisher import NotController, Publisher
from ottla.metadata.records import Record
from ottla.metadata.store import MetadataStore

Reply = TypeVar("Reply")


class LocalController:
    """A `Controller` while this broker leads the metadata. `run` does not end."""

    def __init__(
        self,
        *,
        publisher: Publisher,
        store: MetadataStore,
        broker_id: int,
        current_settings: CurrentSettings,
        is_shared: bool = False,
        on_elected: Callable[[int], None] = lambda _epoch: None,
        on_possible_loss: OnPossibleLoss = lambda _partition: None,
    ) -> None:
        """`is_shared` if other brokers may be the controller, too.

        `on_elected` gets the epoch of each term. `on_possible_loss` gets each partition that may
        have lost records, because a replica restarted without intact disks.
        """
        self._publisher = publisher
        self._store = store
        self._broker_id = broker_id
        self._current_settings = current_settings
        self._is_shared = is_shared
        self._on_elected = on_elected
        self._on_possible_loss = on_possible_loss
        self._is_settled = asyncio.Event()
        self._is_settled.set()

    async def commit(self, decide: Callable[[Image], tuple[Sequence[Record], Reply]]) -> Reply:
        try:
            return await self._publisher.commit(decide)
        except OSError as error:
            # Nothing was written, and a retry may succeed.
            raise PeerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    async def until_settled(self) -> None:
        """Waits while this broker, newly elected, updates the metadata."""
        await self._is_settled.wait()

    async def run(self) -> None:
        """Campaigns, performs the controller's duties, and campaigns again after it was deposed.

        OSError or StorageError if the store's disk fails.
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
        """Follows the registered brokers; does not end."""
        self._on_elected(self._publisher.image.controller_epoch)
        async for registered in self._store.registered_brokers():
            is_first = not self._is_settled.is_set()
            await update_brokers(
                self._publisher, registered, self._on_possible_loss, is_first=is_first
            )
            if is_first:
                if self._is_shared:
                    await record_min_isr(self._publisher, self._current_settings)
                await update_min_isr(self._publisher, None, self._current_settings)
                self._is_settled.set()
