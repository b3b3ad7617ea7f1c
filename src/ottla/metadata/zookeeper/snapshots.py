"""Saves snapshots of the metadata in ZooKeeper, and deletes the nodes that they replace.

The chunks are written first, then the pointer to them. Nodes that a snapshot replaces are deleted
last; but entries stay until the next snapshot, for brokers that are a little behind. Each write
checks the fence: a deposed controller changes nothing.
"""

from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from ottla.metadata.zookeeper.entries import read_head, required
from ottla.metadata.zookeeper.layout import (
    CONTROLLER_EPOCH,
    LOG,
    SNAPSHOT,
    SnapshotPointer,
    read_pointer,
    superseded,
    write_pointer,
)
from ottla.metadata.zookeeper.term import Term, try_fenced
from ottla.metadata.zookeeper.znodes import ANY_VERSION, Create, Delete, SetData, Znodes, fresh

DELETED_PER_MULTI = 100


class _LogState(NamedTuple):
    pointer: SnapshotPointer
    pointer_version: int
    head: int


async def save(znodes: Znodes, term: Term, offset: int, chunks: Sequence[bytes]) -> None:
    """Saves a snapshot of these encoded chunks. Errors as in `MetadataStore.save`.

    To be called by one writer at a time.
    """
    state = await fresh(znodes, partial(_read_state, znodes, term))
    oldest = max(state.pointer.last_offset, 0)
    if not oldest <= offset <= state.head:
        raise ValueError(
            f"a snapshot of entry {offset}, between {oldest} and {state.head} expected"
        )
    pointer = SnapshotPointer(offset, len(chunks))
    if offset == state.pointer.last_offset:
        # The image at an offset does not change: it is saved already.
        pointer = state.pointer
    else:
        # Chunks that a crash left may have the names of the new ones.
        await _delete_superseded(znodes, term, state.pointer)
        for path, chunk in zip(pointer.chunk_paths(), chunks, strict=True):
            await _write(znodes, term, Create(path, chunk))
        await _write(znodes, term, SetData(SNAPSHOT, write_pointer(pointer), state.pointer_version))
    await _delete_superseded(znodes, term, pointer, state.pointer.last_offset)


async def _read_state(znodes: Znodes, term: Term) -> _LogState:
    pointer = await required(znodes, SNAPSHOT)
    head = await read_head(znodes)
    # Read last: if it has not changed, only this term has written until now.
    epoch = await required(znodes, CONTROLLER_EPOCH)
    if epoch.version != term.epoch_version:
        raise term.fenced()
    return _LogState(read_pointer(pointer.data), pointer.version, head)


async def _write(znodes: Znodes, term: Term, operation: Create | SetData) -> None:
    """Applies the operation, or finds that an earlier attempt was applied."""
    while not await try_fenced(znodes, term, operation):
        found = await fresh(znodes, partial(znodes.get, operation.path))
        if found is not None and found.data == operation.data:
            return


async def _delete_superseded(
    znodes: Znodes, term: Term, pointer: SnapshotPointer, last_entry: int | None = None
) -> None:
    while True:
        children = await fresh(znodes, partial(znodes.children, LOG))
        paths = iter(superseded(children, pointer, last_entry))
        is_done = True
        while deleted := [Delete(path, ANY_VERSION) for path in islice(paths, DELETED_PER_MULTI)]:
            is_done = await try_fenced(znodes, term, *deleted) and is_done
        if is_done:
            return
