"""One machine under one seed: its disk, its place in the network, the broker that runs on it.

A broker that is killed stops where it is: within a request, a flush, a start. Its files and sockets
are dead from then on, so whatever its code still does has no effect; its tasks are cancelled.
"""

import asyncio
import errno
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ottla.broker.node.context import Seams
from ottla.broker.node.node import Node
from ottla.settings.sources import load
from tests.sim.broker.witness import Witness
from tests.sim.seams.clock import SimClock
from tests.sim.seams.disk import SimDisk
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.faults import Faults, Operation
from tests.sim.seams.files import SimFiles
from tests.sim.seams.net import SimNetwork
from tests.sim.seams.threads import SimThreads
from tests.sim.seams.trace import Trace
from tests.sim.seams.workers import SimWorkers

HOST = "broker"
PORT = 9092
CAPACITY_BYTES = 1 << 30
STARTS_MAX = 20
ANY_PATH = "*"
# Tasks with such names are the simulation's; all others are the broker's, and die with it.
OWN_TASK = "simulation: "


class DeathSwitch:
    """Ends the process before one of its next operations on the disk."""

    def __init__(self, faults: Faults, die: Callable[[], None]) -> None:
        self._error_for = faults.error_for
        self._die = die
        self._spared: int | None = None
        self._pattern = ANY_PATH
        self._operation: Operation | None = None
        setattr(faults, "error_for", self.error_for)  # noqa: B010 - the disk asks here first

    def arm(self, spared: int, pattern: str = ANY_PATH, operation: Operation | None = None) -> None:
        """Only operations of this kind on paths of this pattern count; None: of any kind."""
        self._spared = spared
        self._pattern = pattern
        self._operation = operation

    def disarm(self) -> None:
        self._spared = None

    def error_for(self, operation: Operation, path: str) -> int:
        if self._spared is not None and self._counts(operation, path):
            if self._spared == 0:
                self._spared = None
                self._die()
                # Not as the disk's answer: a sync that the disk refuses loses what it was to save.
                raise OSError(errno.EBADF, "the process is dead", path)
            self._spared -= 1
        return self._error_for(operation, path)

    def _counts(self, operation: Operation, path: str) -> bool:
        return self._operation in (None, operation) and fnmatchcase(path, self._pattern)


@dataclass(slots=True)
class Process:
    """One life of the broker."""

    node: Node
    files: SimFiles
    threads: SimThreads
    workers: SimWorkers


class Machine:
    """`lives` and `power_losses` count: an answer may come late, from before the last one."""

    def __init__(self, seed: int, witness: Witness, **settings: str) -> None:
        entropy = SimEntropy(seed)
        self.trace = Trace()
        self.clock = SimClock()
        self.disk = SimDisk(
            entropy.fork("disk"), CAPACITY_BYTES, clock=self.clock, trace=self.trace
        )
        self.network = SimNetwork(entropy.fork("network"), trace=self.trace)
        self.net = self.network.host(HOST)
        self.death = DeathSwitch(self.disk.faults, self._die_by_switch)
        self.power_losses = 0
        self.lives = 0
        self.on_power_loss: Callable[[], None] = lambda: None
        self.on_death: Callable[[], None] = lambda: None
        self._entropy = entropy.fork("broker")
        self._witness = witness
        self._process: Process | None = None
        self._fault: Exception | None = None
        self._dies_by_power_loss = False
        self._settings = {
            "log.dirs": "/data",
            "listeners": f"PLAINTEXT://0.0.0.0:{PORT}",
            "ottla.disk.reserve.bytes": "0",
            **settings,
        }

    @property
    def node(self) -> Node | None:
        """The broker, while it lives."""
        return self._process.node if self._process else None

    @property
    def workers(self) -> SimWorkers | None:
        """Those of the broker, while it lives."""
        return self._process.workers if self._process else None

    async def start(self) -> None:
        """A broker serves on return. Killed on the way, it is started again."""
        for _ in range(STARTS_MAX):
            if not self.net.up:
                self.net.boot()
            process = self._process = self._new_process()
            starting = asyncio.get_running_loop().create_task(process.node.start(), name="start")
            await asyncio.wait((starting,))
            if self._process is process:
                starting.result()
                self._witness.note("started")
                return
            # Dead: what its code made of that is nobody's business, but was looked at.
            if not starting.cancelled():
                starting.exception()
        raise AssertionError(f"the broker does not start, {STARTS_MAX} times")

    async def stop(self) -> None:
        """Cleanly. Killed meanwhile, it is as if it had been killed."""
        process = self._process
        if process is None:
            return
        stopping = asyncio.get_running_loop().create_task(process.node.stop(), name="stop")
        await asyncio.wait((stopping,))
        if self._process is process:
            stopping.result()
            self.kill()
        elif not stopping.cancelled():
            stopping.exception()

    def kill(self, *, loses_power: bool = False) -> None:
        """The process ends here and now, perhaps with the whole machine."""
        process, self._process = self._process, None
        self.death.disarm()
        if process is not None:
            if process.node.fault.done():
                self._fault = self._fault or process.node.fault.result()
            self.on_death()
            process.files.crash()
            process.threads.crash()
            process.workers.kill()
            for task in sorted(asyncio.all_tasks(), key=hash):
                if not task.get_name().startswith(OWN_TASK):
                    # After its first step: else what it is to await would never be awaited.
                    asyncio.get_running_loop().call_soon(task.cancel)
        if loses_power:
            self.net.power_loss()
            self.disk.power_loss()
            self.power_losses += 1
            self.on_power_loss()
        else:
            self.net.crash()

    async def kill_within(
        self,
        operations: int,
        *,
        loses_power: bool,
        wait_s: float,
        pattern: str = ANY_PATH,
        operation: Operation | None = None,
    ) -> None:
        """Kills it in the middle of something it does with the disk, or at the latest then."""
        self._dies_by_power_loss = loses_power
        self.death.arm(operations, pattern, operation)
        process = self._process
        deadline = asyncio.get_running_loop().time() + wait_s
        while self._process is process and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        if process is not None and self._process is process:
            self.kill(loses_power=loses_power)

    def check_fault(self) -> None:
        """Raises what ended the broker, in this life or before, if it was its own fault."""
        if self._fault is not None:
            raise self._fault
        if self._process is not None and self._process.node.fault.done():
            raise self._process.node.fault.result()

    def fill_disk(self, left_bytes: int) -> None:
        used_bytes = sum(map(len, self.disk.files().values()))
        self.disk.resize(used_bytes + left_bytes)

    def free_disk(self) -> None:
        self.disk.resize(CAPACITY_BYTES)

    def _die_by_switch(self) -> None:
        self._witness.note(f"  killed, {self._dies_by_power_loss=}")
        self.kill(loses_power=self._dies_by_power_loss)

    def _new_process(self) -> Process:
        self.lives += 1
        entropy = self._entropy.fork(f"life-{self.lives}")
        files = self.disk.process()
        threads = SimThreads(entropy.fork("threads"))
        workers = SimWorkers(self.disk.process, self.clock, entropy.fork("workers"))
        seams = Seams(self.clock, entropy, files, self.net, threads, workers)
        settings = load(given=self._settings, environment={}, file=None)
        return Process(Node(settings, seams, self._witness), files, threads, workers)
