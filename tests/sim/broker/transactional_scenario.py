"""One seed of transactions: who writes, commits and reads, what befalls the broker, what must hold.

Under an even seed every message is flushed, and the power is lost, too.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from unittest.mock import patch

from ottla.coordinators.txn.coordinator import LocalVerifier
from ottla.coordinators.txn.verification import Verification
from ottla.errors import ErrorCode
from ottla.protocol.coordinator_type import CoordinatorType
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.delete_topics import Topic as DeletedTopic
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.metadata import MetadataRequest, RequestedTopic
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.broker.crowd import Client, work_against
from tests.sim.broker.line import Line
from tests.sim.broker.machine import Machine
from tests.sim.broker.producers import Producer
from tests.sim.broker.scenario import CREATE_VERSION, LATENESS_NS_MAX
from tests.sim.broker.transactional_audit import BrokerAudit
from tests.sim.broker.transactional_committers import OffsetReader, PlainCommitter
from tests.sim.broker.transactional_history import TransactionalHistory
from tests.sim.broker.transactional_nemesis import TransactionalNemesis
from tests.sim.broker.transactional_producers import TransactionalProducer
from tests.sim.broker.transactional_readers import READ_COMMITTED, READ_UNCOMMITTED, Reader
from tests.sim.broker.transactional_world import (
    FLEETING_TOPIC,
    GROUP,
    SIDE_TOPIC,
    OneBrokerWorld,
)
from tests.sim.broker.witness import Witness
from tests.sim.broker.world import MAIN_PARTITIONS, MAIN_TOPIC, World
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.loop import run
from tests.support.broker.simulated_broker import new_topic

STEPS_PER_SEED = 8
DAY_MS = 86_400_000
DELETE_VERSION = 6
FIND_VERSION = 4
METADATA_VERSION = 12
GROUP_PARTITIONS = 2
# The transactional ids, and the transaction version of each producer that uses them: those of one
# id fence one another.
PRODUCERS = {"one": (1,), "two": (2,), "shared": (1, 2)}
# In the end the first ones of them are left with an open transaction.
IDS_ABANDONED = 2

Codes = Mapping[TopicPartition, ErrorCode]
Verify = Callable[[LocalVerifier, Verification], Awaitable[Codes]]


class TransactionalScenario:
    """`counts` says what was met, of which the test wants some of each."""

    def __init__(self, seed: int, witness: Witness) -> None:
        self._seed = seed
        self._is_flushed = seed % 2 == 0
        entropy = SimEntropy(seed).fork("scenario")
        settings = {"log.flush.interval.messages": "1"} if self._is_flushed else {}
        settings |= {
            "offsets.topic.num.partitions": str(GROUP_PARTITIONS),
            "transaction.state.log.num.partitions": "2",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
            "log.roll.ms": entropy.pick(("200", "1500")),
            "log.cleaner.backoff.ms": "200",
            "log.cleaner.min.cleanable.ratio": "0.01",
            "log.cleaner.delete.retention.ms": entropy.pick(("0", "2000", "60000")),
            "log.flush.offset.checkpoint.interval.ms": entropy.pick(("500", "60000")),
            "log.segment.delete.delay.ms": entropy.pick(("0", "1000")),
            "ottla.disk.reserve.bytes": entropy.pick(("0", "30000")),
            # A batch may be sent again after the clock was set back more than once.
            "log.message.timestamp.after.max.ms": str(DAY_MS),
        }
        ids_expire = entropy.chance(0.15)
        if ids_expire:
            settings["transactional.id.expiration.ms"] = "1500"
            settings["transaction.remove.expired.transaction.cleanup.interval.ms"] = "300"
        machine = Machine(seed, witness, **settings)
        witness.clock = machine.clock
        base = World(machine, entropy, witness)
        history = TransactionalHistory(machine.clock, ids_expire=ids_expire)
        self.world = OneBrokerWorld(base=base, history=history)
        machine.on_power_loss = self._lose_power
        machine.on_death = lambda: self.world.history.end_life(machine.lives)

    @property
    def counts(self) -> Counter[str]:
        history = self.world.history
        return history.totals + Counter({"seeds in which ids expire": int(history.ids_expire)})

    def run(self, steps: int = STEPS_PER_SEED) -> str:
        """The hash of all that went over the network and to the disk."""
        machine = self.world.base.machine
        with patch.object(LocalVerifier, "verify", self._late(LocalVerifier.verify)):
            run(self._run(steps), self._seed, clock=machine.clock, lateness_ns_max=LATENESS_NS_MAX)
        return machine.trace.hash()

    def _late(self, verify: Verify) -> Verify:
        """Verification as if the coordinator were on another broker: its answer comes later."""
        entropy = self.world.base.entropy.fork("verification")

        async def verify_late(verifier: LocalVerifier, verification: Verification) -> Codes:
            answer = await verify(verifier, verification)
            if entropy.chance(0.5):
                await asyncio.sleep(entropy.between(0, 500) / 1e3)
            return answer

        return verify_late

    def _lose_power(self) -> None:
        self.world.base.history.lose_power()
        self.world.history.lose_power()

    async def _run(self, steps: int) -> None:
        machine = self.world.base.machine
        await machine.start()
        await self._create_topics()
        producers = self._producers()
        clients = [*producers, *self._other_clients()]
        nemesis = TransactionalNemesis(
            self.world, [client.name for client in clients], loses_power=self._is_flushed
        )
        await work_against(nemesis, clients, steps)
        machine.check_fault()
        audit = BrokerAudit(self.world, tuple(PRODUCERS), GROUP_PARTITIONS)
        await audit.check()
        machine.check_fault()
        # Once more from the disk alone.
        for producer in producers[:IDS_ABANDONED]:
            await producer.abandon()
        await nemesis.crash_in_peace()
        await audit.check()
        machine.check_fault()
        await machine.stop()

    def _producers(self) -> list[TransactionalProducer]:
        producers = [
            TransactionalProducer(
                self.world, f"{transactional_id}-{number}", transactional_id, version=version
            )
            for transactional_id, versions in PRODUCERS.items()
            for number, version in enumerate(versions)
        ]
        self.world.producers_left = len(producers)
        return producers

    def _other_clients(self) -> list[Client]:
        plain = [
            Producer(self.world.base, f"producer-{number}", number, is_idempotent=kind)
            for number, kind in enumerate((True, False))
        ]
        readers = [
            Reader(self.world, f"reader-{number}", isolation=isolation)
            for number, isolation in enumerate((READ_COMMITTED, READ_COMMITTED, READ_UNCOMMITTED))
        ]
        others = (PlainCommitter(self.world), OffsetReader(self.world), Deleter(self.world))
        return [*plain, *readers, *others]

    async def _create_topics(self) -> None:
        line = await Line.open(self.world.base.machine, "admin")
        topics = ((MAIN_TOPIC, MAIN_PARTITIONS), (SIDE_TOPIC, 1), (FLEETING_TOPIC, 1))
        request = CreateTopicsRequest(topics=tuple(new_topic(*each) for each in topics))
        for result in (await line.ask(request, CREATE_VERSION)).topics:
            assert result.error_code == ErrorCode.NONE, result
            self.world.know(result.name, result.topic_id)
        self.world.base.main_id = self.world.topic_id(MAIN_TOPIC)
        for kind, keys in (
            (CoordinatorType.GROUP, (GROUP,)),
            (CoordinatorType.TRANSACTION, tuple(PRODUCERS)),
        ):
            finding = FindCoordinatorRequest(key_type=kind, coordinator_keys=keys)
            for found in (await line.ask(finding, FIND_VERSION)).coordinators:
                assert found.error_code == ErrorCode.NONE, found
        line.close()


class Deleter:
    """Deletes a topic in which transactions are open, and makes it again."""

    name = "deleter"

    def __init__(self, world: OneBrokerWorld) -> None:
        self._world = world
        self._entropy = world.base.entropy.fork(self.name)

    async def run(self) -> None:
        while not self._world.base.is_calm:
            try:
                line = await Line.open(self._world.base.machine, self.name)
                try:
                    await self._delete_and_create(line)
                finally:
                    line.close()
            except (OSError, TimeoutError):
                pass
            await asyncio.sleep(self._entropy.between(1, 3_000) / 1e3)

    async def _delete_and_create(self, line: Line) -> None:
        topic_id = self._world.topic_id(FLEETING_TOPIC)
        topics = (DeletedTopic(name=None, topic_id=topic_id),)
        await line.ask(DeleteTopicsRequest(topics=topics, timeout_ms=5_000), DELETE_VERSION)
        self._world.history.deletions += 1
        await asyncio.sleep(self._entropy.between(0, 500) / 1e3)
        request = CreateTopicsRequest(topics=(new_topic(FLEETING_TOPIC),))
        (result,) = (await line.ask(request, CREATE_VERSION)).topics
        if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
            # It was not deleted, or the answer to its creation was lost.
            asked = MetadataRequest(
                topics=(RequestedTopic(name=FLEETING_TOPIC),), allow_auto_topic_creation=False
            )
            (result,) = (await line.ask(asked, METADATA_VERSION)).topics
        if result.error_code == ErrorCode.NONE:
            self._world.know(FLEETING_TOPIC, result.topic_id)
