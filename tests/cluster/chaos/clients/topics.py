"""Creates topics with three replicas each: SERVERS PARTITIONS TOPIC..., and waits for leaders."""

import sys
import time

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.chaos.clients.librdkafka import COMMON, error_of

WAIT_S = 60.0
REPLICAS = 3
CONFIG = {"min.insync.replicas": "2"}


def create(servers: str, partitions: int, names: list[str]) -> None:
    admin = AdminClient(COMMON | {"bootstrap.servers": servers})
    deadline = time.monotonic() + WAIT_S
    missing = list(names)
    while missing:
        topics = [NewTopic(each, partitions, REPLICAS, config=CONFIG) for each in missing]
        for name, future in admin.create_topics(topics).items():
            try:
                future.result()
            except KafkaException as failure:
                error = error_of(failure)
                is_there = error.code() == KafkaError.TOPIC_ALREADY_EXISTS
                if not is_there and time.monotonic() > deadline:
                    raise
                if not is_there:
                    continue
            missing.remove(name)
        if missing:
            # Perhaps not all brokers are registered yet.
            time.sleep(0.5)
    while not all(_has_full_isrs(admin, name) for name in names):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not all replicas of {names} are in sync")
        time.sleep(0.1)


def _has_full_isrs(admin: AdminClient, name: str) -> bool:
    found = admin.list_topics(name, timeout=WAIT_S).topics[name].partitions.values()
    return bool(found) and all(each.leader > 0 and len(each.isrs) == REPLICAS for each in found)


if __name__ == "__main__":
    servers, partitions, *names = sys.argv[1:]
    create(servers, int(partitions), names)
