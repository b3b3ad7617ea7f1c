"""Our brokers as users start them, with defaults except the settings that both peers get."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.peer import HOST, SETTINGS, Peer
from ottla.cli.broker.pid_file import read_pid
from ottla.cli.cluster.cluster_file import broker_directory


class Ours(Peer):
    name = "ours"

    @property
    def log_directory(self) -> Path:
        return self.directory / "logs"

    def another(self, directory: Path) -> "Ours":
        return Ours(directory)

    def spawn(self) -> list[subprocess.Popen[bytes]]:
        return [spawn_ottla(["serve"], self.log_directory, self.port, self.directory)]


class OurCluster(Peer):
    """`ottla up --brokers 3`: the supervisor is the parent of the brokers and of three ZooKeeper
    servers, whose CPU and memory count as ours.
    """

    name = "ours"
    brokers = 3

    @property
    def log_directory(self) -> Path:
        return self.directory / "cluster"

    def another(self, directory: Path) -> "OurCluster":
        return OurCluster(directory)

    def spawn(self) -> list[subprocess.Popen[bytes]]:
        arguments = ["up", "--brokers", str(self.brokers), "--no-restart"]
        return [spawn_ottla(arguments, self.log_directory, self.port, self.directory)]

    def broker_pids(self) -> dict[int, int]:
        directories = {
            number: broker_directory(str(self.log_directory), number)
            for number in range(1, self.brokers + 1)
        }
        found = {number: read_pid(directory) for number, directory in directories.items()}
        return {number: pid for number, pid in found.items() if pid is not None}


def spawn_ottla(
    arguments: Sequence[str], data: Path, port: int, directory: Path
) -> subprocess.Popen[bytes]:
    """Starts the program with its output in `directory`/server.log."""
    command = [str(Path(sys.executable).with_name("ottla")), *arguments]
    command += ["--data", str(data), "--host", HOST]
    command += ["--port", str(port), "--metrics-port", "0"]
    for name, value in SETTINGS.items():
        command += ["--set", f"{name}={value}"]
    with (directory / "server.log").open("ab") as log:
        return subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
