"""The text format of Kafka's checkpoint files.

The first line is the version (always 0), the second the number of entries. Each further line is an
entry, with spaces between its fields.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.errors import CorruptLog

VERSION = 0
INTEGER_MAX = 2**63 - 1

# Stricter than int(): no sign, no blanks, no underscores, no digits of other scripts.
_INTEGER = re.compile(r"[0-9]{1,19}", re.ASCII)


class Line(NamedTuple):
    """One line of a checkpoint file, and its place."""

    path: str
    number: int
    position: int
    text: str

    def corrupt(self, reason: str) -> CorruptLog:
        return CorruptLog(self.path, self.position, f"line {self.number}: {reason}")

    def integer(self, text: str) -> int:
        """A field as a non-negative integer. CorruptLog if it is not one."""
        if not _INTEGER.fullmatch(text) or int(text) > INTEGER_MAX:
            raise self.corrupt(f"{text[:40]!r} is no number")
        return int(text)

    def fields(self, count: int) -> list[str]:
        found = self.text.split(" ")
        if len(found) != count:
            raise self.corrupt(f"{count} fields expected, {len(found)} found")
        return found


def lines_of(content: bytes, path: str) -> Iterator[Line]:
    """The lines of a text file. Text behind the last line feed is a line, too."""
    position = 0
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line or position < len(content):
            text = line.decode("utf-8", errors="replace")
            yield Line(path, number, position, text)
        position += len(line) + 1


def encode_entries(entries: Iterable[str]) -> bytes:
    """The whole file for these entries, byte for byte as Kafka writes it."""
    lines = list(entries)
    return "".join(f"{line}\n" for line in (VERSION, len(lines), *lines)).encode()


def decode_entries(content: bytes, path: str) -> list[Line]:
    """The entries of a file. CorruptLog if version or count are wrong.

    An empty file has no entries, as in Kafka, whose files a power loss may leave empty.
    """
    lines = list(lines_of(content, path))
    if not lines:
        return []
    version = lines[0].integer(lines[0].text)
    if version != VERSION:
        raise lines[0].corrupt(f"version {version}, only {VERSION} is known")
    if len(lines) == 1:
        raise lines[0].corrupt("the file ends before the number of entries")
    entries = lines[2:]
    count = lines[1].integer(lines[1].text)
    if count != len(entries):
        raise lines[1].corrupt(f"{count} entries announced, {len(entries)} found")
    return entries
