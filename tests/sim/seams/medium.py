"""The state of one simulated disk: its tree of names, its space, its faults, its trace."""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.sim.seams.contents import FileNode
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.faults import Faults, Operation
from tests.sim.seams.names import DirectoryNode, NameJournal, Node, adopt_durable
from tests.sim.seams.trace import Trace

NAME_BYTES_MAX = 255
PATH_BYTES_MAX = 4095


def failure(code: int, path: str | None = None, target: str | None = None) -> OSError:
    """The OSError that the kernel's answer `code` becomes: the same class, text and file names."""
    message = os.strerror(code)
    if path is None:
        return OSError(code, message)
    if target is None:
        return OSError(code, message, path)
    return OSError(code, message, path, None, target)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a name is, or would be: the directories on the way, root first, and the last name.

    The root itself has no name and no directory around it: its name is empty.
    """

    directories: tuple[DirectoryNode, ...]
    name: str

    @property
    def directory(self) -> DirectoryNode:
        return self.directories[-1]

    @property
    def node(self) -> Node | None:
        return self.directory.entries.get(self.name) if self.name else self.directory


class Medium:
    def __init__(self, faults: Faults, trace: Trace, capacity_bytes: int) -> None:
        self.faults = faults
        self.trace = trace
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self.root = DirectoryNode(0)
        self.journal = NameJournal()
        self.pages_waited_for = 0
        self._node_count = 0

    @property
    def free_bytes(self) -> int:
        return max(0, self.capacity_bytes - self.used_bytes)

    def new_file(self) -> FileNode:
        self._node_count += 1
        return FileNode(self._node_count)

    def new_directory(self) -> DirectoryNode:
        self._node_count += 1
        return DirectoryNode(self._node_count)

    def strike(self, operation: Operation, path: str) -> int:
        """The errno of the fault that befalls this operation, or 0."""
        code = self.faults.error_for(operation, path)
        if code:
            self.trace.fold(f"fault {operation} {path} {code}")
        return code

    def locate(self, path: str, *, blamed: tuple[str, str] | None = None) -> Place:
        """OSError if a directory on the way is missing, or is none; the last name may be free.

        The error names `path`, or the two paths of the operation that is to blame.
        """
        named = blamed if blamed is not None else (path, None)
        names = _names_of(path)
        directories = [self.root]
        for name in names[:-1]:
            node = directories[-1].entries.get(name)
            if node is None:
                raise failure(_too_long(name) or errno.ENOENT, *named)
            if not isinstance(node, DirectoryNode):
                raise failure(errno.ENOTDIR, *named)
            directories.append(node)
        last = names[-1] if names else ""
        if _too_long(last):
            raise failure(errno.ENAMETOOLONG, *named)
        return Place(tuple(directories), last)

    def find(self, path: str) -> Node:
        node = self.locate(path).node
        if node is None:
            raise failure(errno.ENOENT, path)
        return node

    def find_directory(self, path: str) -> DirectoryNode:
        node = self.find(path)
        if not isinstance(node, DirectoryNode):
            raise failure(errno.ENOTDIR, path)
        return node

    def write(self, node: FileNode, position: int, written: bytes) -> int:
        """As much as fits; 0 if nothing does."""
        growth = max(0, position + len(written) - len(node.content.stored))
        missing = growth - self.free_bytes
        if missing > 0:
            written = written[: max(0, len(written) - missing)]
        if written:
            stored_before = len(node.content.stored)
            node.write(position, written)
            self.used_bytes += len(node.content.stored) - stored_before
        return len(written)

    def truncate(self, node: FileNode, size: int) -> None:
        stored_before = len(node.content.stored)
        node.truncate(size)
        self.used_bytes += len(node.content.stored) - stored_before

    def unlink(self, node: Node | None) -> None:
        """The node has lost its name; a file's space is free once nobody has it open either."""
        if isinstance(node, FileNode):
            node.linked = False
            self._free_if_unused(node)

    def release(self, node: FileNode) -> None:
        """One handle on the file is gone."""
        node.handles -= 1
        self._free_if_unused(node)

    def restart(self) -> list[FileNode]:
        """The names are those that survived; the files that have one, in order."""
        return adopt_durable(self.root)

    def copied(self, directory: DirectoryNode) -> DirectoryNode:
        """A copy of all that is in it, as reads see it, all of it durable."""
        copy = self.new_directory()
        for name, node in directory.entries.items():
            if isinstance(node, DirectoryNode):
                found: Node = self.copied(node)
            else:
                found = self.new_file()
                found.settle(node.content.copy())
            copy.entries[name] = copy.durable[name] = found
        return copy

    def replace(self, root: DirectoryNode) -> None:
        """The medium holds a copy of this instead. Nobody may have a file open."""
        self.root = self.copied(root)
        self.journal = NameJournal()
        self.used_bytes = sum(len(node.content.stored) for _, node in self.files())

    def files(self) -> Iterator[tuple[str, FileNode]]:
        """Every file with its path, sorted by name in each directory."""
        return _walk("", self.root)

    def flip_bit(self, entropy: SimEntropy, pattern: str, position: int | None) -> tuple[str, int]:
        """Damages one bit of a file that matches: at `position`, or at any byte of any of them."""
        needed = 0 if position is None else position
        candidates = [
            (path, node)
            for path, node in self.files()
            if len(node.content.stored) > needed and fnmatchcase(path, pattern)
        ]
        if not candidates:
            raise failure(errno.ENOENT, pattern)
        path, node = entropy.pick(candidates)
        if position is None:
            position = entropy.below(len(node.content.stored))
        bit = entropy.below(8)
        self.trace.fold(f"flip {path} {position} {bit}")
        node.flip_bit(position, bit)
        return path, position

    def _free_if_unused(self, node: FileNode) -> None:
        if not node.linked and not node.handles:
            self.used_bytes -= len(node.content.stored)


def _names_of(path: str) -> list[str]:
    if "\0" in path:
        raise ValueError("embedded null byte")
    if not path.startswith("/"):
        raise ValueError(f"an absolute path is expected: {path!r}")
    if len(path) * 4 > PATH_BYTES_MAX and len(os.fsencode(path)) > PATH_BYTES_MAX:
        raise failure(errno.ENAMETOOLONG, path)
    names = [name for name in path.split("/") if name]
    if "." in names or ".." in names:
        raise ValueError(f"a path without . and .. is expected: {path!r}")
    return names


def _too_long(name: str) -> int:
    too_long = len(name) * 4 > NAME_BYTES_MAX and len(os.fsencode(name)) > NAME_BYTES_MAX
    return errno.ENAMETOOLONG if too_long else 0


def _walk(prefix: str, directory: DirectoryNode) -> Iterator[tuple[str, FileNode]]:
    for name, node in sorted(directory.entries.items(), key=lambda entry: entry[0]):
        path = f"{prefix}/{name}"
        if isinstance(node, DirectoryNode):
            yield from _walk(path, node)
        else:
            yield path, node
