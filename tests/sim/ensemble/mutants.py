"""Bugs to plant in the metadata store, and the failure by which each is found."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from ottla.metadata.zookeeper import entries, registrations, snapshots
from ottla.metadata.zookeeper.layout import CONTROLLER_EPOCH
from ottla.metadata.zookeeper.term import Term
from ottla.metadata.zookeeper.znodes import (
    ANY_VERSION,
    Check,
    ConnectionLost,
    Operation,
    Refused,
    Znodes,
    patient,
)


class Mutant(NamedTuple):
    plant: Callable[[pytest.MonkeyPatch], None]
    failure: str
    seeds: range = range(40)

    @property
    def name(self) -> str:
        return self.plant.__name__


def unknown_outcome_is_a_failure(patch: pytest.MonkeyPatch) -> None:
    async def give_up(znodes: Znodes, term: Term, offset: int, content: bytes) -> bool:
        raise term.fenced()

    patch.setattr(entries, "_is_committed", give_up)


def unknown_outcome_is_a_success(patch: pytest.MonkeyPatch) -> None:
    async def hope(znodes: Znodes, term: Term, offset: int, content: bytes) -> bool:
        return True

    patch.setattr(entries, "_is_committed", hope)


def lost_append_is_written_at_the_next_offset(patch: pytest.MonkeyPatch) -> None:
    """It believes the head that it finds, and not that the entry there is its own."""
    find, append = entries._is_committed, entries.append

    async def append_anew(znodes: Znodes, term: Term, entry: bytes) -> int:
        async def look(znodes: Znodes, term: Term, offset: int, content: bytes) -> bool:
            if await find(znodes, term, offset, content):
                term.head = offset
                term.head_version += 1
                raise _TryAgain
            return False

        patch.setattr(entries, "_is_committed", look)
        while True:
            try:
                return await append(znodes, term, entry)
            except _TryAgain:
                continue

    patch.setattr(entries, "append", append_anew)


class _TryAgain(Exception):
    pass


def appends_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    def check(path: str, version: int) -> Check:
        return Check(path, ANY_VERSION)

    patch.setattr(entries, "Check", check)


def snapshots_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    async def unfenced(znodes: Znodes, term: Term, *operations: Operation) -> bool:
        try:
            await znodes.multi(operations)
        except (ConnectionLost, Refused):
            return False
        return True

    read_state = snapshots._read_state

    async def unchecked(znodes: Znodes, term: Term) -> Any:
        node = await znodes.get(CONTROLLER_EPOCH)
        newest = term.epoch_version if node is None else node.version
        return await read_state(znodes, replace(term, epoch_version=newest))

    patch.setattr(snapshots, "try_fenced", unfenced)
    patch.setattr(snapshots, "_read_state", unchecked)


def reads_are_not_synced(patch: pytest.MonkeyPatch) -> None:
    async def stale(znodes: Znodes, read: Callable[[], Awaitable[Any]]) -> Any:
        return await patient(read)

    patch.setattr(entries, "fresh", stale)


def entries_are_deleted_before_the_pointer_is_set(patch: pytest.MonkeyPatch) -> None:
    write, delete = snapshots._write, snapshots._delete_superseded

    async def early(znodes: Znodes, term: Term, operation: Any) -> None:
        if operation.path == snapshots.SNAPSHOT:
            await delete(znodes, term, snapshots.read_pointer(operation.data))
        await write(znodes, term, operation)

    patch.setattr(snapshots, "_write", early)


def end_of_a_registration_is_not_noticed(patch: pytest.MonkeyPatch) -> None:
    async def never(znodes: Znodes, registered: Any) -> None:
        await asyncio.Event().wait()

    patch.setattr(registrations, "until_ended", never)


MUTANTS = (
    Mutant(unknown_outcome_is_a_failure, "its writer told that it was not"),
    Mutant(unknown_outcome_is_a_success, "was given twice"),
    Mutant(lost_append_is_written_at_the_next_offset, "appended twice"),
    Mutant(appends_are_not_fenced, "was written by a deposed controller"),
    Mutant(snapshots_are_not_fenced, "saved by a deposed controller"),
    Mutant(reads_are_not_synced, "a load ends at"),
    Mutant(entries_are_deleted_before_the_pointer_is_set, "missing"),
    Mutant(end_of_a_registration_is_not_noticed, "are registered, and not"),
)
