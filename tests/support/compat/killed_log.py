"""A log directory whose writer was killed with SIGKILL, and what it had acknowledged by then."""

import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from ottla.protocol.batch import Record
from ottla.protocol.primitives import Uuid
from ottla.seams.clock import RealClock
from ottla.seams.files import RealFiles
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.directory_opening import open_directory
from tests.support.compat.append_until_killed import CLUSTER_ID, CONFIG, PARTITION
from tests.support.disk_vectors import consume


@dataclass(frozen=True, slots=True)
class Killed:
    directory: Path
    # Every offset up to this one was acknowledged.
    appended: int
    # The recovery point that the checkpoint had, at least.
    flushed: int

    @property
    def segments(self) -> list[Path]:
        return sorted((self.directory / str(PARTITION)).glob("*.log"))

    def reopen(self) -> LogDirectory:
        return open_directory(
            RealFiles(),
            str(self.directory),
            cluster_id=CLUSTER_ID,
            node_id=1,
            directory_id=Uuid(bytes(16)),
            config_of=lambda _: CONFIG,
            clock=RealClock(),
        )


def kill_a_writer(
    directory: Path, *, batches: int | None = None, lines: int | None = None
) -> Killed:
    """Kills a child that waits after so many batches, or that still appends after so many lines."""
    directory.mkdir()
    command = [sys.executable, "-m", "tests.support.compat.append_until_killed", str(directory)]
    command += [] if batches is None else [str(batches)]
    acknowledged = {"appended": -1, "flushed": 0}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        for number, line in enumerate(child.stdout, start=1):
            event, offset = line.split()
            acknowledged[event] = int(offset)
            if event == "waiting" or number == lines:
                break
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    return Killed(directory, acknowledged["appended"], acknowledged["flushed"])


def read_all(directory: LogDirectory) -> list[Record]:
    return [record for _, record in consume(directory.logs[PARTITION], committed=False)]
