"""A producer and a member of a group, of each client, at work until they are closed."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.clients.librdkafka import open_consumer
from tests.support.clients.members import (
    AioKafkaMember,
    GroupMember,
    JavaMember,
    KafkaPythonMember,
    LibrdkafkaMember,
)
from tests.support.clients.steady_producers import (
    AioKafkaProducer,
    JavaProducer,
    KafkaPythonProducer,
    LibrdkafkaProducer,
    SteadyProducer,
    ThreadedProducer,
)
from tests.support.cluster_processes import WAIT_S, ClusterProcesses, partitions_of

JAVA = "java"
NAMES = ("librdkafka", "kafka-python", "aiokafka", JAVA)
PARTITIONS = 3


@dataclass(frozen=True, slots=True)
class SteadyClient:
    """One client, with a topic and a group of its own."""

    name: str
    producer: SteadyProducer
    member: GroupMember

    @property
    def acknowledged(self) -> int:
        return len(self.producer.acknowledged)

    def unread(self) -> set[int]:
        """Acknowledged records that the member of the group has not read."""
        return set(self.producer.acknowledged) - set(map(int, self.member.values))


@contextmanager
def steady_clients(cluster: ClusterProcesses, directory: Path) -> Iterator[list[SteadyClient]]:
    """All clients, at work on topics that are new. Each has written and read something."""
    for name in NAMES:
        cluster.create(name, PARTITIONS)
    servers = cluster.bootstrap_servers
    with ExitStack() as exits:
        clients = []
        for name in NAMES:
            member = _MEMBERS[name](servers, f"readers-of-{name}", name)
            exits.callback(member.close)
            producer = _producer(name, servers, directory)
            exits.callback(producer.close)
            clients.append(SteadyClient(name, producer, member))
        cluster.until(lambda: all(each.acknowledged and each.member.values for each in clients))
        yield clients


def wait_for_progress(
    cluster: ClusterProcesses, clients: Sequence[SteadyClient], records: int = 100
) -> None:
    """Until each has so many more records acknowledged, and has read all of the earlier ones."""
    before = {each.name: set(each.producer.acknowledged) for each in clients}
    cluster.until(
        lambda: all(each.acknowledged >= len(before[each.name]) + records for each in clients)
    )
    cluster.until(
        lambda: all(before[each.name] <= set(map(int, each.member.values)) for each in clients)
    )


def assert_each_record_once_and_in_order(
    cluster: ClusterProcesses, clients: Sequence[SteadyClient]
) -> None:
    """Of clients at work: ends their producers, and compares the topics with what they know."""
    for client in clients:
        client.producer.close()
        assert client.producer.errors == [], client.name
    for client in clients:
        written = read_all(cluster.bootstrap_servers, client.name)
        for partition, numbers in written.items():
            # Strictly: a record that is there twice is out of order.
            assert numbers == sorted(set(numbers)), (client.name, partition)
        assert set(client.producer.acknowledged) == {
            number for numbers in written.values() for number in numbers
        }, client.name
    cluster.until(lambda: not any(client.unread() for client in clients))


def read_all(servers: str, topic: str) -> dict[int, list[int]]:
    """The numbers in each partition, in the order of their offsets."""
    consumer = open_consumer(servers, enable_partition_eof="true")
    found: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
    ended: set[int] = set()
    try:
        consumer.assign(partitions_of(topic, PARTITIONS))
        while len(ended) < PARTITIONS:
            message = consumer.poll(WAIT_S)
            assert message is not None
            # The error is the end of the partition.
            if message.error() is not None:
                ended.add(message.partition())
            else:
                found[message.partition()].append(int(message.value()))
    finally:
        consumer.close()
    return found


def _producer(name: str, servers: str, directory: Path) -> SteadyProducer:
    if name == JAVA:
        return JavaProducer(servers, name, directory)
    return _PRODUCERS[name](servers, name, PARTITIONS)


_PRODUCERS: dict[str, type[ThreadedProducer]] = {
    "librdkafka": LibrdkafkaProducer,
    "kafka-python": KafkaPythonProducer,
    "aiokafka": AioKafkaProducer,
}
_MEMBERS: dict[str, Callable[[str, str, str], GroupMember]] = {
    "librdkafka": LibrdkafkaMember,
    "kafka-python": KafkaPythonMember,
    "aiokafka": AioKafkaMember,
    JAVA: JavaMember,
}
