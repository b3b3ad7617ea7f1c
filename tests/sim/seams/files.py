"""The `Files` of one simulated process, on a disk that other processes may share."""

import errno
from collections.abc import Sequence

from ottla.seams.files import Buffer
from tests.sim.seams.contents import FileNode
from tests.sim.seams.faults import Operation
from tests.sim.seams.medium import Medium, Place, failure
from tests.sim.seams.names import DirectoryNode, NameChange

PARTS_MAX = 1024
"""Linux takes this many parts in one write, and refuses more (IOV_MAX)."""
DIRECTORY_BYTES = 4096


class SimFile:
    __slots__ = ("_files", "_medium", "_node", "_writable", "path")

    def __init__(self, files: "SimFiles", path: str, node: FileNode, *, writable: bool) -> None:
        self.path = path
        self._files = files
        self._medium = files.medium
        self._node: FileNode | None = node
        self._writable = writable

    def fileno(self) -> int:
        raise OSError(errno.ENOTSUP, "a simulated file has no descriptor", self.path)

    def size(self) -> int:
        return self._open_node().content.size

    def read_at(self, position: int, size: int) -> bytes:
        """Whoever reads cold pages waits for them; they are counted."""
        node = self._open_node()
        self._medium.pages_waited_for += node.warm(position, size)
        return self._read(node, position, size)

    def _read(self, node: FileNode, position: int, size: int) -> bytes:
        self._medium.trace.fold(f"read {self.path} {position} {size}")
        if position < 0 or size < 0:
            raise failure(errno.EINVAL)
        self._strike("read")
        found = node.content.read(position, size)
        rotten = self._medium.faults.rotten_bit(len(found))
        if rotten is None:
            return found
        self._medium.trace.fold(f"rot {self.path} {rotten}")
        node.flip_bit(position + rotten // 8, rotten % 8)
        return node.content.read(position, size)

    def read_warm(self, position: int, size: int) -> bytes | None:
        node = self._open_node()
        if node.is_cold(position, size) or self._medium.faults.is_cold():
            return None
        return self._read(node, position, size)

    def is_warm(self, position: int) -> bool:
        node = self._open_node()
        return not (node.is_cold(position, 1) or self._medium.faults.is_cold())

    def warm(self, position: int, size: int) -> None:
        """For a thread to call: nobody waits."""
        node = self._open_node()
        self._read(node, position, size)
        node.warm(position, size)

    def write_at(self, position: int, parts: Sequence[Buffer]) -> int:
        node = self._open_node()
        if not self._writable:
            raise failure(errno.EBADF)
        if position < 0 or len(parts) > PARTS_MAX:
            raise failure(errno.EINVAL)
        written = b"".join(parts)
        self._medium.trace.fold(f"write {self.path} {position}", written)
        self._strike("write")
        taken = self._medium.faults.bytes_taken(self.path, len(written))
        taken = self._medium.write(node, position, written[:taken])
        if written and not taken:
            raise failure(errno.ENOSPC)
        return taken

    def truncate(self, size: int) -> None:
        node = self._open_node()
        self._medium.trace.fold(f"truncate {self.path} {size}")
        if size < 0 or not self._writable:
            raise failure(errno.EINVAL)
        self._strike("truncate")
        self._medium.truncate(node, size)

    def sync(self) -> None:
        node = self._open_node()
        self._medium.trace.fold(f"sync {self.path}")
        code = self._medium.strike("sync", self.path)
        if code:
            node.fail_sync()
            raise failure(code)
        node.sync()

    def start_writeback(self, position: int, size: int) -> None:
        """Only noted: what was not synced may survive a power loss in any case."""
        self._open_node()
        self._medium.trace.fold(f"writeback {self.path} {position} {size}")
        self._files.writebacks.append((self.path, position, size))

    def close(self) -> None:
        node, self._node = self._node, None
        if node is not None:
            self._files.forget(self)
            self._medium.release(node)

    def _open_node(self) -> FileNode:
        if self._node is None:
            raise failure(errno.EBADF)
        return self._node

    def _strike(self, operation: Operation) -> None:
        code = self._medium.strike(operation, self.path)
        if code:
            raise failure(code)


class SimLock:
    __slots__ = ("_files", "_node", "path")

    def __init__(self, files: "SimFiles", path: str, node: FileNode) -> None:
        self.path = path
        self._files = files
        self._node: FileNode | None = node
        node.locked = True

    def is_in_place(self) -> bool:
        return self._node is not None and self._files.is_at(self.path, self._node)

    def release(self) -> None:
        node, self._node = self._node, None
        if node is not None:
            node.locked = False
            self._files.forget(self)
            self._files.medium.release(node)


class SimFiles:
    """What one process sees of the disk, until it crashes: then every use is EBADF."""

    def __init__(self, medium: Medium, descriptors_max: int) -> None:
        self.medium = medium
        self.alive = True
        self._descriptors_max = descriptors_max
        # By identity, in the order of opening: a dict, because a set would have no order.
        self._held: dict[int, SimFile | SimLock] = {}
        # Every (path, position, size) of which an early writeback was asked for.
        self.writebacks: list[tuple[str, int, int]] = []

    def crash(self) -> None:
        """The process dies: handles and locks are gone, what it wrote is still in the cache."""
        self.medium.trace.fold("crash")
        for held in list(self._held.values()):
            if isinstance(held, SimFile):
                held.close()
            else:
                held.release()
        self.alive = False

    def open_paths(self) -> list[str]:
        """What this process holds open or locked, in the order of opening."""
        return [held.path for held in self._held.values()]

    def forget(self, held: SimFile | SimLock) -> None:
        """A handle was closed or a lock released."""
        self._held.pop(id(held), None)

    def open(self, path: str, *, writable: bool = True) -> SimFile:
        """Also refuses a directory (EISDIR), which the kernel does only for a writable one."""
        self._begin("open", path)
        node = self.medium.find(path)
        if isinstance(node, DirectoryNode):
            raise failure(errno.EISDIR, path)
        return self._opened(path, node, writable=writable)

    def create(self, path: str) -> SimFile:
        self._begin("create", path)
        place = self.medium.locate(path)
        if place.node is not None:
            raise failure(errno.EEXIST, path)
        return self._opened(path, self._new_file(path, place), writable=True)

    def exists(self, path: str) -> bool:
        return self._look(path) is not None

    def is_dir(self, path: str) -> bool:
        return isinstance(self._look(path), DirectoryNode)

    def size(self, path: str) -> int:
        self._require_alive(path)
        node = self.medium.find(path)
        return DIRECTORY_BYTES if isinstance(node, DirectoryNode) else node.content.size

    def list(self, path: str) -> list[str]:
        self._begin("list", path)
        return sorted(self.medium.find_directory(path).entries)

    def make_dir(self, path: str) -> None:
        self._begin("make_dir", path)
        place = self.medium.locate(path)
        if place.node is not None:
            raise failure(errno.EEXIST, path)
        directory = self.medium.new_directory()
        self.medium.journal.record(NameChange((place.directory, place.name, directory)))

    def rename(self, source: str, target: str) -> None:
        self._begin("rename", source, target)
        old = self.medium.locate(source, blamed=(source, target))
        new = self.medium.locate(target, blamed=(source, target))
        code = _why_not_rename(old, new)
        if code:
            raise failure(code, source, target)
        moved, replaced = old.node, new.node
        if moved is replaced:
            return
        self.medium.journal.record(
            NameChange(
                (old.directory, old.name, None),
                (new.directory, new.name, moved),
                emptied=replaced if isinstance(replaced, DirectoryNode) else None,
                moves_directory=isinstance(moved, DirectoryNode),
            )
        )
        self.medium.unlink(replaced)

    def remove(self, path: str) -> None:
        self._begin("remove", path)
        place = self.medium.locate(path)
        node = place.node
        if node is None:
            raise failure(errno.ENOENT, path)
        if isinstance(node, DirectoryNode):
            raise failure(errno.EISDIR, path)
        self.medium.journal.record(NameChange((place.directory, place.name, None)))
        self.medium.unlink(node)

    def remove_dir(self, path: str) -> None:
        self._begin("remove_dir", path)
        place = self.medium.locate(path)
        node = self.medium.find_directory(path)
        if not place.name:
            raise failure(errno.EBUSY, path)
        if node.entries:
            raise failure(errno.ENOTEMPTY, path)
        change = NameChange((place.directory, place.name, None), emptied=node)
        self.medium.journal.record(change)

    def sync_dir(self, path: str) -> None:
        self._begin("sync_dir", path)
        self.medium.journal.sync(self.medium.find_directory(path))

    def lock(self, path: str) -> SimLock:
        self._begin("lock", path)
        place = self.medium.locate(path)
        node = place.node
        if isinstance(node, DirectoryNode):
            raise failure(errno.EISDIR, path)
        if node is None:
            node = self._new_file(path, place)
        self._require_descriptor(path)
        if node.locked:
            raise failure(errno.EAGAIN)
        node.handles += 1
        lock = SimLock(self, path, node)
        self._held[id(lock)] = lock
        return lock

    def is_at(self, path: str, node: FileNode) -> bool:
        """Whether this path leads to this file."""
        return self._look(path) is node

    def free_bytes(self, path: str) -> int:
        self._require_alive(path)
        self.medium.find(path)
        return self.medium.free_bytes

    def total_bytes(self, path: str) -> int:
        self._require_alive(path)
        self.medium.find(path)
        return self.medium.capacity_bytes

    def _begin(self, operation: Operation, path: str, target: str | None = None) -> None:
        self._require_alive(path)
        self.medium.trace.fold(f"{operation} {path} {target}")
        code = self.medium.strike(operation, path)
        if code:
            raise failure(code, path, target)

    def _look(self, path: str) -> DirectoryNode | FileNode | None:
        self._require_alive(path)
        try:
            return self.medium.locate(path).node
        except OSError:
            return None

    def _new_file(self, path: str, place: Place) -> FileNode:
        self._require_descriptor(path)
        node = self.medium.new_file()
        self.medium.journal.record(NameChange((place.directory, place.name, node)))
        return node

    def _opened(self, path: str, node: FileNode, *, writable: bool) -> SimFile:
        self._require_descriptor(path)
        node.handles += 1
        file = SimFile(self, path, node, writable=writable)
        self._held[id(file)] = file
        return file

    def _require_alive(self, path: str) -> None:
        if not self.alive:
            raise failure(errno.EBADF, path)

    def _require_descriptor(self, path: str) -> None:
        if len(self._held) >= self._descriptors_max:
            raise failure(errno.EMFILE, path)


def _why_not_rename(old: Place, new: Place) -> int:
    """The errno with which the kernel refuses, in the order in which it looks; or 0."""
    moved, replaced = old.node, new.node
    if not old.name or not new.name:
        return errno.EBUSY
    if moved is None:
        return errno.ENOENT
    if any(directory is moved for directory in new.directories):
        return errno.EINVAL
    if any(directory is replaced for directory in old.directories):
        return errno.ENOTEMPTY
    if isinstance(moved, DirectoryNode):
        if isinstance(replaced, FileNode):
            return errno.ENOTDIR
        if replaced is not None and replaced is not moved and replaced.entries:
            return errno.ENOTEMPTY
    elif isinstance(replaced, DirectoryNode):
        return errno.EISDIR
    return 0
