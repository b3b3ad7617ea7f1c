"""Checks what the metadata stores told their brokers against the order of all transactions.

Only the simulated ZooKeeper knows that order: which controller epoch was the newest at each write.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.metadata.records import Record
from ottla.metadata.zookeeper.layout import (
    CONTROLLER_EPOCH,
    LOG,
    SNAPSHOT,
    read_entry,
    read_number,
    read_pointer,
)
from ottla.metadata.zookeeper.znodes import Create, SetData
from tests.sim.ensemble.tree import Transaction

ENTRY_PATH = re.compile(rf"{LOG}/e(\d+)")


class MetadataLogBroken(AssertionError):
    """The metadata log is not what the stores told their brokers."""


class WrittenEntry(NamedTuple):
    """An entry, the epoch of its writer, and the controller epoch when it was written."""

    offset: int
    content: bytes
    records: tuple[Record, ...]
    writer_epoch: int
    controller_epoch: int


class SavedSnapshot(NamedTuple):
    """The offset of a snapshot, and a controller epoch."""

    offset: int
    controller_epoch: int


@dataclass
class StoreClaims:
    """What the stores have told their brokers about appends and snapshots."""

    # By offset: the epoch and the content of entries that were acknowledged.
    acknowledged: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    # The epoch and the content of entries that were refused with Fenced.
    refused: list[tuple[int, bytes]] = field(default_factory=list)
    saved: list[SavedSnapshot] = field(default_factory=list)
    # The records of decisions whose callers were told that they are committed.
    answered: list[Record] = field(default_factory=list)
    # Called with the name of a process that begins to save a snapshot.
    on_save: Callable[[str], None] = lambda _process: None

    def check(self, log: Iterable[Transaction]) -> None:
        """MetadataLogBroken."""
        entries, snapshots = _replayed(log)
        _check_entries(entries)
        _check_snapshots(snapshots)
        self._check_acknowledged(entries)
        self._check_refused(entries, snapshots)
        for saved in self.saved:
            if saved not in snapshots:
                raise MetadataLogBroken(f"{saved} was saved by a deposed controller")

    def _check_acknowledged(self, entries: list[WrittenEntry]) -> None:
        written = {entry.offset: (entry.writer_epoch, entry.content) for entry in entries}
        for offset, told in self.acknowledged.items():
            if written.get(offset) != told:
                raise MetadataLogBroken(f"entry {offset} was acknowledged, and is not in the log")
        committed = {record for entry in entries for record in entry.records}
        for record in self.answered:
            if record not in committed:
                raise MetadataLogBroken(f"a decision was answered, and is not in the log: {record}")

    def _check_refused(self, entries: list[WrittenEntry], snapshots: list[SavedSnapshot]) -> None:
        refused = set(self.refused)
        for entry in entries:
            if (
                entry.offset not in self.acknowledged
                and (entry.writer_epoch, entry.content) in refused
                and not _is_replaced(entry, snapshots)
            ):
                raise MetadataLogBroken(
                    f"entry {entry.offset} of epoch {entry.writer_epoch} was written, and its"
                    " writer was told that it was not"
                )


def _replayed(log: Iterable[Transaction]) -> tuple[list[WrittenEntry], list[SavedSnapshot]]:
    entries: list[WrittenEntry] = []
    snapshots: list[SavedSnapshot] = []
    epoch = 0
    for transaction in log:
        for operation in transaction.operations if transaction.refused is None else ():
            if not isinstance(operation, Create | SetData):
                continue
            found = ENTRY_PATH.fullmatch(operation.path)
            if found is not None:
                writer, _, content = operation.data.partition(b"\n")
                written = read_entry(operation.path, operation.data)
                entries.append(WrittenEntry(int(found[1]), content, written, int(writer), epoch))
            elif operation.path == CONTROLLER_EPOCH and isinstance(operation, SetData):
                epoch = read_number(operation.path, operation.data)
            elif operation.path == SNAPSHOT and isinstance(operation, SetData):
                snapshots.append(SavedSnapshot(read_pointer(operation.data).last_offset, epoch))
    return entries, snapshots


def _check_entries(entries: list[WrittenEntry]) -> None:
    if [entry.offset for entry in entries] != list(range(len(entries))):
        raise MetadataLogBroken("offsets of entries are missing, or were written twice")
    for entry in entries:
        if entry.writer_epoch != entry.controller_epoch:
            raise MetadataLogBroken(
                f"entry {entry.offset} was written by a deposed controller, of epoch"
                f" {entry.writer_epoch} in epoch {entry.controller_epoch}"
            )


def _check_snapshots(snapshots: list[SavedSnapshot]) -> None:
    offsets = [offset for offset, _ in snapshots]
    if offsets != sorted(set(offsets)):
        raise MetadataLogBroken(f"snapshots of {offsets} were saved in this order")


def _is_replaced(entry: WrittenEntry, snapshots: list[SavedSnapshot]) -> bool:
    """Whether a snapshot of a later controller has replaced it: then its outcome is unknown."""
    return any(offset >= entry.offset and epoch > entry.writer_epoch for offset, epoch in snapshots)
