"""A broker is killed under load: acknowledged records are there, once and in order.

KILLS=100 tries that many times.
"""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.support.clients.client import WAIT_S
from tests.support.clients.librdkafka import open_consumer
from tests.support.compat.java_tools import try_tool
from tests.support.compat.kafka_dump_lines import by_file
from tests.support.free_port import free_port

KILLS = int(os.environ.get("KILLS", "10"))
TOPIC = "killed"
PARTITIONS = 3
# Small segments: a kill finds several, and indexes of some that are not the active one.
SETTINGS = (f"num.partitions={PARTITIONS}", "log.segment.bytes=1048576")
ACKNOWLEDGED_BETWEEN_KILLS = 3_000
UNACKNOWLEDGED_MAX = 2_000
PADDING = b"."
VALUE_BYTES = 200
QUIET = 2
INDEXES = (".index", ".timeindex")
# A segment that does not begin at offset 0 gets this remark from the tool, sound or not.
REMARKS = ("Non-consecutive offsets in", "  -1 is followed by")


class BrokerProcess:
    """A broker on one directory and one port, started as often as it was killed."""

    def __init__(self, directory: Path, *settings: str) -> None:
        port = free_port()
        self.servers = f"127.0.0.1:{port}"
        self._command = [sys.executable, "-m", "ottla.cli", "serve"]
        self._command += ["--data", str(directory), "--port", str(port), "--metrics-port", "0"]
        for setting in (*SETTINGS, *settings):
            self._command += ["--set", setting]
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith(b"ready ")

    def kill_and_restart(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._start()

    def stop(self) -> None:
        """Cleanly."""
        self._process.terminate()
        self._process.communicate()
        assert self._process.returncode == 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


@dataclass(slots=True)
class Load:
    """Numbered records to all partitions, with a limit on records in flight."""

    producer: Producer
    sent: int = 0
    acknowledged: int = 0
    failed: list[KafkaError] = field(default_factory=list)

    def produce_until_acknowledged(self, amount: int) -> None:
        """Leaves as much under way as it may."""
        goal = self.acknowledged + amount
        while self.acknowledged < goal and not self.failed:
            while self.sent - self.acknowledged < UNACKNOWLEDGED_MAX:
                self.producer.produce(
                    TOPIC,
                    (b"%d" % self.sent).ljust(VALUE_BYTES, PADDING),
                    partition=self.sent % PARTITIONS,
                    on_delivery=self._delivered,
                )
                self.sent += 1
            self.producer.poll(0.01)

    def finish(self) -> None:
        """Waits for the records in flight."""
        self.producer.flush(2 * WAIT_S)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed.append(error)


def test_what_was_acknowledged_survives_every_kill_once_and_in_order(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        load = Load(open_producer(broker.servers))
        for _ in range(KILLS):
            load.produce_until_acknowledged(ACKNOWLEDGED_BETWEEN_KILLS)
            broker.kill_and_restart()
        load.finish()
        assert load.failed == []
        assert load.acknowledged == load.sent
        found = read_all(broker.servers)
        broker.stop()
    assert found == {each: list(range(each, load.sent, PARTITIONS)) for each in range(PARTITIONS)}
    assert batches_that_kafka_finds_sound(tmp_path) > KILLS * PARTITIONS


def open_producer(servers: str) -> Producer:
    return Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "acks": "all",
            # The broker is back soon after each kill; if it is not, the load fails.
            "message.timeout.ms": int(WAIT_S * 1000),
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "retry.backoff.ms": 20,
            # Many small batches: a kill comes between some of them and their answers.
            "batch.size": 4_000,
            "log_level": QUIET,
        }
    )


def read_all(servers: str) -> dict[int, list[int]]:
    """The numbers in each partition, in the order in which they are read."""
    consumer = open_consumer(servers)
    consumer.assign([TopicPartition(TOPIC, each, 0) for each in range(PARTITIONS)])
    found: dict[int, list[int]] = {each: [] for each in range(PARTITIONS)}
    for _ in range(sum(end_offset(consumer, each) for each in range(PARTITIONS))):
        message = consumer.poll(WAIT_S)
        assert message is not None
        assert message.error() is None, message.error()
        found[message.partition()].append(int(message.value().rstrip(PADDING)))
    consumer.close()
    return found


def end_offset(consumer: Consumer, partition: int) -> int:
    _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), WAIT_S)
    return end


def batches_that_kafka_finds_sound(directory: Path) -> int:
    """How many batches Kafka's own tool reads in all segments, if it finds nothing wrong."""
    paths = sorted(
        path for path in directory.glob(f"{TOPIC}-*/*") if path.suffix in (".log", *INDEXES)
    )
    output = dump("--deep-iteration", paths=paths)
    assert [line for line in output.get("", []) if not line.startswith(REMARKS)] == []
    sanity = dump("--index-sanity-check", paths=[path for path in paths if path.suffix in INDEXES])
    assert sanity.get("", []) == []
    batches = [line for lines in output.values() for line in lines if line.startswith("baseOffset")]
    assert all(line.endswith("isvalid: true") for line in batches)
    return len(batches)


def dump(option: str, *, paths: list[Path]) -> dict[str, list[str]]:
    finished = try_tool("DumpLogSegments", option, "--files", ",".join(map(str, paths)))
    assert finished.returncode == 0, finished.stderr.decode()
    # What it finds wrong it says on standard error.
    return by_file((finished.stdout + finished.stderr).decode())
