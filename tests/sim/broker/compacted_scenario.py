"""One seed of a broker that compacts: its clients, what befalls it and its worker, what must hold.

Under an even seed every message is flushed, and the power is lost, too.
"""

import asyncio
from typing import Any

from ottla.errors import ErrorCode
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from tests.sim.broker.compacted_clients import Reader, Writer
from tests.sim.broker.compacted_history import CompactedHistory
from tests.sim.broker.crowd import work_against
from tests.sim.broker.line import Line
from tests.sim.broker.machine import Machine
from tests.sim.broker.nemesis import Nemesis
from tests.sim.broker.scenario import CREATE_VERSION, LATENESS_NS_MAX
from tests.sim.broker.witness import Witness
from tests.sim.broker.world import MAIN_TOPIC, World
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.loop import run
from tests.support.broker.simulated_broker import new_topic

STEPS_PER_SEED = 8
# Longer than the backoff of the cleaner and its work, with the roll that must come first.
A_ROUND_S = 3.0
# How long to wait for one that may not come.
COMPACTION_MS_MAX = 2_000


class CompactionNemesis(Nemesis):
    """Goes for the worker, and for the broker while the worker is busy."""

    def __init__(self, world: World, hosts: list[str], *, loses_power: bool) -> None:
        super().__init__(world, hosts, loses_power=loses_power)
        self._loses_power = loses_power
        steps: list[Any] = [
            *[CompactionNemesis.kill_the_worker] * 8,
            *[CompactionNemesis.crash_while_it_compacts] * 8,
        ]
        self._lot += steps

    async def kill_the_worker(self) -> None:
        """In the middle of something, if it does anything soon."""
        await self._wait_for_a_compaction()
        await asyncio.sleep(self._entropy.between(0, 30) / 1e3)
        if self._machine.workers is not None:
            self._machine.workers.kill()

    async def crash_while_it_compacts(self) -> None:
        """The worker ends with its broker, perhaps with the whole machine."""
        await self._wait_for_a_compaction()
        loses_power = self._loses_power and self._entropy.chance(0.7)
        await self._machine.kill_within(
            self._entropy.below(100), loses_power=loses_power, wait_s=2.0
        )
        await self._start_again()

    async def _wait_for_a_compaction(self) -> None:
        for _ in range(COMPACTION_MS_MAX):
            if self._machine.workers is not None and self._machine.workers.are_busy:
                return
            await asyncio.sleep(0.001)


class CompactionWitness(Witness):
    """Counts what was compacted."""

    def __init__(self) -> None:
        super().__init__()
        self.compactions = 0
        self.abandoned = 0

    def info(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None:
        self.compactions += event == "log compacted"
        self.abandoned += event == "compaction abandoned"


class CompactedScenario:
    """`served` and `sent` count the records in the end; `reads` all reads that were checked."""

    def __init__(self, seed: int, witness: Witness) -> None:
        self._seed = seed
        self._is_flushed = seed % 2 == 0
        entropy = SimEntropy(seed).fork("scenario")
        settings = {"log.flush.interval.messages": "1"} if self._is_flushed else {}
        settings |= {
            "log.cleaner.backoff.ms": "100",
            "log.cleaner.min.cleanable.ratio": entropy.pick(("0.01", "0.5")),
            "log.cleaner.io.buffer.size": entropy.pick(("1024", "524288")),
            "log.flush.offset.checkpoint.interval.ms": entropy.pick(("500", "60000")),
            "log.segment.delete.delay.ms": entropy.pick(("0", "1000")),
        }
        machine = Machine(seed, witness, **settings)
        witness.clock = machine.clock
        self._world = World(machine, entropy, witness)
        self.history = CompactedHistory(entropy.pick((0, 1_000, 10_000)))
        machine.on_power_loss = self.history.lose_power
        self.served = 0
        self.reads = 0

    def run(self, steps: int = STEPS_PER_SEED) -> str:
        """The hash of all that went over the network and to the disk."""
        machine = self._world.machine
        run(self._run(steps), self._seed, clock=machine.clock, lateness_ns_max=LATENESS_NS_MAX)
        return machine.trace.hash()

    async def _run(self, steps: int) -> None:
        await self._world.machine.start()
        await self._create_topic()
        writers = [
            Writer(self._world, self.history, f"writer-{number}", is_idempotent=kind)
            for number, kind in enumerate((True, False))
        ]
        readers = [Reader(self._world, self.history, f"reader-{number}") for number in range(2)]
        clients = (*writers, *readers)
        nemesis = CompactionNemesis(
            self._world, [client.name for client in clients], loses_power=self._is_flushed
        )
        await work_against(nemesis, clients, steps)
        await asyncio.sleep(A_ROUND_S)
        self.served = len(await readers[0].read())
        self.reads = sum(reader.reads for reader in readers)
        self._world.machine.check_fault()
        await self._world.machine.stop()

    async def _create_topic(self) -> None:
        line = await Line.open(self._world.machine, "admin")
        configs: dict[str, str | None] = {
            "cleanup.policy": "compact",
            "segment.ms": "400",
            "index.interval.bytes": "200",
            "delete.retention.ms": str(self.history.delete_retention_ms),
        }
        request = CreateTopicsRequest(topics=(new_topic(MAIN_TOPIC, configs=configs),))
        (result,) = (await line.ask(request, CREATE_VERSION)).topics
        assert result.error_code == ErrorCode.NONE, result
        line.close()
