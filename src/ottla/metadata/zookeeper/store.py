"""The metadata store of a cluster: a log, registrations and an election in ZooKeeper."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from functools import partial

from ottla.metadata.entry_codec import encode
from ottla.metadata.records import Record
from ottla.metadata.snapshot_packing import pack
from ottla.metadata.store import (
    Entry,
    Fence,
    Fenced,
    Loaded,
    RegisteredBroker,
    Registration,
    Snapshot,
    StoreClosed,
)
from ottla.metadata.zookeeper import election, entries, registrations, snapshots
from ottla.metadata.zookeeper.layout import (
    CLUSTER,
    SNAPSHOT,
    first_nodes,
    read_cluster_id,
    write_cluster_id,
    write_controller,
)
from ottla.metadata.zookeeper.promotion import require_no_promotion
from ottla.metadata.zookeeper.term import Term
from ottla.metadata.zookeeper.znodes import ConnectionLost, Create, Refused, Znodes, fresh


async def find_cluster_id(znodes: Znodes) -> str | None:
    """The id of the cluster in ZooKeeper; None if there is no cluster. Creates nothing."""
    found = await fresh(znodes, partial(znodes.get, CLUSTER))
    return None if found is None else read_cluster_id(found.data)


class ZooKeeperStore:
    """One broker's `MetadataStore` over a ZooKeeper client, which it owns and closes.

    A fence is the version of /controller_epoch, which every write of the log checks. So it does not
    matter whether the session of a controller has expired: only the next election fences it.
    """

    def __init__(self, znodes: Znodes) -> None:
        self._znodes = znodes
        self._is_open = True
        self._has_nodes = False
        self._term: Term | None = None
        self._registered: RegisteredBroker | None = None
        self._known_head: int | None = None
        # Entries are appended one after another, and so are snapshots; a snapshot takes many
        # writes, and appends do not wait for it.
        self._appending = asyncio.Lock()
        self._saving = asyncio.Lock()
        # Keeps references: a task without one may be garbage collected.
        self._appends: dict[asyncio.Task[int], None] = {}

    @property
    def session_timeout_ms(self) -> int | None:
        return self._znodes.session_timeout_ms or None

    @property
    def is_connected(self) -> bool:
        return self._znodes.is_connected

    @property
    def known_head(self) -> int | None:
        return self._known_head

    async def cluster_id(self, proposed: str) -> str:
        await self._prepare()
        while True:
            found = await find_cluster_id(self._znodes)
            if found is not None:
                return found
            await self._try_create(Create(CLUSTER, write_cluster_id(proposed)))

    async def load(self) -> Loaded:
        await self._prepare()
        return await entries.load(self._znodes)

    async def append(self, records: Sequence[Record], fence: Fence) -> int:
        self._require_open()
        task = asyncio.get_running_loop().create_task(
            self._append(encode(records), fence), name="append metadata"
        )
        self._appends[task] = None
        task.add_done_callback(self._appended)
        # A cancelled caller does not leave an entry behind whose outcome the next one must find.
        return await asyncio.shield(task)

    async def save(self, snapshot: Snapshot, fence: Fence) -> None:
        self._require_term(fence)
        chunks = await pack(snapshot.records)
        async with self._saving:
            term = self._require_term(fence)
            await snapshots.save(self._znodes, term, snapshot.offset, chunks)

    async def follow(self, from_offset: int) -> AsyncIterator[Entry]:
        await self._prepare()
        async with aclosing(entries.follow(self._znodes, from_offset, self._saw_head)) as found:
            async for entry in found:
                yield entry

    async def register(self, registration: Registration) -> int:
        await self._prepare()
        self._registered = await registrations.register(self._znodes, registration)
        return self._registered.broker_epoch

    async def drain(self) -> None:
        self._require_open()
        if self._registered is not None:
            await registrations.drain(self._znodes, self._registered)

    async def until_unregistered(self) -> None:
        self._require_open()
        if self._registered is not None:
            await registrations.until_ended(self._znodes, self._registered)

    async def registered_brokers(self) -> AsyncIterator[tuple[RegisteredBroker, ...]]:
        await self._prepare()
        async with aclosing(registrations.registered_brokers(self._znodes)) as found:
            async for brokers in found:
                yield brokers

    async def campaign(self) -> Fence:
        await self._prepare()
        registered = self._registered
        if registered is None:
            description = write_controller(None, None)
        else:
            description = write_controller(*registered.incarnation)
        self._term = await election.campaign(self._znodes, description)
        return self._term.fence

    def log_directory_failed(self, path: str, error: Exception) -> None:
        """Nothing to do: the metadata is not in a log directory."""

    async def close(self) -> None:
        self._is_open = False
        await self._znodes.close()
        await asyncio.gather(*self._appends, return_exceptions=True)

    async def _append(self, entry: bytes, fence: Fence) -> int:
        async with self._appending:
            return await entries.append(self._znodes, self._require_term(fence), entry)

    def _saw_head(self, head: int) -> None:
        self._known_head = head

    def _appended(self, task: "asyncio.Task[int]") -> None:
        del self._appends[task]
        if not task.cancelled():
            # Marks it as retrieved: the caller gets the error, if it still waits.
            task.exception()

    async def _prepare(self) -> None:
        """Creates the nodes of a new cluster. StoreUnusable while another one moves there."""
        self._require_open()
        while not self._has_nodes:
            found = await fresh(self._znodes, partial(self._znodes.get, SNAPSHOT))
            if found is None:
                await require_no_promotion(self._znodes)
                await self._try_create(*first_nodes())
            self._has_nodes = found is not None

    async def _try_create(self, *nodes: Create) -> None:
        """They may not exist afterwards, or others may have created them."""
        try:
            await self._znodes.multi(nodes)
        except (ConnectionLost, Refused):
            return

    def _require_open(self) -> None:
        if not self._is_open:
            raise StoreClosed("the metadata store was closed")

    def _require_term(self, fence: Fence) -> Term:
        self._require_open()
        if self._term is None or self._term.fence != fence:
            newest = None if self._term is None else self._term.fence
            raise Fenced(f"{fence} is void, the newest of this broker is {newest}")
        return self._term
