"""`ottla log dump`: shows the content of log files, and changes nothing."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.cli.log.dump_rows import batch_row, producer_row, record_row
from ottla.cli.log.index_entries import read_entries
from ottla.cli.log.paths import LogPath, LogPathKind, locked_for_reading, partition_paths
from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.output import Row, RowWriter, say
from ottla.errors import CorruptLog, PeerError
from ottla.protocol.batch import records
from ottla.protocol.primitives import OFFSET_MAX
from ottla.seams.files import Files, read_file
from ottla.storage.log import leader_epochs
from ottla.storage.log.batch_scan import SCAN_WINDOW_BYTES, BatchWalk, Placed
from ottla.storage.log.index import OffsetIndex, TimeIndex, TransactionIndex
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.log.segment import LOG, segment_path
from ottla.storage.opening.recovery import segment_offsets
from ottla.storage.producers import snapshot_format

DAMAGE = "damage"


@dataclass(frozen=True, slots=True)
class Selection:
    """The offsets to show, both ends included."""

    first_offset: int = 0
    last_offset: int = OFFSET_MAX
    with_records: bool = False

    def has(self, offset: int) -> bool:
        return self.first_offset <= offset <= self.last_offset


def dump(files: Files, paths: Sequence[str], selection: Selection, writer: RowWriter) -> ExitCode:
    """Writes the rows of all paths. Returns FAILED if not all of them could be read.

    A row of the kind `damage` replaces a part that cannot be read.
    """
    log_paths = [LogPath.at(files, path) for path in paths]
    exit_code = ExitCode.OK
    with locked_for_reading(files, (log_path.log_directory for log_path in log_paths)):
        for log_path in log_paths:
            for path in _files_of(files, log_path, selection):
                for row in _rows(files, path, selection):
                    writer.write(row)
                    if row["kind"] == DAMAGE:
                        exit_code = ExitCode.FAILED
        writer.close()
    if exit_code:
        say("some parts could not be read: `ottla log verify` reports the damage")
    return exit_code


def _files_of(files: Files, log_path: LogPath, selection: Selection) -> Iterator[str]:
    """The file itself, or the segments of one partition or of all partitions."""
    match log_path.kind:
        case LogPathKind.FILE:
            yield log_path.path
        case LogPathKind.PARTITION:
            yield from _segments_of(files, log_path.path, selection)
        case LogPathKind.LOG_DIRECTORY:
            for path in partition_paths(files, log_path.path):
                yield from _segments_of(files, path, selection)


def _segments_of(files: Files, directory: str, selection: Selection) -> Iterator[str]:
    """The `.log` files that may hold selected offsets."""
    base_offsets = segment_offsets(files, directory)
    for base_offset, following in zip(base_offsets, [*base_offsets[1:], None], strict=True):
        ends_before = following is not None and following <= selection.first_offset
        if not ends_before and base_offset <= selection.last_offset:
            yield segment_path(directory, base_offset, LOG)


class _Named(NamedTuple):
    """The parts of a file name: `<base offset>.<kind>`, optionally with a suffix (`.deleted`)."""

    base_offset: int
    kind: str


def _named(path: str) -> _Named:
    name = os.path.basename(path)
    if name == leader_epochs.FILE_NAME:
        return _Named(0, name)
    base_offset, _, kind = name.partition(".")
    kind = kind.partition(".")[0]
    if not base_offset.isdecimal() or kind not in _READERS:
        raise Failure(
            f"{path} cannot be shown",
            why=f"its name is none of N.log, N.{', N.'.join(list(_READERS)[1:-1])}"
            f" and {leader_epochs.FILE_NAME}",
            exit_code=ExitCode.USAGE,
        )
    return _Named(int(base_offset), kind)


def _rows(files: Files, path: str, selection: Selection) -> Iterator[Row]:
    base_offset, kind = _named(path)
    try:
        yield from _READERS[kind](files, path, base_offset, selection)
    except CorruptLog as damage:
        yield _damage_row(path, damage.position, damage.reason)


def _batches(files: Files, path: str, _: int, selection: Selection) -> Iterator[Row]:
    file = files.open(path, writable=False)
    try:
        walk = BatchWalk(file, 0, file.size(), SCAN_WINDOW_BYTES)
        for placed in walk:
            if placed.header.base_offset > selection.last_offset:
                return
            if placed.header.last_offset >= selection.first_offset:
                crc_is_valid = walk.crc_is_valid(placed)
                yield batch_row(path, placed, crc_is_valid=crc_is_valid)
                if selection.with_records:
                    yield from _records(walk, placed, selection, crc_is_valid=crc_is_valid)
    finally:
        file.close()


def _records(
    walk: BatchWalk, placed: Placed, selection: Selection, *, crc_is_valid: bool
) -> Iterator[Row]:
    """The records of a batch. Unreadable records do not affect later batches."""
    if not crc_is_valid:
        reason = "the records are not shown: the batch has a wrong checksum"
        yield _damage_row(walk.path, placed.position, reason)
        return
    try:
        for record in records(walk.batch(placed)):
            if selection.has(record.offset):
                yield record_row(walk.path, placed.header, record)
    except PeerError as error:
        yield _damage_row(walk.path, placed.position, str(error))


def _damage_row(path: str, position: int, reason: str) -> Row:
    return {"kind": DAMAGE, "file": path, "position": position, "reason": reason}


def _offset_index(files: Files, path: str, base_offset: int, selection: Selection) -> Iterator[Row]:
    for _, (relative, position) in read_entries(files, path, OffsetIndex.ENTRY):
        offset = base_offset + relative
        if selection.has(offset):
            yield {"kind": "offset_index", "file": path, "offset": offset, "position": position}


def _time_index(files: Files, path: str, base_offset: int, selection: Selection) -> Iterator[Row]:
    for _, (timestamp, relative) in read_entries(files, path, TimeIndex.ENTRY):
        offset = base_offset + relative
        if selection.has(offset):
            yield {"kind": "time_index", "file": path, "timestamp": timestamp, "offset": offset}


def _aborted(files: Files, path: str, _: int, selection: Selection) -> Iterator[Row]:
    for _, fields in read_entries(files, path, TransactionIndex.ENTRY):
        version, producer_id, first_offset, last_offset, last_stable_offset = fields
        if last_offset >= selection.first_offset and first_offset <= selection.last_offset:
            yield {
                "kind": "aborted_transaction",
                "file": path,
                "version": version,
                "producer_id": producer_id,
                "first_offset": first_offset,
                "last_offset": last_offset,
                "last_stable_offset": last_stable_offset,
            }


def _producers(files: Files, path: str, _: int, __: Selection) -> Iterator[Row]:
    for row in snapshot_format.rows(read_file(files, path), path):
        yield producer_row(path, row)


def _epochs(files: Files, path: str, _: int, __: Selection) -> Iterator[Row]:
    for epoch, start_offset in LeaderEpochs.decode(read_file(files, path), path).entries:
        yield {"kind": "epoch", "file": path, "epoch": epoch, "start_offset": start_offset}


_Reader = Callable[[Files, str, int, Selection], Iterator[Row]]

# By the part of a file name after the base offset.
_READERS: dict[str, _Reader] = {
    "log": _batches,
    "index": _offset_index,
    "timeindex": _time_index,
    "txnindex": _aborted,
    "snapshot": _producers,
    leader_epochs.FILE_NAME: _epochs,
}
