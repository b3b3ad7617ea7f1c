"""One seed: a broker, its clients, what befalls them, and what must hold in the end."""

from typing import Any

from ottla.errors import ErrorCode
from ottla.protocol.batch import records
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from tests.sim.broker.churn import Churner
from tests.sim.broker.consumers import Consumer, batches_of
from tests.sim.broker.crowd import work_against
from tests.sim.broker.line import Line
from tests.sim.broker.machine import Machine
from tests.sim.broker.nemesis import Nemesis
from tests.sim.broker.producers import Producer
from tests.sim.broker.witness import Witness
from tests.sim.broker.world import MAIN_PARTITIONS, MAIN_TOPIC, World
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.loop import run
from tests.support.broker.produce_and_fetch import fetch, only, wanted
from tests.support.broker.simulated_broker import new_topic

STEPS_PER_SEED = 8
LATENESS_NS_MAX = 200_000
FETCH_VERSION = 17
CREATE_VERSION = 7


class Scenario:
    """Under an even seed every message is flushed, and the power is lost, too."""

    def __init__(self, seed: int, witness: Witness) -> None:
        self._seed = seed
        self._is_flushed = seed % 2 == 0
        settings = {"log.flush.interval.messages": "1"} if self._is_flushed else {}
        entropy = SimEntropy(seed).fork("scenario")
        settings["log.flush.offset.checkpoint.interval.ms"] = entropy.pick(("500", "60000"))
        settings["log.segment.delete.delay.ms"] = entropy.pick(("0", "1000", "60000"))
        machine = Machine(seed, witness, **settings)
        witness.clock = machine.clock
        self.world = World(machine, entropy, witness)
        machine.on_power_loss = self.world.history.lose_power

    def run(self, steps: int = STEPS_PER_SEED) -> str:
        """The hash of all that went over the network and to the disk."""
        machine = self.world.machine
        run(self._run(steps), self._seed, clock=machine.clock, lateness_ns_max=LATENESS_NS_MAX)
        return machine.trace.hash()

    async def _run(self, steps: int) -> None:
        await self.world.machine.start()
        await self._create_main_topic()
        producers = [
            Producer(self.world, f"producer-{number}", number % MAIN_PARTITIONS, is_idempotent=kind)
            for number, kind in enumerate((True, True, False))
        ]
        consumers = [Consumer(self.world, f"consumer-{number}") for number in range(3)]
        churner = Churner(self.world)
        self.world.producers_left = len(producers)
        clients = (*producers, *consumers, churner)
        nemesis = Nemesis(
            self.world, [client.name for client in clients], loses_power=self._is_flushed
        )
        await work_against(nemesis, clients, steps)
        await self._check(churner)
        await self.world.machine.stop()

    async def _create_main_topic(self) -> None:
        line = await Line.open(self.world.machine, "admin")
        configs: dict[str, str | None] = {"segment.ms": "2000", "index.interval.bytes": "200"}
        topic = new_topic(MAIN_TOPIC, MAIN_PARTITIONS, configs=configs)
        response = await line.ask(CreateTopicsRequest(topics=(topic,)), CREATE_VERSION)
        (result,) = response.topics
        assert result.error_code == ErrorCode.NONE, result
        self.world.main_id = result.topic_id
        line.close()

    # In the end

    async def _check(self, churner: Churner) -> None:
        line = await Line.open(self.world.machine, "auditor")
        for index in range(MAIN_PARTITIONS):
            values = await self._read_all(line, index)
            self.world.main_partition(index).check_log(0, values)
        await churner.check(line)
        line.close()
        self.world.machine.check_fault()

    async def _read_all(self, line: Line, index: int) -> list[bytes]:
        values: list[bytes] = []
        while True:
            request = fetch(self.world.main_id, wanted(index, len(values)))
            result: Any = only(await line.ask(request, FETCH_VERSION))
            assert result.error_code == ErrorCode.NONE, result
            assert result.log_start_offset == 0
            batches = list(batches_of(result.records, len(values)))
            for _, content in batches:
                values += [record.value or b"" for record in records(content)]
            if not batches:
                assert result.high_watermark == len(values)
                return values
