"""Moves the metadata of a broker that was alone into ZooKeeper.

1. `stage` writes the image as the chunks of snapshot 0 below /log, whose data says that a promotion
   has begun. A broker that starts there refuses, and creates nothing.
2. The caller stamps the broker's disk. From then on the broker does not start alone.
3. `publish` creates all other nodes at once, and the cluster exists.

Until step 2 nothing but /log exists in ZooKeeper, and step 1 can be repeated with a newer image.
After it, the image does not change any more, and only step 3 is left. The token names the attempt
on both sides: what another attempt has staged is not published.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from ottla.errors import StoreUnusable
from ottla.metadata.json_codec import JsonMismatch, dump, object_codec, parse
from ottla.metadata.values import Int16, Int32, Int64, Name
from ottla.metadata.zookeeper.layout import (
    BROKERS,
    CLUSTER,
    CONTROLLER_EPOCH,
    HEAD,
    LOG,
    SNAPSHOT,
    SnapshotPointer,
    read_cluster_id,
    write_cluster_id,
    write_number,
    write_pointer,
)
from ottla.metadata.zookeeper.znodes import (
    ANY_VERSION,
    ConnectionLost,
    Create,
    Delete,
    Operation,
    Refused,
    SetData,
    Znode,
    Znodes,
    fresh,
)

FORMAT = 1
SNAPSHOT_OFFSET = 0


@dataclass(frozen=True, slots=True)
class Promotion:
    """The data of /log while a promotion is under way. `token` is of one attempt."""

    format: Int16
    cluster_id: Name
    token: Name
    controller_epoch: Int32
    chunks: Int64

    @property
    def pointer(self) -> SnapshotPointer:
        return SnapshotPointer(SNAPSHOT_OFFSET, self.chunks)


class Found(NamedTuple):
    """What is in ZooKeeper. `has_nodes`: of a cluster, though perhaps not its id yet."""

    cluster_id: str | None
    has_nodes: bool
    promotion: Promotion | None


_PROMOTION = object_codec(Promotion)


async def look(znodes: Znodes, prefix: str = "") -> Found:
    """Changes nothing. The paths are below `prefix`."""

    async def read() -> tuple[Znode | None, Znode | None]:
        return await znodes.get(prefix + CLUSTER), await znodes.get(prefix + LOG)

    cluster, log = await fresh(znodes, read)
    promotion = None if log is None else read_promotion(log.data)
    return Found(
        None if cluster is None else read_cluster_id(cluster.data),
        cluster is not None or (log is not None and promotion is None),
        promotion,
    )


def read_promotion(content: bytes) -> Promotion | None:
    """From the data of /log; None if no promotion is under way."""
    try:
        promotion: Promotion = _PROMOTION.read(parse(content))
    except JsonMismatch:
        return None
    return promotion


async def require_no_promotion(znodes: Znodes) -> None:
    """StoreUnusable if a promotion into this ZooKeeper has begun and not ended."""
    log = await fresh(znodes, partial(znodes.get, LOG))
    promotion = None if log is None else read_promotion(log.data)
    if promotion is not None:
        raise StoreUnusable(
            f"the promotion of cluster {promotion.cluster_id} into this ZooKeeper is not complete",
            advice="repeat `ottla cluster promote`, which continues it; or choose another chroot",
        )


async def stage(znodes: Znodes, promotion: Promotion, chunks: Sequence[bytes]) -> None:
    """Writes the chunks. What an earlier attempt has staged is replaced.

    The caller has looked: there is no cluster, and no promotion of another one.
    """
    await _write(znodes, LOG, dump(_PROMOTION.write(promotion)))
    paths = promotion.pointer.chunk_paths()
    names = await fresh(znodes, partial(znodes.children, LOG))
    for path in (f"{LOG}/{name}" for name in names):
        if path not in paths:
            await _try(znodes, Delete(path, ANY_VERSION))
    for path, chunk in zip(paths, chunks, strict=True):
        await _write(znodes, path, chunk)


async def publish(znodes: Znodes, promotion: Promotion) -> None:
    """Creates the cluster of what was staged. Does nothing if that was done before."""
    while True:
        log = await fresh(znodes, partial(znodes.get, LOG))
        if log is None or read_promotion(log.data) != promotion:
            return
        await _try(
            znodes,
            Create(BROKERS, b""),
            Create(CONTROLLER_EPOCH, write_number(promotion.controller_epoch)),
            Create(HEAD, write_number(SNAPSHOT_OFFSET)),
            Create(SNAPSHOT, write_pointer(promotion.pointer)),
            Create(CLUSTER, write_cluster_id(promotion.cluster_id)),
            SetData(LOG, b"", log.version),
        )


async def _write(znodes: Znodes, path: str, content: bytes) -> None:
    """The node has this content on return."""
    while True:
        found = await fresh(znodes, partial(znodes.get, path))
        if found is None:
            await _try(znodes, Create(path, content))
        elif found.data != content:
            await _try(znodes, SetData(path, content, found.version))
        else:
            return


async def _try(znodes: Znodes, *operations: Operation) -> None:
    """They may not have been applied afterwards."""
    try:
        await znodes.multi(operations)
    except (ConnectionLost, Refused):
        return
