"""Which of several log directories holds which partition, noted in the one with the metadata.

A partition's directory is written down before its log is made there, and that is durable with the
log's first flush, as all that the log stands on. At a start a partition whose directory is missing
(failed, not mounted, no longer in `log.dirs`) is offline, and never taken for an empty one. Logs in
the directory with the metadata are not written down: without it there is no broker.

The file is rewritten at a start and appended to afterwards, a JSON object per line:

    {"directory":"<id>","path":"/disk2/ottla"}
    {"topic_id":"<id>","partition":3,"directory":"<id>"}
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ottla.errors import StorageError
from ottla.protocol.primitives import Uuid
from ottla.seams.files import File, Files, read_file, replace_file, write_all
from ottla.storage.directory.checkpoint_files import META_PROPERTIES
from ottla.storage.directory.checkpoint_format import Line, lines_of
from ottla.storage.directory.full_disk import FULL

FILE_NAME = "log-directories"
_FILE_BYTES_MAX = 256 << 20

# The directory of partitions that may be in any of those that failed before this file was begun.
UNKNOWN = "?"

# A topic's id and a partition's index.
Placed = tuple[Uuid, int]


class Placements:
    """What the file in `home` says, and the way to say more. CorruptLog if it is garbled."""

    def __init__(self, files: Files, home: str) -> None:
        self.home = home
        self.path = f"{home}/{FILE_NAME}"
        # Paths of directories by their ids, and ids of directories by partition.
        self.directories: dict[str, str] = {}
        self.partitions: dict[Placed, str] = {}
        self._files = files
        self._file: File | None = None
        self._size = 0
        self.is_there = files.exists(self.path)
        if self.is_there:
            self._read(read_file(files, self.path, _FILE_BYTES_MAX))

    def why_vanished(self, path: str) -> str | None:
        """Why a directory must not be begun anew: it was in use, and there is no trace of that."""
        known = next((each for each, at in self.directories.items() if at == path), None)
        if known is None or self._files.exists(f"{path}/{META_PROPERTIES}"):
            return None
        return (
            f"it was log directory {known} and is empty now: is its disk mounted?"
            f" To begin it anew, remove its line from {self.path}"
        )

    def lost(self, opened: Mapping[str, str]) -> set[Placed]:
        """The partitions whose directory is not among those that were opened: paths by ids."""
        there = self._there(opened)
        return {each for each, directory in self.partitions.items() if directory not in there}

    def _there(self, opened: Mapping[str, str]) -> set[str]:
        unknown = {path for each, path in self.directories.items() if each.startswith(UNKNOWN)}
        return {*opened, UNKNOWN} if unknown <= {*opened.values()} else {*opened}

    def begin(
        self,
        opened: Mapping[str, str],
        found: Mapping[Placed, str],
        *,
        failed: Iterable[str],
        guessed: Iterable[Placed],
        is_known: Callable[[Placed], bool],
    ) -> None:
        """A start has opened these directories and found these logs in them. Durable on return.

        What is known of missing directories is kept, as long as somebody may ask for it. What is
        `guessed` to be in those that `failed` is written down, too.
        """
        there = self._there(opened)
        partitions = {
            each: directory
            for each, directory in self.partitions.items()
            if directory not in there and each not in found and is_known(each)
        }
        partitions |= dict.fromkeys(guessed, UNKNOWN)
        if partitions and UNKNOWN in partitions.values():
            self.directories |= {f"{UNKNOWN}{path}": path for path in failed}
        paths, wanted = {*failed}, {*partitions.values()}
        directories = {
            each: path
            for each, path in self.directories.items()
            if each in wanted
            or (each.startswith(UNKNOWN) and UNKNOWN in wanted)
            or (each not in opened and path in paths and not each.startswith(UNKNOWN))
        }
        self.directories = {**directories, **opened}
        self.partitions = {**partitions, **found}
        content = b"".join(
            [
                *(_directory_line(each, self.directories[each]) for each in self.directories),
                *(_partition_line(each, self.partitions[each]) for each in self.partitions),
            ]
        )
        # Even if it says the same: what a dead process noted may be in the page cache alone.
        replace_file(self._files, self.path, content)
        self.is_there = True
        self._size = len(content)

    def note(self, placed: Placed, directory: str) -> None:
        """A log is about to be made in this directory. The log's first flush makes it durable.

        OSError if the disk is full, StorageError if it failed.
        """
        if self.partitions.get(placed) == directory:
            return
        line = _partition_line(placed, directory)
        try:
            if self._file is None:
                self._file = self._files.open(self.path)
            write_all(self._file, self._size, [line])
        except OSError as error:
            if error.errno in FULL:
                raise
            raise StorageError(f"{self.path}: {error}") from error
        self._size += len(line)
        self.partitions[placed] = directory

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self, content: bytes) -> None:
        # What is behind the last line feed was never acknowledged.
        whole = content[: content.rfind(b"\n") + 1]
        lines = list(lines_of(whole, self.path))
        for number, line in enumerate(lines, start=1):
            try:
                self._take(json.loads(line.text), line)
            except ValueError:
                if number < len(lines):
                    raise line.corrupt(f"{line.text[:40]!r} is no JSON") from None

    def _take(self, found: Any, line: Line) -> None:
        match found:
            case {"directory": str(directory), "path": str(path)}:
                self.directories[directory] = path
            case {"directory": str(directory), "partition": int(index), "topic_id": str(topic)}:
                self.partitions[line.topic_id(topic), index] = directory
            case _:
                raise line.corrupt("neither a directory nor a partition")


def _directory_line(directory: str, path: str) -> bytes:
    return _line({"directory": directory, "path": path})


def _partition_line(placed: Placed, directory: str) -> bytes:
    topic_id, index = placed
    return _line({"topic_id": str(topic_id), "partition": index, "directory": directory})


def _line(found: dict[str, Any]) -> bytes:
    return json.dumps(found, separators=(",", ":")).encode() + b"\n"
