"""A broker as a process on a host of the test's network. Nothing but the test restarts it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from ottla.address import Address
from ottla.cli.cluster.child_process import die_with_parent, end_text
from ottla.client.blocking.connection import dial
from ottla.client.errors import ClientError
from ottla.client.options import ClientOptions
from ottla.client.routing.topology import Topology, learned, metadata_request
from ottla.seams.blocking import RealBlocking
from ottla.seams.clock import RealClock
from tests.cluster.chaos.clock import SteppedClock
from tests.cluster.chaos.network import NetworkHost
from tests.cluster.chaos.waiting import wait_until

PORT = 9092
START_TIMEOUT_S = 60.0
END_TIMEOUT_S = 30.0
_ASK = ClientOptions(
    client_id="stage", socket_connection_setup_timeout_ms=2_000, request_timeout_ms=3_000
)


class BrokerEnded(Exception):
    """A broker's process has ended, and no fault ended it."""


class ChaosBroker:
    """One broker, over all its restarts: its data, its log and its clock are the same files."""

    def __init__(
        self, broker_id: int, host: NetworkHost, directory: Path, options: list[str]
    ) -> None:
        """`options` are those of `ottla serve`, without the data directory and the address."""
        self.broker_id = broker_id
        self.host = host
        self.address = Address(host.address, PORT)
        self.data = directory / f"broker-{broker_id}"
        self.log = directory / f"broker-{broker_id}.log"
        self.clock = SteppedClock(directory / f"broker-{broker_id}.clock")
        self._said = directory / f"broker-{broker_id}.ready"
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return f"broker {self.broker_id}"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """BrokerEnded if it does not run."""
        if self._process is None or self._process.poll() is not None:
            raise BrokerEnded(f"{self} does not run")
        return self._process.pid

    def start(self) -> None:
        """Starts the process, without waiting until it serves."""
        command = [*self.host.namespace.prefix, sys.executable, "-m", "ottla.cli", "serve"]
        command += ["--data", str(self.data), "--host", self.host.address, "--port", str(PORT)]
        command += ["--set", f"node.id={self.broker_id}", *self._options]
        with self.log.open("ab") as log, self._said.open("wb") as said:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=log,
                env={**os.environ, **self.clock.environment},
                # Not in the terminal's group: Ctrl-C ends the test, which ends the broker.
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def wait_until_ready(self) -> None:
        """BrokerEnded, NotWithinTime."""

        def is_ready() -> bool:
            self.check_alive()
            return self._said.read_bytes().startswith(b"ready")

        wait_until(is_ready, START_TIMEOUT_S, lambda: f"{self} is ready; its log: {self.log}")

    def check_alive(self) -> None:
        """BrokerEnded if it was started, and ended without `kill`."""
        code = None if self._process is None else self._process.poll()
        if code is not None:
            raise BrokerEnded(f"{self} ended by itself ({end_text(code)}); its log: {self.log}")

    def kill(self) -> None:
        """As an out-of-memory killer does. Returns when the process is gone."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(END_TIMEOUT_S)

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def process_state(self) -> str:
        """The kernel's letter for it: `T` is stopped."""
        stat = Path(f"/proc/{self.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0]

    def metadata(self) -> Topology | None:
        """Its own view of the cluster, asked on its own host, where no cut is. None without one."""

        def ask() -> Topology | None:
            try:
                connection = dial(RealBlocking(), RealClock(), self.address, _ASK)
                try:
                    answer = connection.ask(metadata_request(None))
                finally:
                    connection.close()
            except ClientError:
                return None
            return learned(Topology(), None, answer)

        return self.host.namespace.call(ask) if self.is_running else None
