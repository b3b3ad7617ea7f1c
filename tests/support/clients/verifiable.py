"""Kafka's verifiable consumer: a group member that prints its assignment and its records."""

import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.clients.client import WAIT_S
from tests.support.compat.java_tools import JARS, JVM, TOOLS

CLIENTS = "org.apache.kafka.clients.consumer"


class Spell(NamedTuple):
    """One time that a member owned a partition."""

    partition: int
    member: str
    since_ms: int
    # None: it still does.
    until_ms: int | None


class VerifiableMember:
    """A process that reads and commits until it is closed; then it leaves the group."""

    def __init__(
        self, servers: str, group: str, topic: str, protocol: str, assignor: str, directory: Path
    ) -> None:
        self.name = f"{protocol}-{len(list(directory.iterdir()))}"
        self.events: list[dict[str, Any]] = []
        config = directory / f"{self.name}.properties"
        # Only a classic consumer says itself how often it beats.
        beats = "heartbeat.interval.ms=300\n" if protocol == "classic" else ""
        config.write_text(f"{beats}client.id={self.name}\nmetadata.max.age.ms=1000\n")
        given = [
            *("--bootstrap-server", servers, "--topic", topic, "--group-id", group),
            *("--group-protocol", protocol, "--command-config", str(config)),
        ]
        if protocol == "classic":
            given += ["--assignment-strategy", f"{CLIENTS}.{assignor}"]
            given += ["--session-timeout", "45000"]
        self._process = subprocess.Popen(
            ["java", *JVM, "-cp", f"{JARS}/*", f"{TOOLS}.VerifiableConsumer", *given],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"LC_ALL": "C.UTF-8"},
        )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Leaves the group. Its last output are the revoked partitions."""
        self._process.terminate()
        self._process.wait(WAIT_S)
        self._thread.join(WAIT_S)

    @property
    def owned(self) -> set[int]:
        return {spell.partition for spell in self.spells() if spell.until_ms is None}

    def spells(self) -> list[Spell]:
        """The times of ownership per partition."""
        spells: list[Spell] = []
        owned: dict[int, int] = {}
        for event in list(self.events):
            partitions = [each["partition"] for each in event.get("partitions", ())]
            if event["name"] == "partitions_assigned":
                owned |= dict.fromkeys(partitions, event["timestamp"])
            elif event["name"] == "partitions_revoked":
                for partition in partitions:
                    since_ms = owned.pop(partition)
                    spells.append(Spell(partition, self.name, since_ms, event["timestamp"]))
        return spells + [Spell(each, self.name, since, None) for each, since in owned.items()]

    def read(self) -> dict[int, set[int]]:
        """The offsets that it has read, by partition."""
        found: dict[int, set[int]] = {}
        for event in list(self.events):
            if event["name"] == "records_consumed":
                for each in event["partitions"]:
                    offsets = range(each["minOffset"], each["maxOffset"] + 1)
                    found.setdefault(each["partition"], set()).update(offsets)
        return found

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as printed:
            for line in printed:
                self.events.append(json.loads(line))
