"""A key has the partition that Apache Kafka's own producer gives it."""

import json

from ottla.client.producer.partitioner import murmur2, partition_of
from tests.support.paths import VECTORS

RECORDED = VECTORS / "misc" / "partitioner.json"


def test_every_recorded_key_gets_kafkas_hash_and_partition() -> None:
    recorded = json.loads(RECORDED.read_text())
    assert len(recorded["rows"]) > 100
    for key_hex, hashed, *partitions in recorded["rows"]:
        key = bytes.fromhex(key_hex)
        assert murmur2(key) == hashed & 0xFFFF_FFFF
        assert [partition_of(key, count) for count in recorded["partitions"]] == partitions
