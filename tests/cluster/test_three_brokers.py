"""Three brokers as processes, with their metadata in three ZooKeeper servers."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata

from tests.support.broker_process import BrokerProcess

TOPIC = "records"
PARTITIONS = 3
WAIT_S = 120.0
QUIET = {"log_level": 0}


class Cluster:
    """Brokers 1 to 3. Each has its data again after a restart."""

    def __init__(self, directory: Path, connect: str, exits: ExitStack) -> None:
        self._directory = directory
        self._connect = connect
        self._exits = exits
        self.brokers: dict[int, BrokerProcess] = {}
        for broker_id in (1, 2, 3):
            self.start(broker_id)
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, **QUIET})

    def start(self, broker_id: int) -> None:
        settings = {
            "node.id": str(broker_id),
            "zookeeper.session.timeout.ms": "6000",
            "min.insync.replicas": "2",
            "ottla.disk.reserve.bytes": "0",
        }
        self.brokers[broker_id] = self._exits.enter_context(
            BrokerProcess(
                self._directory / f"broker-{broker_id}", settings, ("--zookeeper", self._connect)
            )
        )

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def partitions(self) -> dict[int, PartitionMetadata]:
        found: dict[int, PartitionMetadata] = (
            self.admin.list_topics(TOPIC, timeout=WAIT_S).topics[TOPIC].partitions
        )
        return found

    def wait_for_isrs(self, members: set[int]) -> None:
        """Until every partition is led, and has these replicas in its ISR."""
        deadline = time.monotonic() + WAIT_S
        while True:
            found = self.partitions()
            if len(found) == PARTITIONS and all(
                set(each.isrs) == members and each.leader in members for each in found.values()
            ):
                return
            shown = {number: (each.leader, each.isrs) for number, each in found.items()}
            assert time.monotonic() < deadline, shown
            time.sleep(0.1)


@pytest.fixture
def cluster(tmp_path: Path, connect: str) -> Iterator[Cluster]:
    with ExitStack() as exits:
        yield Cluster(tmp_path, connect, exits)


class Producing:
    """Sends numbered records, and knows which ones were acknowledged."""

    def __init__(self, cluster: Cluster) -> None:
        self.acknowledged: set[int] = set()
        self._next = 0
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "acks": "all",
                "enable.idempotence": True,
                **QUIET,
            }
        )

    def send(self, count: int) -> None:
        """Returns when all of them are acknowledged."""
        for number in range(self._next, self._next + count):
            self._producer.produce(
                TOPIC,
                str(number),
                partition=number % PARTITIONS,
                on_delivery=lambda error, _, number=number: self._delivered(error, number),
            )
        self._next += count
        assert self._producer.flush(WAIT_S) == 0
        assert self.acknowledged == set(range(self._next))

    def _delivered(self, error: object, number: int) -> None:
        assert error is None, error
        self.acknowledged.add(number)


def read_all(cluster: Cluster, count: int) -> list[int]:
    """The numbers of all records; at least `count` are waited for."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "readers",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            **QUIET,
        }
    )
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    found: list[int] = []
    ended: set[int] = set()
    deadline = time.monotonic() + WAIT_S
    try:
        while len(found) < count or len(ended) < PARTITIONS:
            assert time.monotonic() < deadline, f"{len(found)} of {count} records"
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is None:
                found.append(int(message.value()))
            else:
                ended.add(message.partition())
    finally:
        consumer.close()
    return found


def test_no_acknowledged_record_is_lost_when_a_leader_is_killed(cluster: Cluster) -> None:
    topic = NewTopic(TOPIC, PARTITIONS, 3)
    cluster.admin.create_topics([topic])[TOPIC].result(WAIT_S)
    cluster.wait_for_isrs({1, 2, 3})
    producing = Producing(cluster)
    producing.send(300)

    killed = cluster.partitions()[0].leader
    cluster.brokers.pop(killed).kill()
    producing.send(300)
    cluster.wait_for_isrs({1, 2, 3} - {killed})
    assert sorted(read_all(cluster, 600)) == sorted(producing.acknowledged)

    cluster.start(killed)
    cluster.wait_for_isrs({1, 2, 3})
    producing.send(30)
    assert sorted(read_all(cluster, 630)) == sorted(producing.acknowledged)
