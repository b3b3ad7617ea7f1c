"""Java's consumers roll from the classic protocol to the new one and back, in one group."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, Producer
from confluent_kafka.admin import AdminClient

from ottla.testing import Broker
from tests.support.clients.admins import LibrdkafkaAdmin
from tests.support.clients.client import WAIT_S
from tests.support.clients.verifiable import Spell, VerifiableMember
from tests.support.free_port import free_port

GROUP = "rolled"
PARTITIONS = 4


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker with short rebalance delays."""
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port()}",
        "group.initial.rebalance.delay.ms": "200",
        "group.consumer.min.heartbeat.interval.ms": "300",
        "group.consumer.heartbeat.interval.ms": "300",
        "group.consumer.assignment.interval.ms": "0",
    }
    with Broker(settings) as running:
        yield running


class Writer:
    """Writes all the time, to all partitions in turn."""

    def __init__(self, servers: str, topic: str) -> None:
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        # Each is there once, however often it is sent: the offsets are counted.
        settings = {"bootstrap.servers": servers, "linger.ms": 5, "enable.idempotence": True}
        self._producer = Producer(settings)
        self._topic = topic
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_closing.set()
        self._thread.join(WAIT_S)
        assert self._producer.flush(WAIT_S) == 0

    def _write(self) -> None:
        while not self._is_closing.wait(0.01):
            for partition in self.ends:
                self._producer.produce(self._topic, b"value", partition=partition)
                self.ends[partition] += 1
            self._producer.poll(0)


def until(is_so: Callable[[], bool], told: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline, told()
        time.sleep(0.05)


def check_nobody_shared(spells: list[Spell]) -> None:
    """No partition is assigned before its previous owner has revoked it."""
    for partition in range(PARTITIONS):
        own = sorted(
            (each for each in spells if each.partition == partition),
            # Also of two that began in the same millisecond the one that is over came first.
            key=lambda spell: (spell.since_ms, spell.until_ms or math.inf),
        )
        for before, after in pairwise(own):
            assert before.until_ms is not None, (before, after)
            assert before.until_ms <= after.since_ms, (before, after)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("assignor", ["RangeAssignor", "CooperativeStickyAssignor"])
def test_consumers_roll_to_the_new_protocol_and_back(
    broker: Broker, topic: str, tmp_path: Path, assignor: str
) -> None:
    servers = broker.bootstrap_servers
    LibrdkafkaAdmin(servers).create(topic, PARTITIONS, {})
    admin = AdminClient({"bootstrap.servers": servers})
    every: list[VerifiableMember] = []
    running: list[VerifiableMember] = []

    def start(protocol: str) -> None:
        member = VerifiableMember(servers, GROUP, topic, protocol, assignor, tmp_path)
        members.callback(member.close)
        every.append(member)
        running.append(member)

    def settle(kind: ConsumerGroupType) -> None:
        """All partitions are owned, by these members and evenly."""

        def is_settled() -> bool:
            owned = [member.owned for member in running]
            shares = {PARTITIONS // len(running), -(-PARTITIONS // len(running))}
            if sum(map(len, owned)) != PARTITIONS or not {len(each) for each in owned} <= shares:
                return False
            group = admin.describe_consumer_groups([GROUP])[GROUP].result(WAIT_S)
            # Who has nothing to change learns the epoch with its next heartbeat.
            return group.type is kind and group.state is ConsumerGroupState.STABLE

        until(is_settled, lambda: (kind, [(each.name, each.owned) for each in running]))

    def roll(protocol: str, *kinds: ConsumerGroupType) -> None:
        """One after the other is replaced, as in a rolling restart."""
        for kind in kinds:
            start(protocol)
            settle(ConsumerGroupType.CONSUMER)
            running.pop(0).close()
            settle(kind)

    with ExitStack() as members, closing(Writer(servers, topic)) as writer:
        start("classic")
        start("classic")
        settle(ConsumerGroupType.CLASSIC)
        roll("consumer", ConsumerGroupType.CONSUMER, ConsumerGroupType.CONSUMER)
        roll("classic", ConsumerGroupType.CONSUMER, ConsumerGroupType.CLASSIC)
        writer.close()

        def missing() -> dict[int, int]:
            read = {partition: set[int]() for partition in range(PARTITIONS)}
            for member in every:
                for partition, offsets in member.read().items():
                    read[partition] |= offsets
            return {each: end - len(read[each]) for each, end in writer.ends.items()}

        until(lambda: not any(missing().values()), missing)
    check_nobody_shared([spell for member in every for spell in member.spells()])
