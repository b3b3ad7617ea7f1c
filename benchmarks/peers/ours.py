"""Our broker as users start it: `ottla serve` with defaults, except settings that both get."""

import subprocess
import sys
from pathlib import Path

from benchmarks.peers.peer import HOST, SETTINGS, Peer


class Ours(Peer):
    name = "ours"

    @property
    def log_directory(self) -> Path:
        return self.directory / "logs"

    def another(self, directory: Path) -> "Ours":
        return Ours(directory)

    def spawn(self) -> subprocess.Popen[bytes]:
        command = [str(Path(sys.executable).with_name("ottla")), "serve"]
        command += ["--data", str(self.log_directory), "--host", HOST]
        command += ["--port", str(self.port), "--metrics-port", "0"]
        for name, value in SETTINGS.items():
            command += ["--set", f"{name}={value}"]
        with (self.directory / "server.log").open("ab") as log:
            return subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
