"""A real disk runs full under the load of real producers, and has room again later.

Produces are refused with KAFKA_STORAGE_ERROR, all that was acknowledged is read, before and after a
kill, and produces are taken again once there is room.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.support.clients.client import WAIT_S
from tests.support.clients.librdkafka import open_consumer
from tests.support.compat.small_disks import MIB, SmallDisk, small_disk
from tests.support.free_port import free_port

TOPIC = "full"
PARTITIONS = 3
VALUE_BYTES = 8_000
DISK_BYTES = 64 * MIB
RESERVE_BYTES = 6 * MIB
UNDER_WAY_MAX = 200
REFUSALS = 20
QUIET = 2


class BrokerOn:
    """A broker process on a small disk."""

    def __init__(self, disk: SmallDisk, reserve_bytes: int) -> None:
        port = free_port()
        self.disk = disk
        self.said = b""
        self.servers = f"127.0.0.1:{port}"
        command = [sys.executable, "-m", "ottla.cli", "serve", "--data", str(disk.data)]
        command += ["--port", str(port), "--metrics-port", "0"]
        settings = (f"num.partitions={PARTITIONS}", f"ottla.disk.reserve.bytes={reserve_bytes}")
        for setting in (*settings, *disk.settings):
            command += ["--set", setting]
        self._command = disk.inside(command)
        self.start()

    def start(self) -> None:
        assert self.try_start(), self.said

    def try_start(self) -> bool:
        """Whether it serves; if not, it has ended by itself and `said` why."""
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.disk.limit(self._process.pid)
        assert self._process.stdout is not None
        is_ready = self._process.stdout.readline().startswith(b"ready ")
        if not is_ready:
            _, self.said = self._process.communicate()
        return is_ready

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def stop(self) -> None:
        self._process.terminate()
        _, said = self._process.communicate()
        assert self._process.returncode == 0, said

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_running:
            self.kill()


class Load:
    """Numbered records to all partitions, without retries; notes the outcome of each."""

    def __init__(self, servers: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "acks": "all",
                "retries": 0,
                "message.timeout.ms": int(WAIT_S * 1000),
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "linger.ms": 0,
                "batch.size": 64_000,
                "log_level": QUIET,
            }
        )
        self.sent = 0
        # The numbers by partition and offset.
        self.acknowledged: dict[tuple[int, int], int] = {}
        self.refused: dict[int, int] = {}

    @property
    def answered(self) -> int:
        return len(self.acknowledged) + sum(self.refused.values())

    @property
    def refusals(self) -> int:
        return self.refused.get(KafkaError.KAFKA_STORAGE_ERROR, 0)

    def send(self, count: int = 1) -> None:
        for _ in range(count):
            number, self.sent = self.sent, self.sent + 1
            self._producer.produce(
                TOPIC,
                (b"%d" % number).ljust(VALUE_BYTES, b"."),
                partition=number % PARTITIONS,
                on_delivery=self._noting(number),
            )

    def send_until(self, is_over: Callable[[], bool], under_way_max: int = UNDER_WAY_MAX) -> None:
        """As fast as the broker answers, with so much under way. All is answered on return."""
        deadline = time.monotonic() + WAIT_S
        while not is_over():
            assert time.monotonic() < deadline, (self.refused, len(self.acknowledged))
            self.send(max(0, under_way_max - (self.sent - self.answered)))
            self._producer.poll(0.01)
        self.finish()

    def finish(self) -> None:
        assert self._producer.flush(WAIT_S) == 0
        assert self.answered == self.sent

    def _noting(self, number: int) -> Callable[[KafkaError | None, Message], None]:
        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.acknowledged[message.partition(), message.offset()] = number
            else:
                code = error.code()
                self.refused[code] = self.refused.get(code, 0) + 1

        return note


def read_all(servers: str) -> dict[tuple[int, int], int]:
    """Every record that is read from the beginning, as `Load.acknowledged`."""
    consumer = open_consumer(servers)
    consumer.assign([TopicPartition(TOPIC, each, 0) for each in range(PARTITIONS)])
    ends = {each: end_offset(consumer, each) for each in range(PARTITIONS)}
    found: dict[tuple[int, int], int] = {}
    while len(found) < sum(ends.values()):
        message = consumer.poll(WAIT_S)
        assert message is not None, (len(found), ends)
        assert message.error() is None, message.error()
        found[message.partition(), message.offset()] = int(message.value().rstrip(b"."))
    consumer.close()
    return found


def end_offset(consumer: Consumer, partition: int) -> int:
    return int(consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), WAIT_S)[1])


def check_nothing_is_lost(broker: BrokerOn, load: Load) -> None:
    found = read_all(broker.servers)
    assert load.acknowledged.items() <= found.items()
    # A batch that was refused is not there: nothing is read that nobody was told of.
    assert found == load.acknowledged


def takes_produces_again(broker: BrokerOn, load: Load) -> None:
    before = len(load.acknowledged)
    load.send_until(lambda: len(load.acknowledged) >= before + 300, under_way_max=20)
    check_nothing_is_lost(broker, load)


@pytest.mark.parametrize("kind", ["ext4", "tmpfs", "limit"])
@pytest.mark.parametrize("is_killed", [False, True], ids=["running", "killed"])
def test_a_disk_that_is_full_to_the_last_byte_refuses_serves_and_recovers(
    tmp_path: Path, kind: str, is_killed: bool
) -> None:
    with (
        small_disk(kind, tmp_path / "disk", DISK_BYTES) as disk,
        BrokerOn(disk, reserve_bytes=0) as broker,
    ):
        load = Load(broker.servers)
        load.send_until(lambda: load.refusals >= REFUSALS)
        assert set(load.refused) == {KafkaError.KAFKA_STORAGE_ERROR}
        assert len(load.acknowledged) > REFUSALS
        check_nothing_is_lost(broker, load)
        if is_killed:
            broker.kill()
            # Without a reserve there may be no room for what a start has to write.
            if broker.try_start():
                check_nothing_is_lost(broker, load)
                disk.make_room(broker.pid)
            else:
                assert f"the disk of {disk.data} is full".encode() in broker.said, broker.said
                assert b"No space left" in broker.said, broker.said
                disk.make_room(None)
                broker.start()
        else:
            disk.make_room(broker.pid)
        takes_produces_again(broker, load)
        broker.stop()


@pytest.mark.parametrize("kind", ["ext4", "tmpfs"])
@pytest.mark.parametrize("is_killed", [False, True], ids=["running", "killed"])
def test_a_disk_below_its_reserve_refuses_in_time_and_can_be_started_on(
    tmp_path: Path, kind: str, is_killed: bool
) -> None:
    with small_disk(kind, tmp_path / "disk", DISK_BYTES) as disk:
        # Where nobody may mount, there is no reserve to run into: the disk is simply full.
        reserve_bytes = RESERVE_BYTES if disk.has_free_space else 0
        with BrokerOn(disk, reserve_bytes) as broker:
            load = Load(broker.servers)
            if disk.has_free_space:
                load.send_until(lambda: disk.free_bytes() < RESERVE_BYTES, under_way_max=20)
            load.send_until(lambda: load.refusals >= REFUSALS, under_way_max=1)
            assert set(load.refused) == {KafkaError.KAFKA_STORAGE_ERROR}
            check_nothing_is_lost(broker, load)
            if is_killed:
                broker.kill()
                broker.start()
                refusals = load.refusals
                load.send_until(lambda: load.refusals > refusals, under_way_max=1)
                check_nothing_is_lost(broker, load)
            disk.make_room(broker.pid)
            takes_produces_again(broker, load)
            broker.stop()
