"""Registers a broker's new incarnation with the metadata store, and stores it in its home.

`metadata.incarnation` explains the order of these steps.
"""

from collections.abc import Sequence
from dataclasses import replace

from ottla.broker.node.log_dirs import NO_BROKER_EPOCH
from ottla.metadata.controller.broker_registrations import is_up
from ottla.metadata.image import Image
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
        self._registered: RegisteredBroker | None = None
        # Whether it was saved as one that serves.
        self.is_serving = False

    async def register(
        self,
        store: MetadataStore,
        endpoints: tuple[Endpoint, ...],
        damaged: Sequence[PartitionId] = (),
        offline: Sequence[PartitionId] = (),
    ) -> None:
        """Stores the incarnation, and gets its broker epoch.

        `damaged` are the logs that lost records, `offline` those that cannot be read or written.
        BrokerIdTaken if another broker has this id.
        """
        previous = read_incarnation(self._files, self._home)
        saved = starting(previous, self.incarnation_id, self._boot_id, damaged)
        write_incarnation(self._files, self._home, saved)
        registration = Registration(
            broker_id=self._broker_id,
            incarnation_id=self.incarnation_id,
            endpoints=endpoints,
            rack=self._rack,
            host=endpoints[0].host if endpoints else "localhost",
            inherits=inherited_ids(saved, self._boot_id),
            damaged=saved.damaged,
            offline=tuple(offline),
            replaces=saved.replaced_ids,
        )
        await self._register(store, registration)

    async def register_again(
        self, store: MetadataStore, offline: Sequence[PartitionId] = ()
    ) -> None:
        """Registers after the session was lost. What the incarnation wrote it still has.

        Until it serves, it also inherits what the lost registration did.
        """
        if self._registered is None:
            raise RuntimeError("it has not registered yet")
        registration = replace(self._registered.registration, offline=tuple(offline))
        if self.is_serving:
            own = (self.incarnation_id,)
            registration = replace(registration, inherits=own, damaged=(), replaces=own)
        await self._register(store, registration)

    async def _register(self, store: MetadataStore, registration: Registration) -> None:
        self._registered = RegisteredBroker(registration, await store.register(registration))

    @property
    def broker_epoch(self) -> int:
        """The epoch of the current registration, or of the last one; -1 before the first one."""
        return NO_BROKER_EPOCH if self._registered is None else self._registered.broker_epoch

    def is_up(self, image: Image) -> bool:
        """Whether the image has all that follows from the current registration."""
        return self._registered is not None and is_up(image, self._registered)

    def save(self, *, clean: bool) -> None:
        """Stores the incarnation: before the broker serves, and after the last flush."""
        saved = serving(self.incarnation_id, self._boot_id, clean=clean)
        write_incarnation(self._files, self._home, saved)
        self.is_serving = True
