"""Runs `ottla …` against a cluster inside the test process."""

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing.cluster import Cluster
from tests.support.cli.run_command import Ran, at, ottla
from tests.support.raw_requests import ResourceType, alter_configs

WAIT_S = 60.0


class ClusterCommands:
    """Commands at a cluster, with the rows that they print."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def __call__(self, *arguments: str, text: str | None = None) -> Ran:
        return ottla(*arguments, *at(self.cluster.bootstrap_servers), stdin=text)

    def done(self, *arguments: str, text: str | None = None) -> Ran:
        """A command that must end well."""
        ran = self(*arguments, text=text)
        assert ran.exit_code == 0, ran.stderr
        return ran

    def replicas(self, topic: str) -> list[tuple[int, ...]]:
        """The replicas of each partition of a topic."""
        rows = self.done("topic", "describe", topic, "-o", "jsonl").rows_of("partition")
        return [tuple(map(int, row["replicas"].split(","))) for row in rows]

    def configs(self, topic: str) -> dict[str, str]:
        """The settings of a topic's own."""
        rows = self.done("topic", "describe", topic, "-o", "jsonl").rows_of("config")
        return {row["config"]: row["value"] for row in rows}

    def create(self, topic: str, assignment: list[list[int]]) -> None:
        """A topic with these replicas of its partitions, which are all in sync on return."""
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap_servers})
        wanted = NewTopic(topic, len(assignment), replica_assignment=assignment)
        (made,) = admin.create_topics([wanted]).values()
        made.result(WAIT_S)
        in_sync = [set(replicas) for replicas in assignment]
        self.until(
            lambda: (
                self("topic", "describe", topic).exit_code == 0
                and [set(each) for each in self.in_sync(topic)] == in_sync
            )
        )

    def leaders(self, topic: str) -> list[int | None]:
        rows = self.done("topic", "describe", topic, "-o", "jsonl").rows_of("partition")
        return [row["leader"] for row in rows]

    def in_sync(self, topic: str) -> list[tuple[int, ...]]:
        rows = self.done("topic", "describe", topic, "-o", "jsonl").rows_of("partition")
        return [tuple(map(int, row["isr"].split(","))) if row["isr"] else () for row in rows]

    def alter_broker(self, broker_id: int, name: str, value: str) -> None:
        """Changes a setting of a running broker."""
        position = self.cluster.broker_ids.index(broker_id)
        servers = self.cluster.bootstrap_servers.split(",")[position]
        alter_configs(servers, ResourceType.BROKER, str(broker_id), {name: value})

    def process(self, *arguments: str) -> subprocess.Popen[str]:
        """A command in a process of its own."""
        command = [*arguments, *at(self.cluster.bootstrap_servers)]
        return subprocess.Popen(
            [sys.executable, "-m", "ottla.cli", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def until(self, condition: Callable[[], Any]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.1)
