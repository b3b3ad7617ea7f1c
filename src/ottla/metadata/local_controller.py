"""The controller on this broker: it campaigns, and has the controller's duties while it leads."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller_duties import (
    CurrentSettings,
    record_min_isr,
    restore_preferred_leaders,
    update_brokers,
    update_min_isr,
)
from ottla.metadata.image import Image
from ottla.metadata.publisher import NotController, Publisher
from ottla.metadata.records import Record
from ottla.metadata.store import MetadataStore
from ottla.metadata.unclean_elections import AskLogEnds, UncleanElections, no_answer
from ottla.settings.table.replicas import (
    AUTO_LEADER_REBALANCE_ENABLE,
    LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS,
    LEADER_IMBALANCE_PER_BROKER_PERCENTAGE,
)

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
        ask_log_ends: AskLogEnds = no_answer,
    ) -> None:
        """`is_shared` if other brokers may be the controller, too.

        `on_elected` gets the epoch of each term.
        """
        self._publisher = publisher
        self._store = store
        self._broker_id = broker_id
        self._current_settings = current_settings
        self._is_shared = is_shared
        self._on_elected = on_elected
        self.unclean_elections = UncleanElections(publisher, current_settings, ask_log_ends)
        publisher.subscribe(self.unclean_elections.follow)
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
        duties = {
            "term": self._publisher.until_resigned(),
            "brokers": self._follow_brokers(),
            "unclean elections": self._elect_unclean(),
        }
        if self._is_shared:
            # A single broker leads all that it can lead.
            duties["preferred leaders"] = self._restore_preferred_leaders()
        tasks = [
            loop.create_task(duty, name=f"controller: {name}") for name, duty in duties.items()
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._is_settled.set()
        for task in tasks:
            if not task.cancelled():
                task.result()

    async def _elect_unclean(self) -> None:
        """Elects leaders among replicas that may have lost records; does not end."""
        await self._is_settled.wait()
        await self.unclean_elections.run()

    async def _restore_preferred_leaders(self) -> None:
        """Has preferred replicas lead again from time to time; does not end."""
        while True:
            settings = self._current_settings()
            await asyncio.sleep(settings[LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS])
            settings = self._current_settings()
            if not settings[AUTO_LEADER_REBALANCE_ENABLE]:
                continue
            try:
                await restore_preferred_leaders(
                    self._publisher, settings[LEADER_IMBALANCE_PER_BROKER_PERCENTAGE]
                )
            except OSError:
                continue  # nothing was written; the disk of the metadata may be full

    async def _follow_brokers(self) -> None:
        """Follows the registered brokers; does not end."""
        self._on_elected(self._publisher.image.controller_epoch)
        async for registered in self._store.registered_brokers():
            is_first = not self._is_settled.is_set()
            await update_brokers(self._publisher, registered, is_first=is_first)
            if is_first:
                if self._is_shared:
                    await record_min_isr(self._publisher, self._current_settings)
                await update_min_isr(self._publisher, None, self._current_settings)
                self._is_settled.set()
