"""Small real disks for a broker to run full: ext4 on a loop device, tmpfs, or a limit on files.

A file system is mounted in a mount namespace that a process of the test keeps. Where nobody may
mount, the kernel's limit on the size of a file (RLIMIT_FSIZE) refuses writes just as well.
"""

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

MIB = 1 << 20
MOUNTED = b"mounted\n"
# The file that tests delete to free space.
FILLER = "filler"


class SmallDisk(Protocol):
    """`data` is where a broker finds its directory."""

    data: Path
    # Whether free space can be asked for, and so a reserve be kept.
    has_free_space: bool
    settings: tuple[str, ...]

    def inside(self, command: Sequence[str]) -> list[str]:
        """The command, run where the disk is."""
        ...

    def limit(self, pid: int) -> None:
        """Before the process writes anything."""
        ...

    def free_bytes(self) -> int: ...

    def make_room(self, pid: int | None) -> None:
        """For the broker with this pid, or for the next that is started."""
        ...


class Mounted:
    """A file system in a namespace of its own, as long as `keeper` runs."""

    has_free_space = True
    settings = (f"log.segment.bytes={MIB}",)

    def __init__(self, keeper: "subprocess.Popen[bytes]", point: Path, flags: list[str]) -> None:
        self._keeper = keeper
        self._flags = flags
        self.data = point / "data"
        self._seen = Path(f"/proc/{keeper.pid}/root{point}")
        (self._seen / FILLER).write_bytes(bytes(16 * MIB))

    def inside(self, command: Sequence[str]) -> list[str]:
        return ["nsenter", "-t", str(self._keeper.pid), "-m", *self._flags, *command]

    def limit(self, pid: int) -> None:
        pass

    def free_bytes(self) -> int:
        found = os.statvfs(self._seen)
        return found.f_bavail * found.f_frsize

    def make_room(self, pid: int | None) -> None:
        (self._seen / FILLER).unlink()


class Limited:
    """A limit on the size of files: the disk is full for appends to the largest ones."""

    has_free_space = False
    # A segment has to run into the limit, and not be rolled before.
    settings = (f"log.segment.bytes={256 * MIB}",)
    bytes_max = 4 * MIB

    def __init__(self, point: Path) -> None:
        self.data = point / "data"
        self._is_full = True

    def inside(self, command: Sequence[str]) -> list[str]:
        return list(command)

    def limit(self, pid: int) -> None:
        if self._is_full:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (self.bytes_max, resource.RLIM_INFINITY))

    def free_bytes(self) -> int:
        raise NotImplementedError

    def make_room(self, pid: int | None) -> None:
        self._is_full = False
        if pid is not None:
            unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)


@contextmanager
def small_disk(kind: str, directory: Path, size_bytes: int) -> Iterator[SmallDisk]:
    """A disk of this kind, or, where it cannot be had, of the next that can."""
    directory.mkdir(exist_ok=True)
    for way in _WAYS[_WAYS.index(kind) :]:
        if way == "limit":
            yield Limited(directory)
            return
        mounted = _mount(way, directory, size_bytes)
        if mounted is not None:
            keeper, flags = mounted
            try:
                yield Mounted(keeper, directory, flags)
            finally:
                # The namespace goes with its last process, and the mount with the namespace.
                keeper.communicate()
            return


_WAYS = ("ext4", "tmpfs", "limit")


def _mount(
    way: str, point: Path, size_bytes: int
) -> "tuple[subprocess.Popen[bytes], list[str]] | None":
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        return None
    if way == "ext4":
        image = point.with_suffix(".img")
        with image.open("wb") as file:
            file.truncate(size_bytes)
        made = (
            subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", str(image)], check=False)
            if shutil.which("mkfs.ext4")
            else None
        )
        if made is None or made.returncode:
            return None
        mount = f"mount -o loop '{image}' '{point}'"
    else:
        mount = f"mount -t tmpfs -o size={size_bytes} tmpfs '{point}'"
    # As root it needs no other user namespace; anybody else may mount a tmpfs in one of its own.
    for own, entering in (([], []), (["-Ur"], ["-U", "--preserve-credentials"])):
        keeper = subprocess.Popen(
            [
                "unshare",
                *own,
                "-m",
                "--propagation",
                "private",
                "sh",
                "-c",
                f"{mount} && echo mounted && exec cat",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert keeper.stdout is not None
        if keeper.stdout.readline() == MOUNTED:
            return keeper, entering
        keeper.communicate()
    return None
