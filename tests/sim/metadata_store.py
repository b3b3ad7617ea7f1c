"""A metadata store in memory that many brokers share, instead of an ensemble of servers."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from ottla.metadata.entry_codec import decode, encode
from ottla.metadata.records import Record
from ottla.metadata.store import (
    EntriesGone,
    Entry,
    Fence,
    Fenced,
    Lease,
    Loaded,
    RegisteredBroker,
    Registration,
    Snapshot,
    StoreClosed,
)

FOR_EVER_NS = 2**63 - 1


class SimEnsemble:
    """The state of the servers, which survives every broker."""

    def __init__(self) -> None:
        self.snapshot = Snapshot(-1, ())
        # Encoded as in any other store.
        self.entries: list[bytes] = []
        self.members: dict[int, RegisteredBroker] = {}
        self.controller: SimMetadataStore | None = None
        self.controller_epoch = 0
        self._broker_epoch = 0
        self._changed = asyncio.Event()

    def connect(self) -> "SimMetadataStore":
        return SimMetadataStore(self)

    def expire(self, store: "SimMetadataStore") -> None:
        """The servers end a broker's session. The broker is not notified."""
        self.members = {
            broker_id: member
            for broker_id, member in self.members.items()
            if member.broker_epoch not in store.epochs
        }
        if self.controller is store:
            self.controller = None
        self.wake()

    def next_broker_epoch(self) -> int:
        # Steps larger than one, as in ZooKeeper, where every write counts.
        self._broker_epoch += 3
        return self._broker_epoch

    def wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def change(self) -> asyncio.Event:
        """Set at the next change."""
        return self._changed


class SimMetadataStore:
    """One broker's `MetadataStore`."""

    def __init__(self, ensemble: SimEnsemble) -> None:
        self.epochs: list[int] = []
        self._ensemble = ensemble
        self._is_open = True

    async def load(self) -> Loaded:
        self._require_open()
        return Loaded(self._ensemble.snapshot, self._entries(self._ensemble.snapshot.offset + 1))

    async def append(self, records: Sequence[Record], fence: Fence) -> int:
        self._require_open()
        self._require_newest(fence)
        self._ensemble.entries.append(encode(records))
        self._ensemble.wake()
        return self._ensemble.snapshot.offset + len(self._ensemble.entries)

    async def save(self, snapshot: Snapshot, fence: Fence) -> None:
        self._require_open()
        self._require_newest(fence)
        replaced = snapshot.offset - self._ensemble.snapshot.offset
        if snapshot.offset < 0 or not 0 <= replaced <= len(self._ensemble.entries):
            raise ValueError(f"a snapshot of entry {snapshot.offset} cannot be saved now")
        del self._ensemble.entries[:replaced]
        self._ensemble.snapshot = snapshot

    async def follow(self, from_offset: int) -> AsyncIterator[Entry]:
        while True:
            self._require_open()
            first_offset = self._ensemble.snapshot.offset + 1
            if from_offset < first_offset:
                raise EntriesGone(from_offset, first_offset)
            changed = self._ensemble.change()
            entries = self._entries(from_offset)
            for entry in entries:
                yield entry
            from_offset += len(entries)
            if not entries:
                await changed.wait()

    async def register(self, registration: Registration) -> int:
        self._require_open()
        epoch = self._ensemble.next_broker_epoch()
        self.epochs.append(epoch)
        self._ensemble.members[registration.broker_id] = RegisteredBroker(registration, epoch)
        self._ensemble.wake()
        return epoch

    async def registered_brokers(self) -> AsyncIterator[tuple[RegisteredBroker, ...]]:
        told: tuple[RegisteredBroker, ...] | None = None
        while True:
            self._require_open()
            changed = self._ensemble.change()
            present = tuple(member for _, member in sorted(self._ensemble.members.items()))
            if present == told:
                await changed.wait()
            else:
                told = present
                yield present

    async def campaign(self) -> Fence:
        self._require_open()
        while self._ensemble.controller not in (None, self):
            await self._ensemble.change().wait()
            self._require_open()
        self._ensemble.controller = self
        self._ensemble.controller_epoch += 1
        return Fence(self._ensemble.controller_epoch)

    def session(self) -> Lease:
        self._require_open()
        return Lease(FOR_EVER_NS)

    def log_directory_failed(self, path: str, error: Exception) -> None:
        """Nothing to do: the servers have their own disks."""

    async def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._ensemble.expire(self)

    def _entries(self, from_offset: int) -> tuple[Entry, ...]:
        first_offset = self._ensemble.snapshot.offset + 1
        found = self._ensemble.entries[from_offset - first_offset :]
        return tuple(
            Entry(offset, decode(entry)) for offset, entry in enumerate(found, start=from_offset)
        )

    def _require_open(self) -> None:
        if not self._is_open:
            raise StoreClosed("it was closed")

    def _require_newest(self, fence: Fence) -> None:
        if fence.epoch != self._ensemble.controller_epoch:
            raise Fenced(f"{fence} is void")
