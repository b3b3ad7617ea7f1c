"""Topics of keyed JSON records, filled once and shared by all loads."""

import json
import random

from confluent_kafka import Producer

from benchmarks.peers.peer import Peer
from benchmarks.row import LoadFailed, Scope

PARTITIONS = 4
VALUE_BYTES = 200
# More than fit into a batch, so that no record is repeated within a compressed batch.
DISTINCT_RECORDS = 10_000
DELIVERY_S_MAX = 120.0
# Full batches, so that the log is the same however slow the producer is.
SETTINGS = {"linger.ms": 50, "queue.buffering.max.messages": 200_000, "log_level": 0}
WORDS = ("harbour", "winter", "signal", "orchard", "paper", "northern", "glass", "river", "quiet")

_filled: set[tuple[str, str]] = set()


class JsonTopic:
    """`count` records of 200 B, evenly over four partitions; deleted with the broker."""

    def __init__(self, count: int, codec: str = "none") -> None:
        self.count, self.codec = count, codec

    def fill(self, peer: Peer, scope: Scope) -> str:
        """Fills the topic if necessary, and returns its name."""
        count = scope.count(self.count)
        name = f"bench-json-{self.codec}-{count}"
        if (peer.address, name) not in _filled:
            peer.create_topic(name, PARTITIONS)
            peer.await_served(name, PARTITIONS)
            _send(peer, name, count, self.codec)
            _filled.add((peer.address, name))
        return name


def records() -> list[tuple[bytes, bytes]]:
    """Keys and values, the same on every run: six fields, the last one padded."""
    chosen = random.Random(11)
    return [_record(chosen) for _ in range(DISTINCT_RECORDS)]


def _record(chosen: random.Random) -> tuple[bytes, bytes]:
    fields = {
        "user_id": chosen.randrange(10_000_000),
        "event": chosen.choice(("play", "pause", "stop", "seek")),
        "device": chosen.choice(("phone", "television", "browser")),
        "position_s": round(chosen.uniform(0, 7200), 3),
        "at_ms": 1_700_000_000_000 + chosen.randrange(86_400_000),
        "title": "",
    }
    length = VALUE_BYTES - len(json.dumps(fields))
    fields["title"] = " ".join(chosen.choices(WORDS, k=length))[:length]
    return b"%08d" % chosen.randrange(10_000_000), json.dumps(fields).encode()


def _send(peer: Peer, topic: str, count: int, codec: str) -> None:
    settings = SETTINGS | {"bootstrap.servers": peer.address, "compression.type": codec}
    producer, chosen = Producer(settings), records()
    for index in range(count):
        key, value = chosen[index % DISTINCT_RECORDS]
        while True:
            try:
                producer.produce(topic, value, key, partition=index % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    left = producer.flush(DELIVERY_S_MAX)
    arrived = sum(peer.end_offset(topic, partition) for partition in range(PARTITIONS))
    if left or arrived != count:
        raise LoadFailed(f"of {count:,} records {arrived:,} arrived")
