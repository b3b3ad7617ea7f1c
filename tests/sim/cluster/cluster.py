"""The machines of one cluster, on one network, one timeline and one metadata ensemble."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ottla.errors import StorageError
from ottla.metadata.image import Image
from ottla.metadata.records import Record
from tests.sim.broker.witness import Witness
from tests.sim.cluster.sessions import Ensemble
from tests.sim.cluster.settings import CLIENT_PORT, broker_settings, host_of
from tests.sim.disk_switches import FailedDirectory
from tests.sim.machine import Machine, Process
from tests.sim.request_line import RequestLine
from tests.sim.seams.clock import SimClock, Timeline
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.net import SimNet, SimNetwork
from tests.sim.seams.owner import kernel_context
from tests.sim.seams.trace import Trace

WALL_MS = 1_700_000_000_000
WALL_OFFSET_MS_MAX = 5_000
POLL_S = 0.05
POSSIBLE_LOSS = "possible data loss"
SESSION_LOST = "session lost"


class Warned(NamedTuple):
    """A broker's warning, and the partition that it is about, if it is about one."""

    event: str
    partition: str


class HostWitness(Witness):
    """Notes what happens on one host."""

    def __init__(self, host: str, witness: Witness, warnings: list[Warned]) -> None:
        """The broker's warnings are appended to `warnings`."""
        super().__init__()
        self._warnings = warnings
        self._host = host
        self._witness = witness

    def note(self, event: str) -> None:
        self._witness.note(f"{self._host}: {event.strip()}")

    def warning(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None:
        super().warning(event, repeats_of=repeats_of, **fields)
        self._warnings.append(Warned(event, str(fields.get("partition", ""))))


class BrokerMachine(Machine):
    """A machine of the cluster. Its broker starts in the background, while its peers go on."""

    def __init__(
        self,
        broker_id: int,
        entropy: SimEntropy,
        witness: Witness,
        *,
        timeline: Timeline,
        network: SimNetwork,
        trace: Trace,
        ensemble: Ensemble,
        settings: Mapping[str, str],
        warnings: list[Warned],
    ) -> None:
        host = host_of(broker_id)
        offset_ms = entropy.fork("wall").between(-WALL_OFFSET_MS_MAX, WALL_OFFSET_MS_MAX)
        super().__init__(
            host,
            entropy,
            HostWitness(host, witness, warnings),
            clock=SimClock(timeline, machine=host, wall_ms=WALL_MS + offset_ms),
            network=network,
            trace=trace,
            settings=broker_settings(broker_id, **settings),
            stores=ensemble.stores(host),
            on_stall=self._stall,
        )
        self.broker_id = broker_id
        self.failed_directory = FailedDirectory(self.disk.faults)
        # The last life in which the disk failed: then a log or a start may fail.
        self.failed_life = 0
        self._is_full = False
        self._started_life = 0
        self._stopping_life = 0
        self._boots: list[asyncio.Task[None]] = []

    @property
    def is_up(self) -> bool:
        """Whether its broker lives, has completed its start, and is not about to stop."""
        is_started = self._process is not None and self._started_life == self.lives
        return is_started and self._stopping_life != self.lives

    @property
    def is_alive(self) -> bool:
        return self._process is not None

    @property
    def process_name(self) -> str:
        """The name of the present life's process."""
        return self._process.owner.name if self._process else "none"

    def dies_within(self, operations: int, *, loses_power: bool) -> None:
        """Kills the broker at one of its next operations on the disk."""
        self._dies_by_power_loss = loses_power
        self.death.arm(operations)

    def switch_on(self) -> None:
        """Starts the broker, unless there is one."""
        if self._process is None:
            boot = asyncio.get_running_loop().create_task(
                self._boot(self._new_process()), name=f"boot of {self.host}"
            )
            self._boots.append(boot)

    async def until_up(self, timeout_s: float) -> None:
        """Starts the broker if it has to. TimeoutError if it does not serve in time."""
        async with asyncio.timeout(timeout_s):
            while not self.is_up:
                self.check_fault()
                self.switch_on()
                await asyncio.sleep(POLL_S)

    async def stop(self) -> None:
        self._stopping_life = self.lives
        await super().stop()

    @property
    def is_controller(self) -> bool:
        """As far as its broker knows."""
        publisher = self.node._publisher if self.node is not None else None
        return publisher is not None and publisher.is_controller

    async def commit(
        self, decide: Callable[[Image], tuple[Sequence[Record], bool]], timeout_s: float
    ) -> bool:
        """Has the broker's publisher commit a decision. False if it does not, or not in time."""
        process = self._process
        publisher = None if process is None else process.node._publisher
        if process is None or publisher is None:
            return False
        # A process that dies or stands still meanwhile takes the task with it.
        task = asyncio.get_running_loop().create_task(
            publisher.commit(decide), name="commit", context=process.owner.context()
        )
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.wait((task,), timeout=timeout_s)
        is_decided = task.done() and not task.cancelled() and task.exception() is None
        return is_decided and task.result()

    def disk_fails(self) -> None:
        """From now on, for this life, the broker may fail in what it does with its disk."""
        self.failed_life = self.lives

    def _new_process(self) -> Process:
        process = super()._new_process()
        # A fault that did not strike the former life may strike this one.
        is_sound = self.failed_directory.path is None and not self.disk.faults.is_any_scheduled
        if self._is_full or not is_sound:
            self.disk_fails()
        return process

    def fill_disk(self, left_bytes: int) -> None:
        super().fill_disk(left_bytes)
        self._is_full = True

    def free_disk(self) -> None:
        super().free_disk()
        self._is_full = False

    def check_fault(self) -> None:
        super().check_fault()
        for boot in self._boots:
            if boot.done():
                boot.result()

    async def _boot(self, process: Process) -> None:
        life = self.lives
        starting = await process.start()
        if self._process is not process:
            # Killed on the way.
            return
        error = starting.exception()
        if error is None:
            self._started_life = life
            self._witness.note("started")
        elif isinstance(error, OSError | StorageError) and self.failed_life == life:
            self._witness.note(f"does not start: {error}")
            self.kill()
        else:
            raise error

    def _stall(self, elapsed_ms: int) -> None:
        """The disk takes long: the process stands still after this operation, the others do not."""
        process = self._process
        if process is not None and not process.threads.is_working:
            self.pause()
            # Not in the context of the process, which stands still.
            asyncio.get_running_loop().call_later(
                elapsed_ms / 1e3, self.resume, process, context=kernel_context()
            )


class Cluster:
    """Brokers 1 to `count`. Nothing runs before `start`."""

    def __init__(self, seed: int, count: int, witness: Witness, **settings: str) -> None:
        entropy = SimEntropy(seed).fork("cluster")
        self.warnings: list[Warned] = []
        # Hosts that refuse new connections of clients.
        self.closed_to_clients: set[str] = set()
        self.timeline = Timeline()
        self.trace = Trace()
        self.network = SimNetwork(entropy.fork("network"), trace=self.trace)
        self.ensemble = Ensemble(self.network, entropy.fork("ensemble"))
        self.machines = {
            broker_id: BrokerMachine(
                broker_id,
                entropy.fork(f"machine-{broker_id}"),
                witness,
                timeline=self.timeline,
                network=self.network,
                trace=self.trace,
                ensemble=self.ensemble,
                settings=settings,
                warnings=self.warnings,
            )
            for broker_id in range(1, count + 1)
        }

    @property
    def all(self) -> list[BrokerMachine]:
        return list(self.machines.values())

    @property
    def hosts(self) -> list[str]:
        return [machine.host for machine in self.all]

    @property
    def possible_losses(self) -> list[str]:
        """The partitions whose possible loss controllers have reported, in that order."""
        return [each.partition for each in self.warnings if each.event == POSSIBLE_LOSS]

    @property
    def sessions_lost(self) -> int:
        """How often a broker lost its session and lived on."""
        return sum(each.event == SESSION_LOST for each in self.warnings)

    def wall_ms(self) -> int:
        """The time of a clock that nobody sets."""
        return WALL_MS + self.timeline.now_ns // 1_000_000

    def check_faults(self) -> None:
        for machine in self.all:
            machine.check_fault()

    async def start(self, timeout_s: float) -> None:
        """All brokers serve on return. TimeoutError if one does not."""
        for machine in self.all:
            machine.switch_on()
        for machine in self.all:
            await machine.until_up(timeout_s)

    async def connect(self, net: SimNet, host: str, port: int = CLIENT_PORT) -> "BrokerLine":
        """A client's connection. OSError or TimeoutError if nobody answers."""
        if host in self.closed_to_clients:
            raise ConnectionRefusedError(f"{host} is closed to clients")
        machine = next(machine for machine in self.all if machine.host == host)
        life, power_losses = machine.lives, machine.power_losses
        line = await RequestLine.dial(net, host, port)
        return BrokerLine(machine, line, life, power_losses)


class BrokerLine:
    """A connection, with the machine's life and power losses from before it was opened."""

    __slots__ = ("life", "line", "machine", "power_losses")

    def __init__(
        self, machine: BrokerMachine, line: RequestLine, life: int, power_losses: int
    ) -> None:
        self.machine = machine
        self.line = line
        self.life = life
        self.power_losses = power_losses

    @property
    def is_current(self) -> bool:
        """Whether the machine has not lost its power since."""
        return self.power_losses == self.machine.power_losses
