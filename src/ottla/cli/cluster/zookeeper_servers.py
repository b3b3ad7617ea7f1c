"""ZooKeeper servers as child processes, by default on the loopback address of this machine."""

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from ottla.cli.cluster.child_process import die_with_parent
from ottla.cli.cluster.zookeeper_jars import ZooKeeperJars, find_zookeeper
from ottla.cli.shared.failure import Failure

HOST = "127.0.0.1"
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0
LOG_NAME = "zookeeper.log"
MAX_LOG_LINES_SHOWN = 15

# Sessions of a few seconds must outlive the loss of ZooKeeper's own leader. A killed leader is
# noticed at once, a hung one after syncLimit ticks, which is 3 s; the election takes about 1 s. So
# sessions of 6 s and more survive both. Shorter ones are granted down to two ticks, for tests.
TICK_MS = 500
SYNC_LIMIT_TICKS = 6
# A server has 20 s to load its data and to follow, also on a busy machine.
INIT_LIMIT_TICKS = 40
SESSION_TIMEOUT_MS_MIN = 2 * TICK_MS
SESSION_TIMEOUT_MS_MAX = 120_000

# A small heap that grows, and a quick start: half the time and a fifth less memory than without.
JAVA_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xms16m", "-Xmx256m", "-Xss256k")
PROPERTIES = {
    # It would listen on port 8080.
    "zookeeper.admin.enableServer": "false",
    # In KiB, per file of the log; 64 MiB otherwise.
    "zookeeper.preAllocSize": "1024",
    "log4j2.level": "WARN",
}
MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
# Four-letter words that are answered: readiness, and the listings that people look at.
COMMANDS = "srvr,ruok,mntr,cons,dump"


class ServerHost(NamedTuple):
    """The address of a server, and a command that runs it there (in a network namespace)."""

    address: str = HOST
    prefix: tuple[str, ...] = ()


LOCAL = ServerHost()


class ZooKeeperServer:
    """One server. `number` begins at 1."""

    def __init__(
        self,
        jars: ZooKeeperJars,
        number: int,
        directory: Path,
        port: int,
        properties: Mapping[str, str],
        host: ServerHost = LOCAL,
    ) -> None:
        self.number = number
        self.host = host
        self.port = port
        self.directory = directory
        self._jars = jars
        self._properties = {**PROPERTIES, **properties}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.directory / LOG_NAME

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @property
    def name(self) -> str:
        return f"ZooKeeper server {self.number}"

    @property
    def ended(self) -> int | None:
        """The exit code of a process that has ended by itself."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Starts the process, without waiting until it serves."""
        command = [
            *self.host.prefix,
            self._jars.java,
            *JAVA_OPTIONS,
            *(f"-D{name}={value}" for name, value in self._properties.items()),
            "-cp",
            self._jars.class_path,
            MAIN_CLASS,
            str(self.directory / "zoo.cfg"),
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the java that was found
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Not in the terminal's group: Ctrl-C ends the brokers first.
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def mode(self) -> str | None:
        """`leader`, `follower` or `standalone`; None while it does not serve."""
        for line in self.command("srvr").splitlines():
            name, _, value = line.partition(": ")
            if name == "Mode":
                return value
        return None

    def command(self, word: str, timeout_s: float = 2.0) -> str:
        """The answer to a four-letter word; empty if there is none."""
        parts = []
        try:
            with socket.create_connection((self.host.address, self.port), timeout_s) as connection:
                connection.sendall(word.encode())
                while part := connection.recv(1 << 16):
                    parts.append(part)
        except OSError:
            return ""
        return b"".join(parts).decode(errors="replace")

    def check_alive(self) -> None:
        """Failure with the end of its log if the process has ended."""
        if self._process is not None and self._process.poll() is not None:
            lines = self.log.read_text(errors="replace").splitlines()[-MAX_LOG_LINES_SHOWN:]
            raise Failure(
                f"{self.name} has ended ({self._process.returncode})",
                why="\n       ".join(lines) or None,
                advice=f"its log is {self.log}",
            )

    def stop(self) -> None:
        """Ends the process and waits for it."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        # A stopped process would not end.
        process.send_signal(signal.SIGCONT)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class ZooKeeperServers:
    """An ensemble, or a single server, for the length of a `with`.

    Its data is in subdirectories of `directory` and is found again by the next start there.
    """

    def __init__(
        self,
        directory: Path,
        count: int = 3,
        *,
        ports: Sequence[int] | None = None,
        properties: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        jars: ZooKeeperJars | None = None,
        hosts: Sequence[ServerHost] | None = None,
    ) -> None:
        """`ports` are three for each server: for clients, followers and the election.

        `properties` are Java's, and `settings` are lines of zoo.cfg. `hosts` are one for each
        server. Failure without Java.
        """
        self.jars = jars or find_zookeeper()
        self._settings = dict(settings or {})
        on = list(hosts) if hosts is not None else [LOCAL] * count
        chosen = list(ports) if ports is not None else free_ports(3 * count)
        self._ports = [chosen[3 * index : 3 * index + 3] for index in range(count)]
        self.servers = [
            ZooKeeperServer(
                self.jars,
                index + 1,
                directory / f"server-{index + 1}",
                each[0],
                properties or {},
                host,
            )
            for index, (each, host) in enumerate(zip(self._ports, on, strict=True))
        ]

    @property
    def connect_string(self) -> str:
        return ",".join(f"{server.host.address}:{server.port}" for server in self.servers)

    def start(self) -> None:
        """Returns when every server serves. Failure if one ends, or takes too long."""
        for server in self.servers:
            self._configure(server)
        try:
            for server in self.servers:
                server.start()
            self.wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def wait_until_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Waits for all servers whose process was started."""
        deadline = time.monotonic() + timeout_s
        waiting = [server for server in self.servers if server.pid is not None]
        while waiting := [server for server in waiting if server.mode() is None]:
            for server in waiting:
                server.check_alive()
            if time.monotonic() > deadline:
                names = ", ".join(str(server.number) for server in waiting)
                raise Failure(
                    f"ZooKeeper server {names} did not serve within {timeout_s:g} s",
                    advice=f"its log is {waiting[0].log}",
                )
            time.sleep(0.05)

    def leader(self) -> ZooKeeperServer:
        """The server that leads now. Failure if none does within the time limit."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline:
            for server in self.servers:
                if server.pid is not None and server.mode() in ("leader", "standalone"):
                    return server
            time.sleep(0.05)
        raise Failure("no ZooKeeper server leads", advice=f"see {self.servers[0].log}")

    def stop(self) -> None:
        """Ends all servers. Idempotent."""
        self._end(ZooKeeperServer.stop)

    def kill(self) -> None:
        self._end(ZooKeeperServer.kill)

    def _end(self, how: Callable[[ZooKeeperServer], None]) -> None:
        with ExitStack() as ends:
            for server in self.servers:
                ends.callback(how, server)

    def _configure(self, server: ZooKeeperServer) -> None:
        """Writes the configuration. The data of an earlier run is kept."""
        server.directory.mkdir(parents=True, exist_ok=True)
        settings = {
            "tickTime": TICK_MS,
            "initLimit": INIT_LIMIT_TICKS,
            "syncLimit": SYNC_LIMIT_TICKS,
            "dataDir": server.directory / "data",
            "clientPort": server.port,
            "clientPortAddress": server.host.address,
            "minSessionTimeout": SESSION_TIMEOUT_MS_MIN,
            "maxSessionTimeout": SESSION_TIMEOUT_MS_MAX,
            "maxClientCnxns": 0,
            "4lw.commands.whitelist": COMMANDS,
            "autopurge.snapRetainCount": 3,
            "autopurge.purgeInterval": 1,
        }
        if len(self.servers) > 1:
            for each, (_, quorum, election) in zip(self.servers, self._ports, strict=True):
                settings[f"server.{each.number}"] = f"{each.host.address}:{quorum}:{election}"
        lines = [f"{name}={value}" for name, value in {**settings, **self._settings}.items()]
        (server.directory / "zoo.cfg").write_text("\n".join(lines) + "\n")
        (server.directory / "data").mkdir(exist_ok=True)
        (server.directory / "data" / "myid").write_text(f"{server.number}\n")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def free_ports(count: int) -> list[int]:
    """Different ports that nobody listens on now."""
    with ExitStack() as open_sockets:
        found = []
        for _ in range(count):
            probe = open_sockets.enter_context(socket.socket())
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, 0))
            found.append(int(probe.getsockname()[1]))
    return found
