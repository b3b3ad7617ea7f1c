"""Reads a topic's keys and values into one Python process: by `ottla.read_topic` or a consumer.

As a program, `reading.py READER SERVERS TOPIC RECORDS` prints its duration in seconds as JSON.
"""

import importlib
import importlib.util
import json
import sys
import time

from confluent_kafka import Consumer, TopicPartition

from benchmarks.cache import ToolMissing
from benchmarks.loads.json_topic import PARTITIONS, JsonTopic
from benchmarks.loads.tools import output_of
from benchmarks.peers.peer import Peer
from benchmarks.row import Ran, Scope

CONSUMED_AT_ONCE = 10_000
WAIT_S = 60.0


class Reading:
    """One reader in its own process; imports are not measured, connecting is."""

    def __init__(self, reader: str, records: JsonTopic) -> None:
        self.reader, self.records = reader, records
        self.topic = ""

    def prepare(self, peer: Peer, scope: Scope) -> None:
        if importlib.util.find_spec("pyarrow") is None:
            raise ToolMissing("pyarrow is not installed (pip install 'ottla[arrow]')")
        self.topic = self.records.fill(peer, scope)
        self.run(peer, scope)

    def run(self, peer: Peer, scope: Scope) -> Ran:
        count = scope.count(self.records.count)
        command = [sys.executable, "-m", "benchmarks.loads.reading", self.reader]
        said = json.loads(output_of([*command, peer.address, self.topic, str(count)]))
        return Ran(figures={"rate": count / said["seconds"]})

    def finish(self, peer: Peer) -> None:
        """The topic stays: other rows read it too."""


def read_with_arrow(servers: str, topic: str, _count: int) -> int:
    import ottla

    columns = ["key", "value"]
    return int(ottla.read_topic(topic, bootstrap_servers=servers, columns=columns).num_rows)


def read_with_consumer(servers: str, topic: str, count: int) -> int:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "bench-reading"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    while len(values) < count:
        messages = consumer.consume(CONSUMED_AT_ONCE, WAIT_S)
        if not messages:
            break
        keys += [message.key() for message in messages]
        values += [message.value() for message in messages]
    consumer.close()
    return len(values)


READERS = {"arrow": read_with_arrow, "consumer": read_with_consumer}
# Modules that a reader imports on its first call.
IMPORTED = {"arrow": ("pyarrow", "ottla.client.arrow.topics"), "consumer": ()}


def main() -> None:
    reader, servers, topic, count = sys.argv[1:]
    read = READERS[reader]
    for module in IMPORTED[reader]:
        importlib.import_module(module)
    began = time.monotonic()
    found = read(servers, topic, int(count))
    seconds = time.monotonic() - began
    if found != int(count):
        sys.exit(f"{found:,} of {count} records were read")
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
