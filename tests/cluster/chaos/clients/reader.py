"""Reads whole topics with both isolation levels into a JSON file: SERVERS FILE TIMEOUT_S TOPIC...

It first waits until no transaction is open, so that both reads end at the same offset.
"""

import json
import sys
import time
from contextlib import closing
from pathlib import Path

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.cluster.chaos.clients.librdkafka import COMMON, record_of
from tests.cluster.chaos.history import Partition, Record

ASK_S = 10.0
Ends = dict[Partition, int]


class Reader:
    def __init__(self, servers: str, timeout_s: float, topics: list[str]) -> None:
        self._settings = COMMON | {"bootstrap.servers": servers}
        self._admin = AdminClient(self._settings)
        self._topics = topics
        self._deadline = time.monotonic() + timeout_s

    def read_all(self) -> dict[str, list[Record]]:
        ends = self._settled_ends()
        return {
            name: self._read(ends, isolation_level)
            for name, isolation_level in (
                ("committed", "read_committed"),
                ("uncommitted", "read_uncommitted"),
            )
        }

    def _check_time(self, waited_for: object) -> None:
        if time.monotonic() > self._deadline:
            raise TimeoutError(str(waited_for))

    def _settled_ends(self) -> Ends:
        found: tuple[Ends, Ends] = ({}, {})
        while True:
            try:
                found = (
                    self._ends(IsolationLevel.READ_COMMITTED),
                    self._ends(IsolationLevel.READ_UNCOMMITTED),
                )
            except KafkaException as failure:
                self._check_time(failure)
            else:
                stable, ends = found
                if stable == ends:
                    return ends
                open_at = {str(each): at for each, at in stable.items() if at != ends[each]}
                self._check_time(f"transactions stay open: {open_at}")
            time.sleep(0.2)

    def _ends(self, isolation_level: IsolationLevel) -> Ends:
        listed = self._admin.list_topics(timeout=ASK_S).topics
        wanted = [
            TopicPartition(topic, number)
            for topic in self._topics
            for number in listed[topic].partitions
        ]
        asked = self._admin.list_offsets(
            {each: OffsetSpec.latest() for each in wanted},
            isolation_level=isolation_level,
            request_timeout=ASK_S,
        )
        return {
            Partition(each.topic, each.partition): future.result(ASK_S).offset
            for each, future in asked.items()
        }

    def _read(self, ends: Ends, isolation_level: str) -> list[Record]:
        settings = self._settings | {
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            # Records that are gone from the start are missed by the checker.
            "auto.offset.reset": "earliest",
            "isolation.level": isolation_level,
        }
        left = {each for each, end in ends.items() if end > 0}
        found: list[Record] = []
        with closing(Consumer(settings)) as consumer:
            consumer.assign([TopicPartition(*each, 0) for each in left])
            while left:
                self._check_time(f"not read to the end: {sorted(map(str, left))}")
                message = consumer.poll(1.0)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    found.append(record_of(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    end = record_of(message)
                    if end.offset >= ends[end.where]:
                        left.discard(end.where)
        return found


if __name__ == "__main__":
    servers, file, timeout_s, *topics = sys.argv[1:]
    everything = Reader(servers, float(timeout_s), topics).read_all()
    Path(file).write_text(json.dumps(everything), encoding="utf-8")
