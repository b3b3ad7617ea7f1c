"""A snapshot of the metadata as one file, replaced atomically.

A header line, then lines of records (each an entry in the format of the log), then the CRC-32C of
everything before it. `n` is the offset:

    {"format":1,"lines":1,"n":41}
    {"format":1,"records":[...]}
    crc32c 1f2e3d4c
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from crc32c import crc32c

from ottla.errors import CorruptLog
from ottla.metadata.entry_codec import CorruptEntry, decode
from ottla.metadata.json_codec import JsonMismatch, dump, object_codec, parse
from ottla.metadata.records import Record
from ottla.metadata.store import Snapshot
from ottla.metadata.values import Int16, Int64
from ottla.seams.files import Files, read_file, replace_file

FILE_NAME = "snapshot.json"
FORMAT = 1
BYTES_MAX = 1 << 30

_LAST_LINE = re.compile(rb"crc32c ([0-9a-f]{8})\n")
_LAST_LINE_BYTES = len("crc32c 00000000\n")


@dataclass(frozen=True, slots=True)
class _FirstLine:
    format: Int16
    lines: Int64
    n: Int64


_FIRST_LINE = object_codec(_FirstLine)


def write_snapshot(files: Files, directory: str, offset: int, lines: Sequence[bytes]) -> None:
    """Writes a snapshot at this offset, with the records in these entries.

    Durable on return; a crash at any time leaves the previous snapshot or this one.
    """
    first = _FirstLine(FORMAT, len(lines), offset)
    content = b"".join(b"%b\n" % line for line in (dump(_FIRST_LINE.write(first)), *lines))
    if len(content) > BYTES_MAX - _LAST_LINE_BYTES:
        raise ValueError(f"a snapshot of {len(content)} bytes where {BYTES_MAX} are allowed")
    last = b"crc32c %08x\n" % crc32c(content)
    replace_file(files, f"{directory}/{FILE_NAME}", content + last)


def read_snapshot(files: Files, directory: str) -> Snapshot | None:
    """None if there is none yet. CorruptLog if the file is damaged."""
    path = f"{directory}/{FILE_NAME}"
    if not files.exists(path):
        return None
    file = read_file(files, path, BYTES_MAX)
    content, last = file[:-_LAST_LINE_BYTES], _LAST_LINE.fullmatch(file[-_LAST_LINE_BYTES:])
    if last is None or int(last[1], 16) != crc32c(content):
        raise CorruptLog(path, len(content), "the snapshot's checksum is wrong")
    line, *lines = content.splitlines()
    position = 0
    try:
        first = _read_first_line(line, len(lines))
        records: list[Record] = []
        for following in lines:
            position += len(line) + 1
            line = following
            records += decode(line)
    except (JsonMismatch, CorruptEntry) as error:
        raise CorruptLog(path, position, str(error)) from None
    return Snapshot(first.n, tuple(records))


def _read_first_line(line: bytes, lines_found: int) -> _FirstLine:
    first: _FirstLine = _FIRST_LINE.read(parse(line))
    if first.format != FORMAT:
        raise JsonMismatch(f"format {first.format}, only {FORMAT} is known")
    if first.lines != lines_found:
        raise JsonMismatch(f"{first.lines} lines of records announced, {lines_found} found")
    return first
