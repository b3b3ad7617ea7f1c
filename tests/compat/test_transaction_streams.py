"""Kafka Streams counts every word once (exactly_once_v2), while its broker and itself are killed.

COUNTED=100000 counts that many words.
"""

import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.test_broker_kill import BrokerProcess
from tests.support.clients.client import WAIT_S
from tests.support.clients.librdkafka import open_consumer
from tests.support.compat.java_tools import JARS, JVM

COUNTED = int(os.environ.get("COUNTED", "20000"))
SOURCE, TARGET = "words", "counts"
PARTITIONS = 2
VOCABULARY = 40
PROGRAM = Path(__file__).with_name("WordCount.java")
SEED = 7
BROKER_KILLS = COUNTED // 3_000
# Each takes as long as a transaction's timeout.
STREAMS_KILLS = max(1, COUNTED // 20_000)
READ_AT_ONCE = 100


def test_every_word_is_counted_once(tmp_path: Path) -> None:
    seed = random.Random(SEED)
    words = [f"word-{seed.randrange(VOCABULARY)}" for _ in range(COUNTED)]
    with BrokerProcess(tmp_path / "broker") as broker:
        create_topics(broker.servers)
        write(broker.servers, words)
        # Where the program is when it or its broker is killed, by the number of counts so far. None
        # is so late that the program might be done before.
        moments = sorted(seed.sample(range(COUNTED * 3 // 4), BROKER_KILLS + STREAMS_KILLS))
        kinds = ["broker"] * BROKER_KILLS + ["streams"] * STREAMS_KILLS
        seed.shuffle(kinds)
        kills = list(zip(moments, kinds, strict=True))
        counts = Counts(broker.servers)
        while counts.seen < COUNTED:
            with streaming(broker.servers, tmp_path / "state") as program:
                counts.read_while_killing(broker, program, kills)
        assert kills == []
        counts.close()
        broker.stop()
    expected = {word: list(range(1, n + 1)) for word, n in Counter(words).items()}
    assert counts.of_words == expected


class Counts:
    """The counts of each word, in the order of their transactions."""

    def __init__(self, servers: str) -> None:
        self.seen = 0
        self.of_words: dict[str, list[int]] = {}
        self._consumer = open_consumer(servers, isolation_level="read_committed")
        self._consumer.assign([TopicPartition(TARGET, each, 0) for each in range(PARTITIONS)])

    def read_while_killing(
        self,
        broker: BrokerProcess,
        program: "subprocess.Popen[bytes]",
        kills: list[tuple[int, str]],
    ) -> None:
        """Until all are read, or it is the turn of Streams to be killed."""
        deadline = time.monotonic() + 2 * WAIT_S
        while self.seen < COUNTED:
            assert time.monotonic() < deadline, f"{self.seen} counts"
            assert program.poll() is None
            self._read()
            if kills and self.seen >= kills[0][0]:
                _, what = kills.pop(0)
                if what == "streams":
                    return
                broker.kill_and_restart()
                deadline = time.monotonic() + 2 * WAIT_S
        # Nothing more comes.
        for _ in range(3):
            self._read()

    def _read(self) -> None:
        for message in self._consumer.consume(READ_AT_ONCE, 0.2):
            if message.error() is None:
                word, count = message.key().decode(), int(message.value())
                self.of_words.setdefault(word, []).append(count)
                self.seen += 1

    def close(self) -> None:
        self._consumer.close()


@contextmanager
def streaming(servers: str, directory: Path) -> Iterator["subprocess.Popen[bytes]"]:
    command = ["java", *JVM, "-cp", f"{JARS}/*", str(PROGRAM)]
    with subprocess.Popen([*command, servers, SOURCE, TARGET, str(directory)]) as process:
        try:
            yield process
        finally:
            process.kill()


def create_topics(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    topics = [NewTopic(each, PARTITIONS, 1) for each in (SOURCE, TARGET)]
    for future in admin.create_topics(topics).values():
        future.result(WAIT_S)


def write(servers: str, words: list[str]) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for number, word in enumerate(words):
        producer.produce(SOURCE, word.encode(), partition=number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(WAIT_S) == 0
