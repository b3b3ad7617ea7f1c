"""A cluster of broker processes (`ottla serve --zookeeper`) that tests kill and start again."""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata

from ottla.settings.development import development_of_cluster
from tests.support.broker_process import BrokerProcess
from tests.support.free_port import free_port

WAIT_S = 120.0
QUIET = {"log_level": 0}


class ClusterProcesses:
    """Brokers with the settings of `ottla up --brokers 3`, for the length of a `with`.

    Each has its port and its data again after a restart.
    """

    def __init__(
        self,
        directory: Path,
        connect: str,
        brokers: int = 3,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.running: dict[int, BrokerProcess] = {}
        self._connect = connect
        self._settings = {
            **development_of_cluster(3),
            # One coordinator of all groups, and one of all transactions: it can be killed.
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "ottla.disk.reserve.bytes": "0",
            **(settings or {}),
        }
        self._ports: dict[int, int] = {}
        self._exits = ExitStack()
        self._first = range(1, brokers + 1)

    def __enter__(self) -> Self:
        with self._exits:
            for broker_id in self._first:
                self.start(broker_id)
            self.admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, **QUIET})
            self._exits = self._exits.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    @property
    def bootstrap_servers(self) -> str:
        """All brokers, also those that are down."""
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    def address(self, broker_id: int) -> str:
        return f"127.0.0.1:{self._ports[broker_id]}"

    def start(self, broker_id: int) -> None:
        """Starts a broker that is not running. It serves on return."""
        port = self._ports.setdefault(broker_id, free_port())
        options = ("--port", str(port), "--zookeeper", self._connect)
        settings = {**self._settings, "node.id": str(broker_id)}
        self.running[broker_id] = self._exits.enter_context(
            BrokerProcess(self.directory / f"broker-{broker_id}", settings, options)
        )

    def kill(self, broker_id: int) -> None:
        self.running.pop(broker_id).kill()

    def stop(self, broker_id: int) -> None:
        """Cleanly."""
        self.running.pop(broker_id).stop()

    def create(self, topic: str, partitions: int, **configs: str) -> None:
        """A topic with three replicas, all in sync on return."""
        given = {name.replace("_", "."): value for name, value in configs.items()}
        wanted = NewTopic(topic, partitions, config=given)
        self.admin.create_topics([wanted])[topic].result(WAIT_S)
        self.until(lambda: topic in self.admin.list_topics(timeout=WAIT_S).topics)
        self.wait_for_all_isrs()

    def partitions(self, topic: str) -> dict[int, PartitionMetadata]:
        found: dict[int, PartitionMetadata] = (
            self.admin.list_topics(topic, timeout=WAIT_S).topics[topic].partitions
        )
        return found

    def leader(self, topic: str, partition: int) -> int:
        return int(self.partitions(topic)[partition].leader)

    def controller(self) -> int:
        described = self.admin.describe_cluster(request_timeout=WAIT_S).result(WAIT_S)
        return int(described.controller.id)

    def group_coordinator(self) -> int:
        """The leader of the only partition of the offsets topic."""
        return self.leader("__consumer_offsets", 0)

    def wait_for_all_isrs(self) -> None:
        """Until every partition of every topic is led, and has all its replicas in its ISR."""

        def are_in_sync() -> bool:
            return all(
                each.leader in each.isrs and set(each.isrs) == set(each.replicas)
                for topic in self.admin.list_topics(timeout=WAIT_S).topics.values()
                for each in topic.partitions.values()
            )

        self.until(are_in_sync)

    def wait_until_led_by_others(self, broker_id: int) -> None:
        """Until no partition of any topic is led by this broker, and none by nobody."""
        self.until(
            lambda: all(
                each.leader not in (-1, broker_id)
                for topic in self.admin.list_topics(timeout=WAIT_S).topics.values()
                for each in topic.partitions.values()
            )
        )

    @staticmethod
    def until(is_so: Callable[[], Any]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not is_so():
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.1)


def partitions_of(topic: str, count: int) -> list[TopicPartition]:
    """All partitions, from their first offset on."""
    return [TopicPartition(topic, number, 0) for number in range(count)]
