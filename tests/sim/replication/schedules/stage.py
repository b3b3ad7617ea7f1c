"""A cluster of three brokers and one topic, for a story in which every fault has its place."""

import asyncio
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from ottla.errors import ErrorCode
from ottla.metadata.records import Partition
from ottla.metadata.values import BrokerState
from ottla.protocol.acks import Acks
from ottla.protocol.batch import records
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from ottla.protocol.messages.alter_partition_reassignments import Partition as Reassigned
from ottla.protocol.messages.alter_partition_reassignments import Topic as ReassignedTopic
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.incremental_alter_configs import (
    Config,
    IncrementalAlterConfigsRequest,
    Resource,
)
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.replication.replica import Replica
from tests.sim.broker.witness import Witness
from tests.sim.cluster import sessions
from tests.sim.cluster.cluster import BrokerMachine, Cluster
from tests.sim.cluster.metadata_audit import StoreClaims
from tests.sim.replication.final_audit import check_replicas
from tests.sim.replication.oracle import ReplicationOracle
from tests.sim.replication.probes import isr_answers_lost, replication_probed
from tests.sim.replication.stored_batches import stored_batches
from tests.sim.request_line import RequestLine
from tests.sim.seams.loop import run
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.simulated_broker import new_topic

TOPIC = "orders"
BROKERS = 3
CLIENT = "client"
UNTIL_S_MAX = 40.0
POLL_S = 0.05
PRODUCE_VERSION, FETCH_VERSION, CREATE_VERSION, ALTER_VERSION, ELECT_VERSION = 13, 17, 7, 1, 2
REASSIGN_VERSION = 1
TOPIC_RESOURCE, SET, PREFERRED = 2, 0, 0
SETTINGS = {
    # Longer than any story: followers leave the ISR with their sessions only.
    "replica.lag.time.max.ms": "600000",
    "replica.fetch.backoff.ms": "100",
    "replica.socket.timeout.ms": "1000",
    # One of three brokers does not have the transaction coordinator's partition.
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
}

Story = Callable[["Stage"], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Schedule:
    """A story, a bug with which it must not come to its end, and a pattern of how it fails then."""

    story: Story
    bug: Callable[[Any], None]
    failure: str
    # Decides what a power loss takes.
    seed: int = 1

    @property
    def name(self) -> str:
        return self.story.__name__


class Stage:
    """`controller` is the controller's broker id at the start, `one` and `two` are the others."""

    def __init__(self, seed: int) -> None:
        self.witness = Witness()
        self.cluster = Cluster(seed, BROKERS, self.witness, **SETTINGS)
        self.oracle = ReplicationOracle()
        self.controller = self.one = self.two = 0
        # Of AlterPartition.
        self.loses_isr_requests = self.loses_isr_answers = False
        self._topic_id: Uuid = ZERO_UUID

    async def set_up(self) -> None:
        await self.cluster.start(UNTIL_S_MAX)
        (self.controller,) = (
            machine.broker_id for machine in self.cluster.all if machine.is_controller
        )
        self.one, self.two = (each for each in self.cluster.machines if each != self.controller)

    def machine(self, broker_id: int) -> BrokerMachine:
        return self.cluster.machines[broker_id]

    # The topic

    async def create_topic(self, *replicas: int, min_isr: int) -> None:
        """With one partition. The first replica leads it."""
        configs: dict[str, str | None] = {"min.insync.replicas": str(min_isr)}
        topic = new_topic(TOPIC, -1, factor=-1, configs=configs, assignments={0: replicas})
        request = CreateTopicsRequest(topics=(topic,), timeout_ms=5_000)
        (result,) = (await self.ask(self.controller, request, CREATE_VERSION)).topics
        assert result.error_code == ErrorCode.NONE, result
        self._topic_id = result.topic_id
        await self.until(lambda: all(self._has_replica(each) for each in replicas))

    def _has_replica(self, broker_id: int) -> bool:
        replica = self.oracle.replica((self._topic_id, 0), broker_id)
        return replica is not None and replica.partition.leader is not None

    async def set_min_isr(self, min_isr: int) -> None:
        config = Config(name="min.insync.replicas", config_operation=SET, value=str(min_isr))
        resource = Resource(resource_type=TOPIC_RESOURCE, resource_name=TOPIC, configs=(config,))
        request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
        (result,) = (await self.ask(self.controller, request, ALTER_VERSION)).responses
        assert result.error_code == ErrorCode.NONE, result

    async def elect_preferred(self) -> None:
        asked = TopicPartitions(topic=TOPIC, partitions=(0,))
        request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=(asked,))
        response = await self.ask(self.controller, request, ELECT_VERSION)
        assert response.error_code == ErrorCode.NONE, response

    async def reassign(self, *replicas: int) -> None:
        """Also to another number of replicas. New ones have to join the ISR yet."""
        partition = Reassigned(partition_index=0, replicas=replicas)
        topic = ReassignedTopic(name=TOPIC, partitions=(partition,))
        request = AlterPartitionReassignmentsRequest(topics=(topic,))
        response = await self.ask(self.controller, request, REASSIGN_VERSION)
        assert response.error_code == ErrorCode.NONE, response
        assert response.responses[0].partitions[0].error_code == ErrorCode.NONE, response

    @property
    def record(self) -> Partition:
        """The newest record of the partition that any broker has applied."""
        return self.oracle.losses.newest[self._topic_id, 0]

    def knows(self, topic: str) -> bool:
        """Whether all brokers know a topic, and who leads its first partition."""
        images = [self.oracle.images[each.process_name] for each in self.cluster.all]
        return all(image.leader_id(topic, 0) is not None for image in images)

    def record_of(self, topic: str) -> Partition:
        """As `record`, of the first partition of another topic, which `knows` knows."""
        images = (self.oracle.images[each.process_name] for each in self.cluster.all)
        found = next(found for image in images if (found := image.topic(topic)) is not None)
        return self.oracle.losses.newest[found.topic_id, 0]

    @property
    def leader(self) -> int | None:
        return None if self.record.leader is None else self.record.leader.broker_id

    @property
    def isr(self) -> set[int]:
        return {member.broker_id for member in self.record.isr}

    @property
    def elr(self) -> set[int]:
        return {member.broker_id for member in self.record.elr}

    def leads(self, broker_id: int) -> bool:
        """Whether a broker leads, and knows it."""
        partition = self.replica(broker_id).partition
        return self.leader == broker_id and partition.is_leader

    def is_up(self, broker_id: int) -> bool:
        """Whether the controller's image has the broker's present incarnation as up."""
        image = self.oracle.images[self.machine(self.controller).process_name]
        broker = image.brokers.get(broker_id)
        return self.machine(broker_id).is_up and (
            broker is not None and broker.state is BrokerState.UP
        )

    def replica(self, broker_id: int) -> Replica:
        replica = self.oracle.replica((self._topic_id, 0), broker_id)
        assert replica is not None
        return replica

    def log(self, broker_id: int) -> list[bytes]:
        """All values in a broker's log, committed or not."""
        log = self.replica(broker_id).log
        if log is None:
            return []
        return [
            record.value or b""
            for stored in stored_batches(log)
            for record in records(memoryview(stored.content))
        ]

    # Requests

    async def ask(self, broker_id: int, request: object, version: int) -> Any:
        line = await self.connect(broker_id)
        try:
            return await line.ask(request, version)
        finally:
            line.close()

    async def connect(self, broker_id: int) -> RequestLine:
        net = self.cluster.network.host(CLIENT)
        return (await self.cluster.connect(net, self.machine(broker_id).host)).line

    async def write(self, broker_id: int, value: bytes, acks: Acks = Acks.ALL) -> None:
        """Must succeed."""
        code = await self.try_to_write(broker_id, value, acks)
        assert code == ErrorCode.NONE, f"{value!r} is refused: {ErrorCode(code).name}"

    async def try_to_write(self, broker_id: int, value: bytes, acks: Acks = Acks.ALL) -> int:
        request = produce(self._topic_id, self._batch(value), acks=acks, timeout_ms=5_000)
        code: int = only(await self.ask(broker_id, request, PRODUCE_VERSION)).error_code
        return code

    async def begin_to_write(self, broker_id: int, value: bytes) -> asyncio.Future[Any]:
        """The future answer to a produce that waits for the ISR as long as it takes."""
        return self.send(await self.connect(broker_id), value)

    def send(self, line: RequestLine, value: bytes, acks: Acks = Acks.ALL) -> asyncio.Future[Any]:
        """The same on a connection that is open."""
        request = produce(self._topic_id, self._batch(value), acks=acks, timeout_ms=300_000)
        return line.send(request, PRODUCE_VERSION)

    def _batch(self, value: bytes) -> bytearray:
        return batch(value, timestamp_ms=self.cluster.wall_ms())

    async def read(self, broker_id: int) -> list[bytes | None]:
        """The committed values, from the leader."""
        request = fetch(self._topic_id, wanted(0, 0))
        result = only(await self.ask(broker_id, request, FETCH_VERSION))
        assert result.error_code == ErrorCode.NONE, result
        return values(result.records)

    # Faults

    def cut(self, one: int, other: int) -> None:
        """Both ways between two brokers."""
        self.cluster.network.partition(self.machine(one).host, self.machine(other).host)

    def heal(self, one: int, other: int) -> None:
        self.cluster.network.heal(self.machine(one).host, self.machine(other).host)

    def cut_off_from_ensemble(self, broker_id: int) -> None:
        self.cluster.network.partition(self.machine(broker_id).host, sessions.HOST)

    def let_to_ensemble(self, broker_id: int) -> None:
        self.cluster.network.heal(self.machine(broker_id).host, sessions.HOST)

    async def until(self, condition: Callable[[], bool]) -> None:
        """AssertionError if it does not come true in time, or something must not be."""
        try:
            async with asyncio.timeout(UNTIL_S_MAX):
                while not condition():
                    self.oracle.check()
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise AssertionError(f"it does not come: {self.record}") from None

    async def until_in_sync(self) -> None:
        """All replicas are in the ISR, and have heard of the last high watermark."""
        await self.until(lambda: self.isr == set(self.record.replicas))
        await asyncio.sleep(2)


def why_it_fails(error: BaseException) -> str:
    """The failure, with the line of the story in which it came."""
    lines = traceback.extract_tb(error.__traceback__)
    told = [each.line or "" for each in lines if "/schedules/" in each.filename]
    return f"{error} in {told[-1] if told else 'no story'}"


def perform(story: Story, seed: int = 1) -> None:
    """Ends with all replicas in sync, and equal. AssertionError if something must not be."""
    stage = Stage(seed)

    async def tell() -> None:
        serving = asyncio.get_running_loop().create_task(stage.cluster.ensemble.run())
        await stage.set_up()
        await story(stage)
        await stage.until_in_sync()
        stage.cluster.check_faults()
        stage.oracle.check()
        image = stage.oracle.images[stage.machine(stage.controller).process_name]
        check_replicas(stage.oracle, image)
        for machine in stage.cluster.all:
            await machine.stop()
        serving.cancel()

    with (
        replication_probed(stage.oracle, StoreClaims()),
        isr_answers_lost(lambda _: stage.loses_isr_answers, lambda _: stage.loses_isr_requests),
    ):
        run(tell(), clock=stage.cluster.all[0].clock)
