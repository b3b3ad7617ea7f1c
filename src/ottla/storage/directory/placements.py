"""The file that says which log directory has which partition. It is beside the metadata.

A partition is added before its log is created in another directory; the first flush of the log
makes the entry durable. At a start a partition whose directory is missing (failed, not mounted, no
longer in `log.dirs`) is offline, and never counts as empty. Logs in the directory with the metadata
have no entry: without that directory no broker starts.

The file is rewritten at a start and appended to afterwards, with one JSON object per line:

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

# Stands for a partition that may be in any directory that failed before this file existed.
UNKNOWN = "?"

# Topic id and partition index.
PartitionKey = tuple[Uuid, int]


class Placements:
    """The content of the file in `home`, and additions to it. CorruptLog if it is garbled."""

    def __init__(self, files: Files, home: str) -> None:
        self.home = home
        self.path = f"{home}/{FILE_NAME}"
        # Directory id to path, and partition to directory id.
        self.directories: dict[str, str] = {}
        self.partitions: dict[PartitionKey, str] = {}
        self._files = files
        self._file: File | None = None
        self._size = 0
        self.is_there = files.exists(self.path)
        if self.is_there:
            self._read(read_file(files, self.path, _FILE_BYTES_MAX))

    def why_vanished(self, path: str) -> str | None:
        """The reason not to use a directory as new: it had logs, and is empty now."""
        known = next((each for each, at in self.directories.items() if at == path), None)
        if known is None or self._files.exists(f"{path}/{META_PROPERTIES}"):
            return None
        return (
            f"it was log directory {known} and is empty now: is its disk mounted?"
            f" To begin it anew, remove its line from {self.path}"
        )

    def lost(self, opened: Mapping[str, str]) -> set[PartitionKey]:
        """The partitions whose directory was not opened. `opened` maps directory ids to paths."""
        there = self._there(opened)
        return {each for each, directory in self.partitions.items() if directory not in there}

    def _there(self, opened: Mapping[str, str]) -> set[str]:
        unknown = {path for each, path in self.directories.items() if each.startswith(UNKNOWN)}
        return {*opened, UNKNOWN} if unknown <= {*opened.values()} else {*opened}

    def rewrite(
        self,
        opened: Mapping[str, str],
        found: Mapping[PartitionKey, str],
        *,
        failed: Iterable[str],
        guessed: Iterable[PartitionKey],
        is_known: Callable[[PartitionKey], bool],
    ) -> None:
        """Rewrites the file after a start opened directories and found logs. Durable on return.

        Entries of missing directories stay for partitions that `is_known` accepts. Partitions that
        may be in a directory that `failed` (`guessed`) are added.
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
        # Even without a change: earlier entries may be in the page cache only.
        replace_file(self._files, self.path, content)
        self.is_there = True
        self._size = len(content)

    def add(self, partition: PartitionKey, directory: str) -> None:
        """Adds a partition before its log is created. The log's first flush makes it durable.

        OSError if the disk is full, StorageError if it failed.
        """
        if self.partitions.get(partition) == directory:
            return
        line = _partition_line(partition, directory)
        try:
            if self._file is None:
                self._file = self._files.open(self.path)
            write_all(self._file, self._size, [line])
        except OSError as error:
            if error.errno in FULL:
                raise
            raise StorageError(f"{self.path}: {error}") from error
        self._size += len(line)
        self.partitions[partition] = directory

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self, content: bytes) -> None:
        # A line without a line feed was never acknowledged.
        whole = content[: content.rfind(b"\n") + 1]
        lines = list(lines_of(whole, self.path))
        for number, line in enumerate(lines, start=1):
            if "\0" in line.text:
                # A power loss left a hole: this line was never durable, and neither was its log.
                continue
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


def _partition_line(partition: PartitionKey, directory: str) -> bytes:
    topic_id, index = partition
    return _line({"topic_id": str(topic_id), "partition": index, "directory": directory})


def _line(found: dict[str, Any]) -> bytes:
    return json.dumps(found, separators=(",", ":")).encode() + b"\n"
