"""Every client copies a topic exactly once, while its broker and itself are killed.

COPIED=100000 copies that many records.
"""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.test_broker_kill import BrokerProcess
from tests.support.clients.client import WAIT_S
from tests.support.clients.copying import ABORTED, KINDS, PER_TRANSACTION
from tests.support.clients.copying import COPIED as COPIED_PREFIX
from tests.support.clients.fencing import COMMITTED, FENCED, FENCES
from tests.support.clients.librdkafka import open_consumer
from tests.support.compat.java_tools import JARS, JVM
from tests.support.transaction_scenarios.levels import set_level

COPIED = int(os.environ.get("COPIED", "20000"))
PARTITIONS = 3
RECORDS = COPIED // PARTITIONS
SOURCE, TARGET = "source", "target"
JAVA_PROGRAM = Path(__file__).with_name("TransactionCopy.java")
# The broker is killed after every so many transactions on average, and the copier more seldom.
BROKER_KILL_CHANCE = 0.3
COPIER_KILL_CHANCE = 0.1
# Within the time that the next transaction takes, more or less.
KILL_DELAY_S = 0.05


@dataclass(frozen=True)
class Client:
    """A client, and the level of transaction.version that it finds."""

    name: str
    level: int = 2

    def command(self, servers: str, name: str) -> list[str]:
        what = [servers, SOURCE, TARGET, name, str(PARTITIONS), str(RECORDS)]
        if self.name in KINDS:
            return [sys.executable, "-m", "tests.support.clients.copying", self.name, *what]
        return ["java", *JVM, "-cp", f"{JARS}/*", str(JAVA_PROGRAM), *what]


CLIENTS = (Client("java"), Client("java", level=1), *map(Client, KINDS))


def name_of(client: Client) -> str:
    return f"{client.name}-level{client.level}"


# How each client calls it.
FENCED_ERRORS = {
    "librdkafka": "_FENCED",
    "kafka-python": "ProducerFencedError",
    "aiokafka": "ProducerFenced",
    "java": "ProducerFencedException",
}


@contextmanager
def copying(client: Client, servers: str, name: str) -> Iterator["subprocess.Popen[str]"]:
    """The process; whatever happens, it is gone at the end."""
    command = client.command(servers, name)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("client", CLIENTS, ids=name_of)
def test_a_copy_is_exact_however_often_it_is_killed(client: Client, tmp_path: Path) -> None:
    seed = random.Random(name_of(client))
    with BrokerProcess(tmp_path) as broker:
        set_level(broker.servers, client.level)
        write_source(broker.servers)
        kills = 0
        while not copied_until_killed(client, broker, seed):
            kills += 1
        assert kills < COPIED // PER_TRANSACTION
        assert_copied(broker.servers)
        broker.stop()


@pytest.mark.parametrize("client", FENCES)
def test_a_second_producer_fences_the_first(client: str, servers: str, topic: str) -> None:
    create_topics(servers, topic)
    assert FENCES[client](servers, topic, topic) == FENCED_ERRORS[client]
    assert read(servers, topic, 0, "read_committed") == [COMMITTED]
    assert read(servers, topic, 0, "read_uncommitted") == [FENCED, COMMITTED]


def copied_until_killed(client: Client, broker: BrokerProcess, seed: random.Random) -> bool:
    """True if the copier came to the end before it was killed."""
    with copying(client, broker.servers, "copier") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if not line.startswith("copied "):
                continue
            if seed.random() < BROKER_KILL_CHANCE:
                time.sleep(seed.uniform(0, KILL_DELAY_S))
                broker.kill_and_restart()
            if seed.random() < COPIER_KILL_CHANCE:
                time.sleep(seed.uniform(0, KILL_DELAY_S))
                process.kill()
                return False
        assert process.wait(WAIT_S) == 0
    return True


def create_topics(servers: str, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    topics = [NewTopic(each, PARTITIONS, 1) for each in names]
    for future in admin.create_topics(topics).values():
        future.result(WAIT_S)


def write_source(servers: str) -> None:
    """Numbers from 0 on, in each partition."""
    create_topics(servers, SOURCE, TARGET)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(RECORDS):
        for partition in range(PARTITIONS):
            producer.produce(SOURCE, b"%d" % number, partition=partition)
        producer.poll(0)
    assert producer.flush(WAIT_S) == 0


def assert_copied(servers: str) -> None:
    expected = [COPIED_PREFIX + b"%d" % number for number in range(RECORDS)]
    aborted = 0
    for partition in range(PARTITIONS):
        assert read(servers, TARGET, partition, "read_committed") == expected
        everything = read(servers, TARGET, partition, "read_uncommitted")
        aborted += sum(value.startswith(ABORTED) for value in everything)
    assert aborted > 0


def read(servers: str, topic: str, partition: int, isolation_level: str) -> list[bytes]:
    """All values of a partition."""
    consumer: Consumer = open_consumer(
        servers, isolation_level=isolation_level, enable_partition_eof="true"
    )
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        found: list[bytes] = []
        while True:
            message = consumer.poll(WAIT_S)
            assert message is not None
            # The error is the end of the partition.
            if message.error() is not None:
                return found
            found.append(message.value())
    finally:
        consumer.close()
