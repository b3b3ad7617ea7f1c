"""One machine: its disk, its clock, its place in the network, and the broker that runs on it.

A broker that is killed stops where it is: within a request, a flush, a start. Its files, sockets
and sessions are dead from then on, so whatever its code still does has no effect.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ottla.broker.node.context import Seams
from ottla.broker.node.metadata_store import EMBEDDED, StoreFactory
from ottla.broker.node.node import Node
from ottla.settings.sources import load
from tests.sim.broker.witness import Witness
from tests.sim.disk_switches import ANY_PATH, DeathSwitch
from tests.sim.seams.clock import SimClock
from tests.sim.seams.disk import SimDisk
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.faults import Operation
from tests.sim.seams.files import SimFiles
from tests.sim.seams.loop import SimLoop
from tests.sim.seams.net import SimNetwork
from tests.sim.seams.owner import Owner
from tests.sim.seams.threads import SimThreads
from tests.sim.seams.trace import Trace
from tests.sim.seams.workers import SimWorkers

CAPACITY_BYTES = 1 << 30
STARTS_MAX = 20


@dataclass(slots=True)
class Process:
    """One life of the broker."""

    node: Node
    owner: Owner
    files: SimFiles
    threads: SimThreads
    workers: SimWorkers
    # Resolved when the process is killed.
    death: asyncio.Future[None]
    # It runs while there is no reason to stand still.
    pauses: int = 0

    async def start(self) -> asyncio.Task[Any]:
        """The broker's start, done unless the process was killed on the way."""
        return await self._until_done_or_dead(self.node.start(), "start")

    async def stop(self) -> asyncio.Task[Any]:
        """The broker's clean stop, done unless the process was killed on the way."""
        return await self._until_done_or_dead(self.node.stop(), "stop")

    async def _until_done_or_dead(
        self, coroutine: Coroutine[Any, Any, Any], name: str
    ) -> asyncio.Task[Any]:
        context = self.owner.context()
        task = asyncio.get_running_loop().create_task(coroutine, name=name, context=context)
        # What the code of a dead process makes of its death is of no interest.
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.wait((task, self.death), return_when=asyncio.FIRST_COMPLETED)
        return task


def sim_loop() -> SimLoop:
    return cast("SimLoop", asyncio.get_running_loop())


class Machine:
    """`lives` and `power_losses` count: an answer may come late, from before the last one."""

    def __init__(
        self,
        host: str,
        entropy: SimEntropy,
        witness: Witness,
        *,
        clock: SimClock,
        network: SimNetwork,
        trace: Trace,
        settings: Mapping[str, str],
        stores: StoreFactory = EMBEDDED,
        on_stall: Callable[[int], None] | None = None,
    ) -> None:
        self.host = host
        self.trace = trace
        self.clock = clock
        self.disk = SimDisk(
            entropy.fork("disk"), CAPACITY_BYTES, clock=clock, trace=trace, on_stall=on_stall
        )
        self.network = network
        self.net = network.host(host)
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
        self._stores = stores
        self._settings = dict(settings)

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
            process = self._new_process()
            starting = await process.start()
            if self._process is process:
                starting.result()
                self._witness.note("started")
                return
        raise AssertionError(f"the broker does not start, {STARTS_MAX} times")

    async def stop(self) -> None:
        """Cleanly. Killed meanwhile, it is as if it had been killed."""
        process = self._process
        if process is None:
            return
        stopping = await process.stop()
        if self._process is process:
            stopping.result()
            self.kill()

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
            sim_loop().kill(process.owner)
            process.death.set_result(None)
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

    def pause(self) -> Process | None:
        """Stops the process, as SIGSTOP does. Returns it for `resume`; None if there is none."""
        process = self._process
        if process is not None:
            process.pauses += 1
            sim_loop().pause(process.owner)
        return process

    def resume(self, process: Process) -> None:
        """Undoes one `pause`; the process goes on after the last one. It may be dead by now."""
        process.pauses -= 1
        if not process.pauses and not process.owner.is_dead:
            sim_loop().resume(process.owner)

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
        self._witness.note(f"  {self.host} killed, loses_power={self._dies_by_power_loss}")
        self.kill(loses_power=self._dies_by_power_loss)

    def _new_process(self) -> Process:
        """The broker's next life, not started yet. The machine is switched on if it was off."""
        if not self.net.up:
            self.net.boot()
        self.lives += 1
        entropy = self._entropy.fork(f"life-{self.lives}")
        owner = Owner(f"{self.host}, life {self.lives}")
        files = self.disk.process()
        threads = SimThreads(entropy.fork("threads"))
        workers = SimWorkers(self.disk.process, self.clock, entropy.fork("workers"))
        seams = Seams(self.clock, entropy, files, self.net, threads, workers)
        settings = load(given=self._settings, environment={}, file=None)
        node = owner.context().run(
            lambda: Node(settings, seams, self._witness, stores=self._stores)
        )
        death = asyncio.get_running_loop().create_future()
        self._process = Process(node, owner, files, threads, workers, death)
        return self._process
