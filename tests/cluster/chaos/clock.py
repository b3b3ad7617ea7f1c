"""The wall clock of a process, which the test steps. Its steady clock goes on."""

import functools
import struct
import subprocess
import tempfile
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock_preload.c")


class SteppedClock:
    """An offset in a file that processes with `environment` have mapped."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def environment(self) -> dict[str, str]:
        if not self._path.exists():
            self._path.write_bytes(struct.pack("=q", 0))
        return {"LD_PRELOAD": str(_library()), "CHAOS_CLOCK": str(self._path)}

    def set_offset(self, offset_s: int) -> None:
        """In effect at once."""
        # In place: the file is mapped, and eight bytes arrive as one.
        with open(self._path, "r+b", buffering=0) as file:
            file.write(struct.pack("=q", offset_s * 1_000_000_000))


@functools.cache
def _library() -> Path:
    """Compiled once per process."""
    directory = Path(tempfile.mkdtemp(prefix="ottla-chaos-clock-"))
    library = directory / "clock_preload.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(_SOURCE)],
        check=True,
        timeout=60,
    )
    return library
