"""The entries of the metadata log in ZooKeeper: appends and reads."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from functools import partial

from ottla.metadata.entry_codec import CorruptEntry
from ottla.metadata.records import Record
from ottla.metadata.store import EntriesGone, Entry, Loaded, Snapshot
from ottla.metadata.zookeeper.layout import (
    CONTROLLER_EPOCH,
    HEAD,
    SNAPSHOT,
    SnapshotPointer,
    entry_path,
    read_entry,
    read_number,
    read_pointer,
    read_records,
    write_entry,
    write_number,
)
from ottla.metadata.zookeeper.term import Term
from ottla.metadata.zookeeper.znodes import (
    Check,
    ConnectionLost,
    Create,
    Refused,
    SetData,
    Znode,
    Znodes,
    fresh,
    patient,
)

READS_IN_FLIGHT_MAX = 64


async def append(znodes: Znodes, term: Term, entry: bytes) -> int:
    """Commits an encoded entry as the next one of this term and returns its offset.

    To be called by one writer at a time. Fenced as in `MetadataStore.append`.
    """
    offset = term.head + 1
    content = write_entry(term.fence.epoch, entry)
    operations = (
        Check(CONTROLLER_EPOCH, term.epoch_version),
        Create(entry_path(offset), content),
        SetData(HEAD, write_number(offset), term.head_version),
    )
    while True:
        try:
            await znodes.multi(operations)
            break
        except (ConnectionLost, Refused):
            # A refusal, too, may be due to an earlier attempt that was applied.
            if await fresh(znodes, partial(_is_committed, znodes, term, offset, content)):
                break
    term.head = offset
    term.head_version += 1
    return offset


async def _is_committed(znodes: Znodes, term: Term, offset: int, content: bytes) -> bool:
    """Whether this term has committed this entry; if not, nobody else has. Fenced otherwise."""
    entry = await znodes.get(entry_path(offset))
    if entry is not None:
        if entry.data != content:
            raise term.fenced()
        return True
    head = await read_head(znodes)
    # Read last: if it has not changed, nobody else has written until now.
    epoch = await required(znodes, CONTROLLER_EPOCH)
    if epoch.version != term.epoch_version:
        raise term.fenced()
    # It is committed even without its node if a snapshot of this term has replaced it.
    return head >= offset


async def load(znodes: Znodes) -> Loaded:
    """All metadata that was committed before the call."""
    previous: SnapshotPointer | None = None
    while True:
        pointer, loaded = await fresh(znodes, partial(_try_load, znodes))
        if loaded is not None:
            return loaded
        # Nodes vanish only after a newer snapshot was saved.
        if pointer == previous:
            raise CorruptEntry(SNAPSHOT, f"nodes of {pointer} or entries after it are missing")
        previous = pointer


async def _try_load(znodes: Znodes) -> tuple[SnapshotPointer, Loaded | None]:
    """Nothing is loaded if a newer snapshot has replaced the nodes meanwhile."""
    pointer = read_pointer((await required(znodes, SNAPSHOT)).data)
    head = await read_head(znodes)
    records: list[Record] = []
    for path in pointer.chunk_paths():
        chunk = await znodes.get(path)
        if chunk is None:
            return pointer, None
        records += read_records(path, chunk.data)
    entries: list[Entry] = []
    while pointer.last_offset + len(entries) < head:
        found = await _read_entries(znodes, pointer.last_offset + 1 + len(entries), head)
        if not found:
            return pointer, None
        entries += found
    return pointer, Loaded(Snapshot(pointer.last_offset, tuple(records)), tuple(entries))


async def follow(
    znodes: Znodes, from_offset: int, on_head: Callable[[int], None]
) -> AsyncGenerator[Entry, None]:
    """See `MetadataStore.follow`. `on_head` is told of each head before its entries are read."""
    changed = asyncio.Event()
    while True:
        changed.clear()
        head = await patient(partial(read_head, znodes, changed))
        on_head(head)
        while from_offset <= head:
            entries = await patient(partial(_read_entries, znodes, from_offset, head))
            if not entries:
                await fresh(znodes, partial(_require_kept, znodes, from_offset))
            for entry in entries:
                yield entry
            from_offset += len(entries)
        await changed.wait()


async def _require_kept(znodes: Znodes, offset: int) -> None:
    """EntriesGone if a snapshot has replaced this committed entry."""
    entry = await znodes.get(entry_path(offset))
    pointer = read_pointer((await required(znodes, SNAPSHOT)).data)
    if offset <= pointer.last_offset:
        raise EntriesGone(offset, pointer.last_offset + 1)
    if entry is None:
        raise CorruptEntry(entry_path(offset), f"it is missing, and not part of {pointer}")


async def _read_entries(znodes: Znodes, from_offset: int, head: int) -> list[Entry]:
    """Some of the entries up to `head`, without gaps; none if the first one does not exist."""
    offsets = range(from_offset, min(head + 1, from_offset + READS_IN_FLIGHT_MAX))
    found = await asyncio.gather(*(_read_entry(znodes, offset) for offset in offsets))
    entries: list[Entry] = []
    for entry in found:
        if entry is None:
            break
        entries.append(entry)
    return entries


async def _read_entry(znodes: Znodes, offset: int) -> Entry | None:
    path = entry_path(offset)
    node = await znodes.get(path)
    return None if node is None else Entry(offset, read_entry(path, node.data))


async def read_head(znodes: Znodes, watch: asyncio.Event | None = None) -> int:
    """The offset of the last entry."""
    return read_number(HEAD, (await required(znodes, HEAD, watch)).data)


async def required(znodes: Znodes, path: str, watch: asyncio.Event | None = None) -> Znode:
    """A node that exists since the cluster was created."""
    node = await znodes.get(path, watch)
    if node is None:
        raise CorruptEntry(path, "the node was deleted")
    return node
