"""Registers a broker's new incarnation with the metadata store, and stores it in its home.

`metadata.incarnation` explains the order of these steps.
"""

from ottla.metadata.incarnation import (
    SavedIncarnation,
    inherited_epochs,
    read_incarnation,
    with_unserved,
    write_incarnation,
)
from ottla.metadata.store import MetadataStore, RegisteredBroker, Registration
from ottla.metadata.values import Endpoint
from ottla.seams.clock import Clock
from ottla.seams.files import Files


class BrokerRegistration:
    """The registration of one incarnation, up to the `save` of a clean stop."""

    def __init__(self, files: Files, home: str, clock: Clock) -> None:
        self._files = files
        self._home = home
        self._boot_id = clock.boot_id()
        self.broker_epoch = -1

    async def register(
        self, store: MetadataStore, broker_id: int, endpoints: tuple[Endpoint, ...]
    ) -> RegisteredBroker:
        """Gets the new broker epoch. The incarnation may inherit partitions on return."""
        previous = read_incarnation(self._files, self._home)
        inherits = inherited_epochs(previous, self._boot_id)
        registration = Registration(
            broker_id=broker_id,
            endpoints=endpoints,
            rack=None,
            host="localhost",
            inherits=inherits[0] if inherits else None,
            unserved=inherits[1:],
        )
        member = RegisteredBroker(registration, await store.register(registration))
        self.broker_epoch = member.broker_epoch
        if previous is not None and inherits:
            write_incarnation(self._files, self._home, with_unserved(previous, member.broker_epoch))
        return member

    def save(self, *, clean: bool) -> None:
        """Stores the incarnation: before the listeners open, and after the last flush."""
        saved = SavedIncarnation(self.broker_epoch, self._boot_id, clean)
        write_incarnation(self._files, self._home, saved)
