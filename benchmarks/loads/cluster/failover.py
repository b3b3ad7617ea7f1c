"""Kills the leader of a partition under load: the gap between acknowledgements, and the records."""

import time
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from benchmarks.loads.cluster.own_cluster import OnOwnCluster, kill_broker
from benchmarks.peers.peer import Peer
from benchmarks.row import LoadFailed, Ran, Scope

TOPIC = "failover"
RATE = 1000
BEFORE_S = 5.0
AFTER_S = 3.0
ACKNOWLEDGED_S_MAX = 60.0
FLUSH_S = 60.0
READ_S_MAX = 60.0
POLL_S = 0.002
SETTINGS: dict[str, str | int | float | bool] = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 0,
    "message.timeout.ms": 120_000,
    "log_level": 0,
}


@dataclass(slots=True)
class Acknowledgements:
    """Their times and the numbers of the records, in the order of the acknowledgements."""

    times_s: list[float] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    failed: int = 0

    def note(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed += 1
            return
        self.times_s.append(time.monotonic())
        self.numbers.append(int(message.value() or b""))

    def longest_gap_s(self) -> float:
        pairs = zip(self.times_s, self.times_s[1:], strict=False)
        return max(after - before for before, after in pairs)


class Failover(OnOwnCluster):
    """One kill per run: 1,000 records per second, idempotent, acks=all, to one partition."""

    def run_on(self, cluster: Peer, _scope: Scope, /) -> Ran:
        cluster.create_topic(TOPIC, 1)
        cluster.await_served(TOPIC, 1)
        acknowledged = Acknowledgements()
        producer = Producer(SETTINGS | {"bootstrap.servers": cluster.address})
        leader = producer.list_topics(TOPIC, 10).topics[TOPIC].partitions[0].leader
        sending = _Sending(producer, acknowledged)
        sending.run_for(BEFORE_S)
        if not acknowledged.numbers:
            raise LoadFailed("nothing was acknowledged before the kill")
        kill_broker(cluster, leader)
        killed_s = time.monotonic()
        sending.run_until_acknowledged_after(killed_s + 1.0)
        sending.run_for(AFTER_S)
        if producer.flush(FLUSH_S) or acknowledged.failed:
            raise LoadFailed(f"{acknowledged.failed} records failed, others are not acknowledged")
        found = _read_all(cluster, len(set(acknowledged.numbers)))
        if found != sorted(found):
            raise LoadFailed("records are out of order")
        return Ran(
            figures={
                "gap_s": acknowledged.longest_gap_s(),
                "lost": len(set(acknowledged.numbers) - set(found)),
                "twice": len(found) - len(set(found)),
            }
        )


class _Sending:
    """Sends records on a schedule that does not wait for acknowledgements."""

    def __init__(self, producer: Producer, acknowledged: Acknowledgements) -> None:
        self._producer, self._acknowledged = producer, acknowledged
        self._began_s = time.monotonic()
        self._sent = 0

    def run_for(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self._step()

    def run_until_acknowledged_after(self, time_s: float) -> None:
        """An acknowledgement that was on its way does not count, hence a later time."""
        deadline_s = time_s + ACKNOWLEDGED_S_MAX
        while self._acknowledged.times_s[-1] < time_s:
            if time.monotonic() > deadline_s:
                raise LoadFailed(f"no acknowledgement for {ACKNOWLEDGED_S_MAX:.0f} s")
            self._step()

    def _step(self) -> None:
        due = (time.monotonic() - self._began_s) * RATE
        while self._sent < due:
            value = str(self._sent).encode()
            self._producer.produce(TOPIC, value, partition=0, on_delivery=self._acknowledged.note)
            self._sent += 1
        self._producer.poll(POLL_S)


def _read_all(cluster: Peer, expected: int) -> list[int]:
    """The numbers of all records in the partition, at least as many as expected if they exist."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.address,
            "group.id": TOPIC,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    found: list[int] = []
    try:
        partition = TopicPartition(TOPIC, 0)
        _, end = consumer.get_watermark_offsets(partition, READ_S_MAX)
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        deadline_s = time.monotonic() + READ_S_MAX
        while len(found) < end and time.monotonic() < deadline_s:
            for message in consumer.consume(10_000, 1.0):
                if message.error() is None:
                    found.append(int(message.value() or b""))
    finally:
        consumer.close()
    if len(found) < min(end, expected):
        raise LoadFailed(f"only {len(found)} of {end} records could be read")
    return found
