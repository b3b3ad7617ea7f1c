"""Small filesystems in memory, one for the data of each broker."""

import os
import re
import shutil
from pathlib import Path

from tests.cluster.chaos.namespaces import run_command

SIZE_BYTES = 256 << 20
_FILL_NAME = "filled-by-the-test"
_CHUNK = bytes(1 << 16)
_OWN_SOURCE = re.compile(r"ottla-chaos-([0-9]+) (\S+) tmpfs ")


class Disk:
    """A filesystem of a few MiB at a directory, from `mount` to `unmount`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def mount(self) -> None:
        self.directory.mkdir()
        size = f"size={SIZE_BYTES},mode=0700"
        run_command(["mount", "-t", "tmpfs", "-o", size, _source(), str(self.directory)])

    def unmount(self) -> None:
        if self.directory.is_mount():
            run_command(["umount", "--lazy", str(self.directory)])

    def fill(self) -> None:
        """Until nothing more fits. Again, it also takes what the broker has freed meanwhile."""
        with open(self.directory / _FILL_NAME, "ab", buffering=0) as file:
            try:
                while file.write(_CHUNK):
                    pass
            except OSError:
                return

    def free(self) -> None:
        (self.directory / _FILL_NAME).unlink(missing_ok=True)

    def free_bytes(self) -> int:
        found = os.statvfs(self.directory)
        return found.f_bavail * found.f_frsize

    @property
    def block_bytes(self) -> int:
        return os.statvfs(self.directory).f_frsize

    def copy_to(self, directory: Path) -> None:
        shutil.copytree(
            self.directory,
            directory,
            symlinks=True,
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns(_FILL_NAME),
        )


def unmount_leftovers() -> None:
    """Unmounts those of runs whose process was killed."""
    for line in Path("/proc/mounts").read_text().splitlines():
        found = _OWN_SOURCE.match(line)
        if found is not None and not Path(f"/proc/{found[1]}").exists():
            run_command(["umount", "--lazy", found[2]])


def _source() -> str:
    return f"ottla-chaos-{os.getpid()}"
