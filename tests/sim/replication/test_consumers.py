"""Consumers tell a promise that is broken from what a loss excuses, and excuse nothing else.

A story has two brokers: number 1 leads first and is deposed without knowing it, number 2 leads in
the next leader epoch. Replica 3 has a part in the losses only.
"""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.metadata.records import Partition as PartitionRecord
from ottla.metadata.values import Incarnation
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.messages.fetch import FetchResponse, PartitionResult, TopicResult
from ottla.protocol.primitives import Uuid
from ottla.replication.local_broker import LocalBroker
from ottla.replication.partition import Partition
from tests.sim.broker.history import Sent
from tests.sim.broker.witness import Witness
from tests.sim.cluster.cluster import BrokerLine, BrokerMachine, Cluster
from tests.sim.cluster.routing import Leader, TryAgain
from tests.sim.cluster.world import Shape
from tests.sim.replication.consumers import Consumer
from tests.sim.replication.oracle import ReplicationOracle
from tests.sim.replication.world import ReplicationWorld, Target
from tests.sim.seams.entropy import SimEntropy
from tests.support.broker.produce_and_fetch import batch

TOPIC_ID = Uuid(b"0123456789abcdef")
TARGET = Target("events", TOPIC_ID, 0)
ONE, TWO, THREE = Incarnation(1, 10), Incarnation(2, 11), Incarnation(3, 12)
FIRST = PartitionRecord(
    topic_id=TOPIC_ID,
    index=0,
    replicas=(1, 2, 3),
    leader=ONE,
    leader_epoch=4,
    isr=(ONE, TWO, THREE),
    min_isr=2,
    partition_epoch=7,
)
VALUES = (b"a", b"b")


class Story:
    """Brokers that hear of a record, or do not, and a consumer that reads one offset from one."""

    def __init__(self, *, is_flushed: bool = False) -> None:
        witness, entropy = Witness(), SimEntropy(1)
        oracle = ReplicationOracle(is_flushed=is_flushed)
        self.world = ReplicationWorld(Cluster(1, 3, witness), Shape(), entropy, witness, oracle)
        self.history = self.world.partition(TARGET)
        for number, value in enumerate(VALUES):
            self.history.send(value, Sent("producer", number, may_repeat=False))
        self._consumer = Consumer(
            self.world, "consumer", Isolation.READ_UNCOMMITTED, targets=[TARGET]
        )
        self.dropped: list[BrokerLine] = []
        self._partitions: dict[int, Partition] = {}
        for each in (ONE, TWO, THREE):
            me = LocalBroker(each.broker_id, "", each)
            partition = Partition(TOPIC_ID, 0, me)
            self._partitions[each.broker_id] = partition
            oracle.opened(cast("Any", SimpleNamespace(partition=partition)))
        self.record = FIRST
        self.commit()

    def commit(self, heard_by: tuple[Incarnation, ...] = (ONE, TWO, THREE), **fields: Any) -> None:
        """The next record of the partition. A change of the leader is another epoch."""
        before = self.record
        record = replace(before, **fields, partition_epoch=before.partition_epoch + 1)
        if record.leader != before.leader:
            record = replace(record, leader_epoch=before.leader_epoch + 1)
        self.record = record
        self.world.oracle.losses.recorded(record)
        for each in heard_by:
            self._partitions[each.broker_id].assign(record, 0)

    def lose_power(self, *brokers: Incarnation) -> None:
        excuses = self.world.excuses(TARGET)
        for each in brokers:
            self.world.lose_power(self._machine(each))
        assert self.world.excuses(TARGET) == excuses + 1

    def read(
        self,
        broker: Incarnation,
        value: bytes,
        *,
        offset: int = 0,
        lives_ago: int = 0,
        meanwhile: dict[str, Any] | None = None,
    ) -> None:
        """The broker serves this value there. A record may be committed before the answer comes.

        Its process has ended so many times since the connection was begun.
        """

        async def ask(*_: object) -> FetchResponse:
            if meanwhile is not None:
                self.commit(heard_by=(TWO, THREE), **meanwhile)
            return _response(offset, value)

        machine = self._machine(broker)
        answering = cast("Any", SimpleNamespace(ask=ask))
        life = machine.lives - lives_ago
        line = BrokerLine(machine, answering, life, machine.power_losses)

        async def leader(*_: object) -> tuple[Leader, BrokerLine]:
            epoch = self._partitions[broker.broker_id].leader_epoch
            return Leader(broker.broker_id, epoch), line

        consumer = self._consumer
        routing = SimpleNamespace(leader=leader, drop=self.dropped.append)
        consumer._routing = cast("Any", routing)
        consumer._positions[TARGET] = offset
        consumer._excuses[TARGET] = self.world.excuses(TARGET)
        asyncio.run(consumer._poll(TARGET))

    def _machine(self, broker: Incarnation) -> BrokerMachine:
        return self.world.cluster.machines[broker.broker_id]


def _response(offset: int, value: bytes) -> FetchResponse:
    content = batch(value)
    content[0:8] = offset.to_bytes(8, "big")
    result = PartitionResult(
        partition_index=0,
        error_code=0,
        high_watermark=offset + 1,
        last_stable_offset=offset + 1,
        aborted_transactions=None,
        records=memoryview(content),
    )
    topic = TopicResult(topic="events", topic_id=TOPIC_ID, partitions=(result,))
    return FetchResponse(responses=(topic,))


def test_a_deposed_leader_that_serves_another_record_is_found_where_nothing_was_lost() -> None:
    story = Story()
    story.commit(heard_by=(TWO, THREE), leader=TWO)
    story.read(TWO, b"a")
    with pytest.raises(AssertionError, match="b'a' was read at 0, where now is b'b'"):
        story.read(ONE, b"b")


def test_a_leader_deposed_before_a_loss_may_serve_what_is_lost() -> None:
    story = Story()
    story.commit(heard_by=(TWO, THREE), leader=TWO, isr=(TWO, THREE))
    story.lose_power(TWO, THREE)
    story.commit(heard_by=(TWO, THREE), leader=None)
    story.commit(heard_by=(TWO, THREE), leader=TWO)
    with pytest.raises(TryAgain):
        story.read(ONE, b"a")
    # What it served is no promise, and no position of the consumer.
    story.read(TWO, b"b")


def test_a_leader_that_was_elected_after_a_loss_keeps_its_promise_when_it_is_deposed() -> None:
    """Fails where a loss excuses all leaders that were ever deposed."""
    story = Story()
    story.lose_power(TWO, THREE)
    story.commit(leader=None)
    story.commit(leader=ONE)
    story.commit(heard_by=(TWO, THREE), leader=TWO)
    story.read(TWO, b"a")
    with pytest.raises(AssertionError, match="b'a' was read at 0, where now is b'b'"):
        story.read(ONE, b"b")


def test_a_leader_deposed_after_a_loss_is_held_to_what_it_served_before() -> None:
    story = Story()
    story.lose_power(TWO, THREE)
    story.commit(leader=None)
    story.commit(leader=ONE)
    story.read(ONE, b"a", meanwhile={"leader": TWO})
    with pytest.raises(AssertionError, match="b'a' was read at 0, where now is b'b'"):
        story.read(TWO, b"b")


def test_the_leader_that_a_loss_has_spared_keeps_its_promise() -> None:
    story = Story()
    story.lose_power(TWO, THREE)
    story.read(ONE, b"a")
    with pytest.raises(AssertionError, match="b'a' was read at 0, where now is b'b'"):
        story.read(ONE, b"b")


def test_a_leader_of_before_a_loss_that_is_deposed_while_it_answers_promises_nothing() -> None:
    story = Story()
    story.lose_power(TWO, THREE)
    with pytest.raises(TryAgain):
        story.read(ONE, b"a", meanwhile={"leader": TWO})
    story.read(TWO, b"b")


def test_a_connection_from_before_a_restart_is_not_kept_after_a_loss() -> None:
    """The leader's answers on it would be no promise for ever."""
    story = Story()
    story.lose_power(TWO, THREE)
    with pytest.raises(TryAgain):
        story.read(ONE, b"a", lives_ago=1)
    assert [line.machine.broker_id for line in story.dropped] == [1]
    story.read(ONE, b"a")
    assert len(story.dropped) == 1


def test_a_deposed_leader_is_held_to_what_was_flushed_before_a_loss() -> None:
    story = Story(is_flushed=True)
    story.history.acknowledge(0, [b"a"])
    story.commit(heard_by=(TWO, THREE), leader=TWO, isr=(TWO, THREE))
    story.lose_power(TWO, THREE)
    with pytest.raises(TryAgain):
        story.read(ONE, b"a")
    with pytest.raises(TryAgain):
        story.read(ONE, b"b", offset=1)
    with pytest.raises(AssertionError, match="b'a' was acknowledged at 0, where now is b'b'"):
        story.read(ONE, b"b")
