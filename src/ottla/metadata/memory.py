"""Metadata in memory that the brokers of one process share, for tests of a cluster.

Each broker has a `MetadataStore` of its own, which stands for a session with the servers of a real
store. Nothing fails and nothing is delayed; a test can only end a session.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from ottla.metadata.entry_codec import decode, encode
from ottla.metadata.records import Record
from ottla.metadata.snapshot_packing import pack
from ottla.metadata.store import (
    BrokerIdTaken,
    EntriesGone,
    Entry,
    Fence,
    Fenced,
    Loaded,
    RegisteredBroker,
    Registration,
    Snapshot,
    StoreClosed,
)


class MemoryEnsemble:
    """The committed metadata, the registered brokers and the controller.

    It outlives the stores of its brokers. All of them must run in one event loop.
    """

    def __init__(self) -> None:
        # Encoded as in any other store, so that a record that cannot be encoded is refused.
        self._entries: list[bytes] = []
        self._snapshot: list[bytes] = []
        self._snapshot_offset = -1
        # One below the offset of the first entry.
        self._deleted_offset = -1
        self._cluster_id: str | None = None
        self._sessions: dict[int, tuple[MemoryStore, RegisteredBroker]] = {}
        self._controller: MemoryStore | None = None
        self._controller_epoch = 0
        self._broker_epoch = 0
        # Set and replaced at every change, to wake the waiting calls of all stores.
        self._changed = asyncio.Event()

    def connect(self) -> "MemoryStore":
        """A store for one broker, with a session that lasts until the store is closed."""
        return MemoryStore(self)

    def expire(self, store: "MemoryStore") -> None:
        """Ends the session of a store, as if the servers had not heard of its broker for too long.

        The broker is no longer registered nor the controller. Its store begins a new session.
        """
        self._sessions = {
            broker_id: session
            for broker_id, session in self._sessions.items()
            if session[0] is not store
        }
        if self._controller is store:
            self._controller = None
        self._wake()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The committed entries after the last snapshot."""
        return self._entries_from(self._snapshot_offset + 1)

    @property
    def snapshot_offset(self) -> int:
        """The offset of the last snapshot; -1 if there is none."""
        return self._snapshot_offset

    @property
    def controller_epoch(self) -> int:
        return self._controller_epoch

    @property
    def registered(self) -> tuple[RegisteredBroker, ...]:
        """The registered brokers by id."""
        return tuple(registered for _, (_, registered) in sorted(self._sessions.items()))

    # Called by the stores. None of these awaits: each is one atomic change.

    @property
    def _head(self) -> int:
        """The offset of the last committed entry."""
        return self._deleted_offset + len(self._entries)

    def _load(self) -> Loaded:
        records = tuple(record for chunk in self._snapshot for record in decode(chunk))
        return Loaded(Snapshot(self._snapshot_offset, records), self.entries)

    def _entries_from(self, from_offset: int) -> tuple[Entry, ...]:
        found = self._entries[from_offset - self._deleted_offset - 1 :]
        return tuple(
            Entry(offset, decode(entry)) for offset, entry in enumerate(found, start=from_offset)
        )

    def _entry(self, offset: int) -> Entry | None:
        """None if there is no such entry yet."""
        if offset > self._head:
            return None
        return Entry(offset, decode(self._entries[offset - self._deleted_offset - 1]))

    def _propose_cluster_id(self, proposed: str) -> str:
        if self._cluster_id is None:
            self._cluster_id = proposed
        return self._cluster_id

    def _append(self, records: Sequence[Record], fence: Fence) -> int:
        self._require_newest(fence)
        self._entries.append(encode(records))
        self._wake()
        return self._head

    def _save(self, offset: int, chunks: list[bytes], fence: Fence) -> None:
        self._require_newest(fence)
        oldest = max(self._snapshot_offset, 0)
        if not oldest <= offset <= self._head:
            raise ValueError(
                f"a snapshot of entry {offset}, between {oldest} and {self._head} expected"
            )
        # Entries stay until the next snapshot, for brokers that are a little behind.
        del self._entries[: self._snapshot_offset - self._deleted_offset]
        self._deleted_offset = self._snapshot_offset
        self._snapshot_offset = offset
        self._snapshot = chunks
        self._wake()

    def _register(self, store: "MemoryStore", registration: Registration) -> int:
        present = self._sessions.get(registration.broker_id)
        if present is not None:
            owner, other = present
            if owner is not store and not registration.may_replace(other.registration):
                raise BrokerIdTaken(registration.broker_id, other.registration.host)
            if owner is not store and self._controller is owner:
                self._controller = None
        # Not by one: in other stores, too, broker epochs have gaps.
        self._broker_epoch += 3
        registered = RegisteredBroker(registration, self._broker_epoch)
        self._sessions[registration.broker_id] = (store, registered)
        self._wake()
        return self._broker_epoch

    def _registered_by(self, store: "MemoryStore") -> RegisteredBroker | None:
        for owner, registered in self._sessions.values():
            if owner is store:
                return registered
        return None

    def _drain(self, store: "MemoryStore") -> None:
        registered = self._registered_by(store)
        if registered is not None:
            draining = replace(registered.registration, is_draining=True)
            self._sessions[draining.broker_id] = (store, registered._replace(registration=draining))
            self._wake()

    def _try_election(self, store: "MemoryStore") -> Fence | None:
        """None while another session is the controller."""
        if self._controller not in (None, store):
            return None
        self._controller = store
        self._controller_epoch += 1
        self._wake()
        return Fence(self._controller_epoch)

    def _require_newest(self, fence: Fence) -> None:
        if fence.epoch != self._controller_epoch:
            raise Fenced(f"{fence} is void, the newest epoch is {self._controller_epoch}")

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class MemoryStore:
    """One broker's `MetadataStore`, made by `MemoryEnsemble.connect`."""

    def __init__(self, ensemble: MemoryEnsemble) -> None:
        self._ensemble = ensemble
        self._is_open = True

    @property
    def session_timeout_ms(self) -> int | None:
        return None

    @property
    def is_connected(self) -> bool:
        return True

    @property
    def known_head(self) -> int | None:
        return self._ensemble._head if self._is_open else None

    async def cluster_id(self, proposed: str) -> str:
        return self._servers()._propose_cluster_id(proposed)

    async def load(self) -> Loaded:
        return self._servers()._load()

    async def append(self, records: Sequence[Record], fence: Fence) -> int:
        return self._servers()._append(records, fence)

    async def save(self, snapshot: Snapshot, fence: Fence) -> None:
        self._servers()._require_newest(fence)
        chunks = await pack(snapshot.records)
        self._servers()._save(snapshot.offset, chunks, fence)

    async def follow(self, from_offset: int) -> AsyncIterator[Entry]:
        while True:
            servers = self._servers()
            if from_offset <= servers._deleted_offset:
                raise EntriesGone(from_offset, servers._deleted_offset + 1)
            changed = servers._changed
            entry = servers._entry(from_offset)
            if entry is None:
                await changed.wait()
                continue
            yield entry
            from_offset += 1

    async def register(self, registration: Registration) -> int:
        return self._servers()._register(self, registration)

    async def drain(self) -> None:
        self._servers()._drain(self)

    async def until_unregistered(self) -> None:
        while self._servers()._registered_by(self) is not None:
            await self._ensemble._changed.wait()

    async def registered_brokers(self) -> AsyncIterator[tuple[RegisteredBroker, ...]]:
        yielded: tuple[RegisteredBroker, ...] | None = None
        while True:
            servers = self._servers()
            changed = servers._changed
            present = servers.registered
            if present == yielded:
                await changed.wait()
            else:
                yielded = present
                yield present

    async def campaign(self) -> Fence:
        while True:
            fence = self._servers()._try_election(self)
            if fence is not None:
                return fence
            await self._ensemble._changed.wait()

    def log_directory_failed(self, path: str, error: Exception) -> None:
        """Nothing to do: the metadata is not in a log directory."""

    async def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._ensemble.expire(self)

    def _servers(self) -> MemoryEnsemble:
        if not self._is_open:
            raise StoreClosed("it was closed")
        return self._ensemble
