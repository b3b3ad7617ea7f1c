"""Compares the sparse indexes of a segment with its batches.

Each check takes every batch of the segment in order, and then its end. Entries may be fewer or at
other batches than ours would be: only wrong entries are damage.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from struct import Struct
from typing import NoReturn

from ottla.cli.log.index_entries import PlacedEntry, read_entries
from ottla.cli.log.verify.damage import Effect, ShutdownState
from ottla.errors import CorruptLog
from ottla.seams.files import Files
from ottla.storage.log.batch_scan import Placed
from ottla.storage.log.index import OffsetIndex, TimeIndex


class IndexFault(Exception):
    """The first wrong entry. Later entries are not checked."""

    def __init__(self, position: int, what: str, effect: Effect = Effect.MISLEADS_LOOKUPS) -> None:
        super().__init__(what)
        self.position = position
        self.what = what
        self.effect = effect


class EntryCheck(ABC):
    """The base of both checks: reads one entry ahead, and keeps the first fault."""

    def __init__(
        self, files: Files, path: str, entry: Struct, shutdown: ShutdownState, *, must_exist: bool
    ) -> None:
        self.path = path
        self.fault: IndexFault | None = None
        self._shutdown = shutdown
        self._entries: Iterator[PlacedEntry] = iter(())
        self._ahead: PlacedEntry | None = None
        if files.exists(path):
            self._entries = read_entries(files, path, entry)
            self._guard(self._advance)
        elif must_exist:
            self.fault = IndexFault(0, "the file is missing", Effect.REBUILDS)

    def add(self, placed: Placed) -> None:
        if self.fault is None:
            self._guard(lambda: self._check(placed))

    def end(self, end_offset: int) -> None:
        """Ends the check at the segment's end offset: its base offset if it has no batches."""
        if self.fault is None:
            self._guard(lambda: self._check_end(end_offset))

    @abstractmethod
    def _check(self, placed: Placed) -> None: ...

    @abstractmethod
    def _check_end(self, end_offset: int) -> None: ...

    def _fail(self, what: str) -> NoReturn:
        raise IndexFault(self._ahead.position if self._ahead else 0, what)

    def _advance(self) -> None:
        self._ahead = next(self._entries, None)

    def _guard(self, step: Callable[[], None]) -> None:
        try:
            step()
        except IndexFault as fault:
            self.fault = fault
        except CorruptLog as damage:
            self.fault = IndexFault(damage.position, damage.reason, Effect.REBUILDS)


class OffsetCheck(EntryCheck):
    """Every entry has the position of a batch whose last offset is at most the entry's offset."""

    def __init__(
        self,
        files: Files,
        path: str,
        base_offset: int,
        shutdown: ShutdownState,
        *,
        must_exist: bool,
    ) -> None:
        self._base_offset = base_offset
        self._offset_before = base_offset - 1
        super().__init__(files, path, OffsetIndex.ENTRY, shutdown, must_exist=must_exist)

    def _check(self, placed: Placed) -> None:
        while self._ahead is not None and self._ahead.fields[1] <= placed.position:
            relative, position = self._ahead.fields
            offset = self._base_offset + relative
            if not self._shutdown.is_trusted(offset):
                self._ahead = None  # a start rebuilds the remaining entries
                return
            if position != placed.position:
                self._fail(f"no batch begins at position {position}, listed for offset {offset}")
            if not placed.header.last_offset <= offset or offset <= self._offset_before:
                self._fail(f"the batch at position {position} does not fit offset {offset}")
            self._offset_before = offset
            self._advance()

    def _check_end(self, end_offset: int) -> None:
        if self._offset_before >= end_offset:
            self._fail(f"offset {self._offset_before} is listed, the segment ends at {end_offset}")
        if self._ahead is not None:
            relative, position = self._ahead.fields
            if self._shutdown.is_trusted(self._base_offset + relative):
                self._fail(f"position {position} is after the last batch")


class TimeCheck(EntryCheck):
    """Every entry has the largest timestamp up to its offset, which is in the batch there."""

    def __init__(
        self,
        files: Files,
        path: str,
        base_offset: int,
        shutdown: ShutdownState,
        *,
        must_exist: bool,
        is_sealed: bool,
    ) -> None:
        self._base_offset = base_offset
        self._is_sealed = is_sealed
        self._largest_ms = -1
        self._listed_ms = -1
        super().__init__(files, path, TimeIndex.ENTRY, shutdown, must_exist=must_exist)

    def _check(self, placed: Placed) -> None:
        header = placed.header
        self._largest_ms = max(self._largest_ms, header.max_timestamp)
        while self._ahead is not None:
            timestamp_ms, relative = self._ahead.fields
            offset = self._base_offset + relative
            if not self._shutdown.is_trusted(offset):
                self._ahead = None  # a start rebuilds the remaining entries
                return
            if offset > header.last_offset:
                return
            if offset < header.base_offset:
                self._fail(f"offset {offset}, listed with time {timestamp_ms}, is not in the log")
            if not timestamp_ms == header.max_timestamp == self._largest_ms:
                self._fail(
                    f"offset {offset} is listed with time {timestamp_ms}, its batch has"
                    f" {header.max_timestamp} and the largest so far is {self._largest_ms}"
                )
            if timestamp_ms <= self._listed_ms:
                self._fail(f"time {timestamp_ms} follows {self._listed_ms}")
            self._listed_ms = timestamp_ms
            self._advance()

    def _check_end(self, end_offset: int) -> None:
        if self._ahead is not None:
            offset = self._base_offset + self._ahead.fields[1]
            if self._shutdown.is_trusted(offset):
                self._fail(f"offset {offset} is listed, the segment ends at {end_offset}")
        if self._is_sealed and self._listed_ms < self._largest_ms:
            self._fail(f"the largest time, {self._largest_ms}, is missing: retention uses it")
