"""Files and directories.

Failures are OSError with an errno (ENOSPC, EIO, ...), from the real and the simulated disk alike.
A write may be short. Written bytes survive a power loss only after `sync`; a name (created,
renamed, removed) survives only after `sync_dir` on its directory.
"""

import contextlib
import errno
import fcntl
import functools
import os
from collections.abc import Callable, Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview
# Not every system can report what is in the page cache; elsewhere all reads count as warm.
_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)


class File(Protocol):
    """An open file. The caller passes positions: there is no seek."""

    @property
    def path(self) -> str: ...

    def fileno(self) -> int:
        """The descriptor, for sendfile. A simulated file has none and raises OSError."""
        ...

    def size(self) -> int: ...

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        ...

    def read_warm(self, position: int, size: int) -> bytes | bytearray | None:
        """As `read_at` if the bytes are in the page cache, as far as is known; else None."""
        ...

    def is_warm(self, position: int) -> bool:
        """Whether the byte at `position` is in the page cache, as far as is known."""
        ...

    def warm(self, position: int, size: int) -> None:
        """Loads a range into the page cache. Blocks, so it runs in a thread."""
        ...

    def write_at(self, position: int, parts: Sequence[Buffer]) -> int:
        """Writes the parts one after another. Returns the bytes written, possibly not all."""
        ...

    def truncate(self, size: int) -> None:
        """Truncates the file, or extends it with zeros (sparse if the file system can)."""
        ...

    def sync(self) -> None:
        """All written bytes are durable on return."""
        ...

    def start_writeback(self, position: int, size: int) -> None:
        """Hints that the kernel should start to write this range back. It promises nothing.

        It may block on a full device queue, so it runs in a thread.
        """
        ...

    def close(self) -> None:
        """Idempotent."""
        ...


class Lock(Protocol):
    def is_in_place(self) -> bool:
        """Whether the lock's path still names the locked file. OSError if the disk fails."""
        ...

    def release(self) -> None: ...


class Files(Protocol):
    """A file system. Paths are absolute strings separated by `/`."""

    def open(self, path: str, *, writable: bool = True) -> File:
        """Opens an existing file. FileNotFoundError if there is none."""
        ...

    def create(self, path: str) -> File:
        """Creates an empty file. FileExistsError if the name is taken."""
        ...

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def list(self, path: str) -> list[str]:
        """The names in a directory, sorted."""
        ...

    def make_dir(self, path: str) -> None:
        """Creates a directory. FileExistsError if the name is taken."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Atomic. Replaces a file at `target`."""
        ...

    def remove(self, path: str) -> None:
        """Removes a file. FileNotFoundError if there is none."""
        ...

    def remove_dir(self, path: str) -> None:
        """Removes an empty directory."""
        ...

    def sync_dir(self, path: str) -> None:
        """The names in this directory are durable on return."""
        ...

    def lock(self, path: str) -> Lock:
        """Locks a file until the lock is released or the process dies. BlockingIOError if another
        process holds it."""
        ...

    def free_bytes(self, path: str) -> int:
        """The free bytes of the file system that holds `path`."""
        ...

    def total_bytes(self, path: str) -> int:
        """The capacity of the file system that holds `path`."""
        ...


def read_file(files: Files, path: str, size_max: int = 64 << 20) -> bytes:
    """The content of a small file. OSError (EFBIG) if it is larger than `size_max`."""
    file = files.open(path, writable=False)
    try:
        size = file.size()
        if size > size_max:
            raise OSError(errno.EFBIG, f"{size} bytes, at most {size_max} expected", path)
        return file.read_at(0, size)
    finally:
        file.close()


def write_all(file: File, position: int, parts: Sequence[Buffer]) -> int:
    """Writes all parts and returns their size. OSError (ENOSPC) if only some bytes fit."""
    return write_rest(file, position, parts, file.write_at(position, parts))


def write_rest(file: File, position: int, parts: Sequence[Buffer], written: int) -> int:
    """As `write_all` after a first write of `written` bytes."""
    expected = sum(map(len, parts))
    while 0 < written < expected:
        rest = memoryview(b"".join(parts))[written:]
        more = file.write_at(position + written, [rest])
        if more == 0:
            break
        written += more
    if written < expected:
        raise OSError(
            errno.ENOSPC, f"only {written} of {expected} bytes could be written", file.path
        )
    return written


def replace_file(files: Files, path: str, content: bytes) -> None:
    """Replaces a file atomically and durably: after a crash it has the old or the new content."""
    _put(files, path, content, is_synced=True)
    files.sync_dir(path.rpartition("/")[0])


def put_file(files: Files, path: str, content: bytes) -> None:
    """As `replace_file`, but safe only against a crash of the process, not against a power loss.

    The content is durable after `sync_file` and `sync_dir`.
    """
    _put(files, path, content, is_synced=False)


def sync_file(files: Files, path: str) -> None:
    """Makes the content of a file durable, but not its name."""
    file = files.open(path)
    try:
        file.sync()
    finally:
        file.close()


def _put(files: Files, path: str, content: bytes, *, is_synced: bool) -> None:
    temporary = f"{path}.tmp"
    with contextlib.suppress(FileNotFoundError):
        files.remove(temporary)
    file = files.create(temporary)
    try:
        write_all(file, 0, [content])
        if is_synced:
            file.sync()
    except OSError:
        # Free the space: the disk may be full.
        with contextlib.suppress(OSError):
            files.remove(temporary)
        raise
    finally:
        file.close()
    files.rename(temporary, path)


# Starts the writeback without waiting, and consumes no error that a later sync should report.
_SYNC_FILE_RANGE_WRITE = 2


@functools.cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """The C library's sync_file_range, which Python lacks; None if there is none."""
    # Imported here: it would slow down every start.
    import ctypes

    function = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if function is None:
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    found: Callable[[int, int, int, int], int] = function
    return found


# The errors of a kernel or a file system that does not support RWF_NOWAIT.
_CANNOT_TELL = (errno.EOPNOTSUPP, errno.ENOSYS)

# Receives bytes that are read only to load the page cache. Threads share it: it is never read.
_UNREAD = bytearray(128 << 10)


class RealFile:
    __slots__ = ("_descriptor", "_nowait", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        # 0 once the file system has turned out not to support RWF_NOWAIT.
        self._nowait = _NOWAIT

    def fileno(self) -> int:
        return self._descriptor

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read_at(self, position: int, size: int) -> bytes:
        found = os.pread(self._descriptor, size, position)
        if len(found) == size or not found:
            return found
        chunks = [found]
        missing = size - len(found)
        while missing and (found := os.pread(self._descriptor, missing, position + size - missing)):
            chunks.append(found)
            missing -= len(found)
        return b"".join(chunks)

    def read_warm(self, position: int, size: int) -> bytes | bytearray | None:
        if not self._nowait:
            return self.read_at(position, size)
        found = bytearray(size)
        read = self._read_nowait(position, found)
        if read == size:
            return found
        if read is None:
            return None if self._nowait else self.read_at(position, size)
        # A short read ends at the end of the file or at the first page that is not cached.
        if self._read_nowait(position + read, bytearray(1)) == 0:
            return found[:read]
        return None

    def is_warm(self, position: int) -> bool:
        return self._read_nowait(position, bytearray(1)) is not None or not self._nowait

    def _read_nowait(self, position: int, buffer: bytearray) -> int | None:
        """The bytes read from the page cache; None if there are none, or if it is unknown."""
        if not self._nowait:
            return None
        try:
            return os.preadv(self._descriptor, [buffer], position, self._nowait)
        except BlockingIOError:
            return None
        except OSError as error:
            # A file system without support (tmpfs) has no disk to wait for.
            if error.errno not in _CANNOT_TELL:
                raise
            self._nowait = 0
            return None

    def warm(self, position: int, size: int) -> None:
        os.posix_fadvise(self._descriptor, position, size, os.POSIX_FADV_WILLNEED)
        end = position + size
        while position < end and (read := os.preadv(self._descriptor, [_UNREAD], position)):
            position += read

    def write_at(self, position: int, parts: Sequence[Buffer]) -> int:
        return os.pwritev(self._descriptor, parts, position)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def start_writeback(self, position: int, size: int) -> None:
        sync_file_range = _sync_file_range()
        if sync_file_range is not None:
            sync_file_range(self._descriptor, position, size, _SYNC_FILE_RANGE_WRITE)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        # Readers share a file without a reference count of their own: the last reference closes it.
        self.close()


class RealLock:
    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def is_in_place(self) -> bool:
        return self._descriptor >= 0 and _is_named(self._descriptor, self._path)

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _is_named(descriptor: int, path: str) -> bool:
    """Whether this path still names the opened file."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    return False


class RealFiles:
    """The kernel's file systems.

    New files and directories are readable by their owner only, or by all users if `shared`.
    Existing ones keep their mode.
    """

    __slots__ = ("_directory_mode", "_file_mode")

    def __init__(self, *, shared: bool = False) -> None:
        self._file_mode = 0o644 if shared else 0o600
        self._directory_mode = 0o755 if shared else 0o700

    def open(self, path: str, *, writable: bool = True) -> RealFile:
        mode = os.O_RDWR if writable else os.O_RDONLY
        return RealFile(path, os.open(path, mode | os.O_CLOEXEC))

    def create(self, path: str) -> RealFile:
        mode = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return RealFile(path, os.open(path, mode, self._file_mode))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def list(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_dir(self, path: str) -> None:
        os.mkdir(path, self._directory_mode)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_dir(self, path: str) -> None:
        os.rmdir(path)

    def sync_dir(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> RealLock:
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, self._file_mode)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Kafka uses a POSIX record lock on the same file. Each kind ignores the other.
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A lock on a file that was removed after it was opened excludes no other process.
                if _is_named(descriptor, path):
                    return RealLock(path, descriptor)
            except OSError:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def free_bytes(self, path: str) -> int:
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def total_bytes(self, path: str) -> int:
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize
