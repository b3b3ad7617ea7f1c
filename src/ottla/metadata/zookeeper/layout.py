"""The nodes of the metadata in ZooKeeper: their paths and their data.

    /cluster            the cluster id
    /controller_epoch   the controller epoch; the version of this node is the fence
    /controller         ephemeral: the controller, for people who look at ZooKeeper
    /brokers/<id>       ephemeral: a registration; its czxid is the broker epoch
    /log/head           the offset of the last entry
    /log/e<offset>      an entry, after the epoch of the controller that wrote it
    /log/snapshot       the offset of the last snapshot, and the number of its chunks
    /log/s<offset>-<n>  a chunk of a snapshot

The epoch makes entries of different controllers different, whatever their records are.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ottla.metadata.entry_codec import ENTRY_BYTES_MAX, CorruptEntry, EntryTooLarge, decode
from ottla.metadata.json_codec import JsonCodec, JsonMismatch, dump, object_codec, parse
from ottla.metadata.records import Record
from ottla.metadata.store import Registration
from ottla.metadata.values import Int16, Int32, Int64, Name
from ottla.metadata.zookeeper.znodes import Create

CLUSTER = "/cluster"
CONTROLLER_EPOCH = "/controller_epoch"
CONTROLLER = "/controller"
BROKERS = "/brokers"
LOG = "/log"
HEAD = "/log/head"
SNAPSHOT = "/log/snapshot"

FORMAT = 1

_NUMBER = re.compile(rb"-1|\d{1,19}")
_ENTRY_NAME = re.compile(r"e(\d+)")
_CHUNK_NAME = re.compile(r"s(\d+)-\d+")


@dataclass(frozen=True, slots=True)
class SnapshotPointer:
    """`offset` is None, and `chunks` 0, while there is no snapshot."""

    offset: Int64 | None
    chunks: Int64

    @property
    def last_offset(self) -> int:
        """The last offset that the snapshot replaces; -1 if there is none."""
        return -1 if self.offset is None else self.offset

    def chunk_paths(self) -> list[str]:
        return [f"{LOG}/s{self.offset}-{number}" for number in range(self.chunks)]


@dataclass(frozen=True, slots=True)
class _Cluster:
    format: Int16
    cluster_id: Name


@dataclass(frozen=True, slots=True)
class _Controller:
    broker_id: Int32 | None
    broker_epoch: Int64 | None


_CLUSTER = object_codec(_Cluster)
_CONTROLLER = object_codec(_Controller)
_POINTER = object_codec(SnapshotPointer)
_REGISTRATION = object_codec(Registration)


def first_nodes() -> tuple[Create, ...]:
    """The nodes of a new cluster without metadata; all are created at once."""
    return (
        Create(BROKERS, b""),
        Create(CONTROLLER_EPOCH, write_number(0)),
        Create(LOG, b""),
        Create(HEAD, write_number(-1)),
        Create(SNAPSHOT, write_pointer(SnapshotPointer(None, 0))),
    )


def broker_path(broker_id: int) -> str:
    return f"{BROKERS}/{broker_id}"


def entry_path(offset: int) -> str:
    return f"{LOG}/e{offset}"


def superseded(
    children: Iterable[str], pointer: SnapshotPointer, last_entry: int | None = None
) -> list[str]:
    """The paths of entries that the snapshot replaces, and of chunks of any other snapshot.

    Entries after `last_entry`, if that is given, are not among them.
    """
    if last_entry is None:
        last_entry = pointer.last_offset
    paths = []
    for name in children:
        entry = _ENTRY_NAME.fullmatch(name)
        chunk = _CHUNK_NAME.fullmatch(name)
        if (entry and int(entry[1]) <= last_entry) or (
            chunk and int(chunk[1]) != pointer.last_offset
        ):
            paths.append(f"{LOG}/{name}")
    return paths


def write_number(number: int) -> bytes:
    return b"%d" % number


def read_number(path: str, content: bytes) -> int:
    if not _NUMBER.fullmatch(content):
        raise CorruptEntry(path, "a number expected")
    return int(content)


def write_cluster_id(cluster_id: str) -> bytes:
    return dump(_CLUSTER.write(_Cluster(FORMAT, cluster_id)))


def read_cluster_id(content: bytes) -> str:
    found = _read(_CLUSTER, CLUSTER, content)
    if found.format != FORMAT:
        raise CorruptEntry(CLUSTER, f"format {found.format}, only {FORMAT} is known")
    cluster_id: str = found.cluster_id
    return cluster_id


def write_controller(broker_id: int | None, broker_epoch: int | None) -> bytes:
    return dump(_CONTROLLER.write(_Controller(broker_id, broker_epoch)))


def write_pointer(pointer: SnapshotPointer) -> bytes:
    return dump(_POINTER.write(pointer))


def read_pointer(content: bytes) -> SnapshotPointer:
    pointer: SnapshotPointer = _read(_POINTER, SNAPSHOT, content)
    return pointer


def write_registration(registration: Registration) -> bytes:
    """EntryTooLarge if the servers might not accept it."""
    content = dump(_REGISTRATION.write(registration))
    if len(content) > ENTRY_BYTES_MAX:
        raise EntryTooLarge(len(content))
    return content


def read_registration(path: str, content: bytes) -> Registration:
    registration: Registration = _read(_REGISTRATION, path, content)
    return registration


def write_entry(controller_epoch: int, entry: bytes) -> bytes:
    """`entry` is of `entry_codec`."""
    return b"%d\n%b" % (controller_epoch, entry)


def read_entry(path: str, content: bytes) -> tuple[Record, ...]:
    epoch, separator, entry = content.partition(b"\n")
    if not (separator and epoch.isdigit()):
        raise CorruptEntry(path, "no controller epoch before the records")
    return read_records(path, entry)


def read_records(path: str, content: bytes) -> tuple[Record, ...]:
    try:
        return decode(content)
    except CorruptEntry as error:
        raise CorruptEntry(path, str(error)) from None


def _read(codec: JsonCodec, path: str, content: bytes) -> Any:
    try:
        return codec.read(parse(content))
    except JsonMismatch as mismatch:
        raise CorruptEntry(path, str(mismatch)) from None
