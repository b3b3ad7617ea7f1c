"""Checks what brokers were told against the order of transactions, which only the test knows."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.metadata.records import Config, Record
from ottla.metadata.store import Entry, Loaded
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


class WrittenEntry(NamedTuple):
    """An entry, the epoch of its writer, and the controller epoch when it was written."""

    offset: int
    name: str
    writer_epoch: int
    controller_epoch: int


class Truth(NamedTuple):
    """All entries in the order in which they were committed, all elections, all snapshots."""

    entries: list[WrittenEntry]
    elections: list[int]
    snapshots: list[tuple[int, int]]

    @classmethod
    def of(cls, log: Iterable[Transaction]) -> "Truth":
        truth = cls([], [0], [])
        for transaction in log:
            if transaction.refused is None:
                for operation in transaction.operations:
                    if isinstance(operation, Create | SetData):
                        truth._note(operation)
        return truth

    def _note(self, operation: Create | SetData) -> None:
        path, content = operation.path, operation.data
        entry = ENTRY_PATH.fullmatch(path)
        if entry is not None:
            writer_epoch = int(content.partition(b"\n")[0])
            (name,) = names_of(read_entry(path, content))
            self.entries.append(WrittenEntry(int(entry[1]), name, writer_epoch, self.elections[-1]))
        elif path == CONTROLLER_EPOCH and isinstance(operation, SetData):
            self.elections.append(read_number(path, content))
        elif path == SNAPSHOT and isinstance(operation, SetData):
            self.snapshots.append((read_pointer(content).last_offset, self.elections[-1]))


def names_of(records: Iterable[Record]) -> list[str]:
    return [record.key for record in records if isinstance(record, Config)]


@dataclass
class Claims:
    """What the stores have told the brokers."""

    acknowledged: dict[int, str] = field(default_factory=dict)
    fenced: list[str] = field(default_factory=list)
    followed: dict[int, str] = field(default_factory=dict)
    loads: list[tuple[int, Loaded]] = field(default_factory=list)
    fences: list[int] = field(default_factory=list)
    broker_epochs: list[int] = field(default_factory=list)
    # The offset of each snapshot, and the epoch of the controller that saved it.
    saved: list[tuple[int, int]] = field(default_factory=list)

    def follow(self, entry: Entry) -> None:
        (name,) = names_of(entry.records)
        if self.followed.setdefault(entry.offset, name) != name:
            raise AssertionError(f"entry {entry.offset} is {name} and {self.followed}")

    def load(self, committed_before: int, loaded: Loaded) -> None:
        """`committed_before` is the last offset that was acknowledged before the load began."""
        if loaded.next_offset <= committed_before:
            raise AssertionError(f"a load ends at {loaded.next_offset}, before {committed_before}")
        self.loads.append((committed_before, loaded))
        for entry in loaded.entries:
            self.follow(entry)

    def check(self, truth: Truth) -> None:
        names = [entry.name for entry in truth.entries]
        _check_order(truth)
        for offset, name in [*self.acknowledged.items(), *self.followed.items()]:
            if offset >= len(names) or names[offset] != name:
                raise AssertionError(f"entry {offset} was {name}, and is not in the log")
        for _, loaded in self.loads:
            expected = sorted(names[: loaded.snapshot.offset + 1])
            if sorted(names_of(loaded.snapshot.records)) != expected:
                raise AssertionError(f"the snapshot of {loaded.snapshot.offset} is wrong")
        for saved in self.saved:
            if saved not in truth.snapshots:
                raise AssertionError(f"snapshot {saved} was saved by a deposed controller")
        offsets = {name: offset for offset, name in enumerate(names)}
        for name in self.fenced:
            if name in offsets and not _is_replaced(truth, truth.entries[offsets[name]]):
                raise AssertionError(f"{name} was written, and its writer told that it was not")
        if len(set(self.fences)) != len(self.fences) or not set(self.fences) <= set(
            truth.elections
        ):
            raise AssertionError(f"fences {self.fences} of elections {truth.elections}")


def _check_order(truth: Truth) -> None:
    if [entry.offset for entry in truth.entries] != list(range(len(truth.entries))):
        raise AssertionError("the offsets have gaps, or one was written twice")
    names = [entry.name for entry in truth.entries]
    if len(set(names)) != len(names):
        raise AssertionError("an entry was appended twice")
    for entry in truth.entries:
        if entry.writer_epoch != entry.controller_epoch:
            raise AssertionError(f"{entry} was written by a deposed controller")
    if truth.elections != sorted(set(truth.elections)):
        raise AssertionError(f"controller epochs {truth.elections}")
    offsets = [offset for offset, _ in truth.snapshots]
    if offsets != sorted(set(offsets)):
        raise AssertionError(f"snapshots of {offsets} were saved in this order")


def _is_replaced(truth: Truth, entry: WrittenEntry) -> bool:
    """Whether a snapshot of a later controller has replaced it: then its outcome is unknown."""
    return any(
        offset >= entry.offset and epoch > entry.writer_epoch for offset, epoch in truth.snapshots
    )
