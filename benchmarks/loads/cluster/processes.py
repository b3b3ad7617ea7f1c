"""`ottla serve --zookeeper … --processes N`: several brokers on one machine, without replicas."""

import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

from benchmarks import measuring
from benchmarks.loads import rdkafka
from benchmarks.peers.ours import spawn_ottla
from benchmarks.peers.peer import Peer
from benchmarks.row import Ran, Scope
from ottla.cli.cluster.zookeeper_servers import ZooKeeperServers

TOPIC = "processes"
PARTITIONS = 6
RECORD_BYTES = 1024
SETTINGS = (*rdkafka.BATCH_16_KB, "enable.idempotence=true")


class _ServedProcesses(Peer):
    """The brokers of one `ottla serve` with one ZooKeeper server, which it does not count."""

    name = "ours"

    def __init__(self, directory: Path, processes: int, zookeeper: str) -> None:
        self.brokers = processes
        self._zookeeper = zookeeper
        super().__init__(directory)

    @property
    def log_directory(self) -> Path:
        return self.directory / "logs"

    def another(self, directory: Path) -> "_ServedProcesses":
        return _ServedProcesses(directory, self.brokers, self._zookeeper)

    def spawn(self) -> list[subprocess.Popen[bytes]]:
        arguments = ["serve", "--zookeeper", self._zookeeper, "--processes", str(self.brokers)]
        return [spawn_ottla(arguments, self.log_directory, self.port, self.directory)]


class Processes:
    """Bulk produce to partitions without followers, spread over all processes."""

    def __init__(self, *, processes: int, count: int) -> None:
        self.processes, self.count = processes, count
        self._brokers: _ServedProcesses | None = None
        self._exits = ExitStack()

    def prepare(self, peer: Peer, _scope: Scope, /) -> None:
        directory = peer.directory.with_name(f"processes-{self.processes}")
        directory.mkdir(parents=True)
        self._exits.callback(shutil.rmtree, directory, ignore_errors=True)
        servers = self._exits.enter_context(ZooKeeperServers(directory / "zookeeper", 1))
        brokers = _ServedProcesses(directory, self.processes, servers.connect_string)
        self._exits.enter_context(brokers)
        brokers.create_topic(TOPIC, PARTITIONS, replicas=1)
        brokers.await_served(TOPIC, PARTITIONS)
        self._brokers = brokers

    def run(self, _peer: Peer, scope: Scope, /) -> Ran:
        if self._brokers is None:
            raise RuntimeError("it was not prepared")
        pids, count = self._brokers.pids, scope.count(self.count)
        before_s = measuring.cpu_s(*pids)
        rate = rdkafka.produce(
            self._brokers, TOPIC, count=count, size=RECORD_BYTES, acks=-1, settings=SETTINGS
        )
        cpu_s = measuring.cpu_s(*pids) - before_s
        return Ran(figures={"rate": rate, "cpu": cpu_s / (count * RECORD_BYTES) * 1e9})

    def finish(self, _peer: Peer, /) -> None:
        self._exits.close()
