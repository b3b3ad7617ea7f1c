"""Registers a broker's new incarnation with the metadata store, and stores it in its home.

`metadata.incarnation` explains the order of these steps.
"""

from collections.abc import Sequence

from ottla.metadata.incarnation import (
    inherited_ids,
    read_incarnation,
    serving,
    starting,
    write_incarnation,
)
from ottla.metadata.store import MetadataStore, RegisteredBroker, Registration
from ottla.metadata.values import Endpoint, PartitionId
from ottla.seams.clock import Clock
from ottla.seams.entropy import Entropy
from ottla.seams.files import Files

INCARNATION_ID_BYTES = 16


class BrokerRegistration:
    """The registration of one incarnation, up to the `save` of a clean stop."""

    def __init__(
        self,
        *,
        files: Files,
        clock: Clock,
        entropy: Entropy,
        home: str,
        broker_id: int,
        rack: str | None,
    ) -> None:
        self._files = files
        self._home = home
        self._boot_id = clock.boot_id()
        self._broker_id = broker_id
        self._rack = rack
        self.incarnation_id = entropy.token(INCARNATION_ID_BYTES).hex()
        self._endpoints: tuple[Endpoint, ...] = ()
        # -1 before it has registered.
        self.broker_epoch = -1
        # Whether it was saved as one that serves.
        self.is_serving = False

    async def register(
        self,
        store: MetadataStore,
        endpoints: tuple[Endpoint, ...],
        damaged: Sequence[PartitionId] = (),
        offline: Sequence[PartitionId] = (),
    ) -> RegisteredBroker:
        """Stores the incarnation, and gets its broker epoch.

        `damaged` are the logs that lost records, `offline` those that cannot be read or written.
        BrokerIdTaken if another broker has this id.
        """
        previous = read_incarnation(self._files, self._home)
        saved = starting(previous, self.incarnation_id, self._boot_id, damaged)
        write_incarnation(self._files, self._home, saved)
        self._endpoints = endpoints
        return await self._register(
            store,
            inherits=inherited_ids(saved, self._boot_id),
            damaged=saved.damaged,
            offline=tuple(offline),
            replaces=saved.replaced_ids,
        )

    async def register_again(self, store: MetadataStore) -> RegisteredBroker:
        """Registers after the session was lost. The broker has lost nothing, and inherits all."""
        own = (self.incarnation_id,)
        return await self._register(store, inherits=own, replaces=own)

    async def _register(
        self,
        store: MetadataStore,
        *,
        inherits: tuple[str, ...],
        damaged: tuple[PartitionId, ...] = (),
        offline: tuple[PartitionId, ...] = (),
        replaces: tuple[str, ...],
    ) -> RegisteredBroker:
        registration = Registration(
            broker_id=self._broker_id,
            incarnation_id=self.incarnation_id,
            endpoints=self._endpoints,
            rack=self._rack,
            host="localhost",
            inherits=inherits,
            damaged=damaged,
            offline=offline,
            replaces=replaces,
        )
        registered = RegisteredBroker(registration, await store.register(registration))
        self.broker_epoch = registered.broker_epoch
        return registered

    def save(self, *, clean: bool) -> None:
        """Stores the incarnation: before the broker serves, and after the last flush."""
        saved = serving(self.incarnation_id, self._boot_id, clean=clean)
        write_incarnation(self._files, self._home, saved)
        self.is_serving = True
