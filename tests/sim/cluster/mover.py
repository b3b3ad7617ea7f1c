"""A client whose partition moves from broker to broker, and which writes to the former ones, too.

The records of this topic are lost with each move, by intention: nothing is copied. The oracle sees
that no broker appends to the partition after it has applied the record that moves it away.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from ottla.errors import ErrorCode
from ottla.metadata.image import Image
from ottla.metadata.records import Partition, Record
from ottla.metadata.values import BrokerState
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.primitives import Uuid
from tests.sim.cluster.admin import CREATE_VERSION, PASSING, PRODUCE_BY_ID_VERSION
from tests.sim.cluster.routing import Routing, TryAgain
from tests.sim.cluster.world import World
from tests.support.broker.produce_and_fetch import batch, only, produce
from tests.support.broker.simulated_broker import new_topic

TOPIC = "moved"
REQUEST_TIMEOUT_MS = 5_000
COMMIT_S_MAX = 5.0


class Mover:
    """Creates the topic, writes, and moves its only partition through the controller."""

    name = "mover"

    def __init__(self, world: World) -> None:
        self._world = world
        self._entropy = world.entropy.fork(self.name)
        self._routing = Routing(world, self.name, self._entropy.fork("routing"))
        self.moves = 0

    def __repr__(self) -> str:
        return f"{self.name}, {self.moves} moves"

    async def run(self) -> None:
        while not self._world.is_calm:
            try:
                await self._work()
            except (OSError, TimeoutError, TryAgain):
                self._routing.close()
            await asyncio.sleep(self._entropy.between(1, 500) / 1e3)
        self._routing.close()

    async def _work(self) -> None:
        await self._create()
        topic_id = await self._routing.topic_id(TOPIC)
        former, _ = await self._routing.leader(TOPIC, topic_id, 0)
        await self._write(topic_id, former.broker_id)
        if await self._move():
            for _ in range(self._entropy.between(1, 4)):
                await asyncio.sleep(self._entropy.between(0, 100) / 1e3)
                await self._write(topic_id, former.broker_id)
        self._routing.forget(topic_id, 0)

    async def _create(self) -> None:
        line = await self._routing.controller()
        request = CreateTopicsRequest(topics=(new_topic(TOPIC),), timeout_ms=REQUEST_TIMEOUT_MS)
        (result,) = (await line.line.ask(request, CREATE_VERSION)).topics
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise TryAgain

    async def _write(self, topic_id: Uuid, broker_id: int) -> None:
        """To this broker, whether it leads or not."""
        line = await self._routing.to_host(self._world.cluster.machines[broker_id].host)
        content = batch(b"moved", timestamp_ms=self._world.cluster.wall_ms())
        result = only(await line.line.ask(produce(topic_id, content), PRODUCE_BY_ID_VERSION))
        assert result.error_code in (ErrorCode.NONE, *PASSING), result

    async def _move(self) -> bool:
        """Whether the partition has moved to another broker."""
        for machine in self._world.cluster.all:
            if machine.is_controller:
                is_moved = await machine.commit(self._decide, COMMIT_S_MAX)
                self.moves += is_moved
                return is_moved
        return False

    def _decide(self, image: Image) -> tuple[Sequence[Record], bool]:
        topic = image.topic(TOPIC)
        before = None if topic is None else image.partition(topic.topic_id, 0)
        targets = [
            broker.incarnation
            for _, broker in sorted(image.brokers.items())
            if broker.state is BrokerState.UP
            and before is not None
            and broker.broker_id not in before.replicas
        ]
        if before is None or not targets:
            return (), False
        target = self._entropy.pick(targets)
        after: Partition = replace(
            before,
            replicas=(target.broker_id,),
            leader=target,
            isr=(target,),
            elr=(),
            unclean=(),
            leader_epoch=before.leader_epoch + 1,
            partition_epoch=before.partition_epoch + 1,
        )
        return (after,), True
