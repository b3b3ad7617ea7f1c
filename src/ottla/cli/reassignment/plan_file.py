"""Plans as JSON, in the format of Kafka's `kafka-reassign-partitions`."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from ottla.cli.shared.failure import Failure
from ottla.protocol.topic_partition import TopicPartition

VERSION = 1
# Kafka's word for any log directory of the broker.
ANY_DIRECTORY = "any"


def plan_text(targets: Mapping[TopicPartition, Iterable[int]]) -> str:
    """A plan, with one line per partition."""
    lines = [
        json.dumps(
            {
                "topic": name.topic,
                "partition": name.partition,
                "replicas": list(replicas),
                "log_dirs": [ANY_DIRECTORY for _ in replicas],
            }
        )
        for name, replicas in ((name, tuple(each)) for name, each in targets.items())
    ]
    partitions = ",\n  ".join(lines)
    body = f"[\n  {partitions}\n]" if lines else "[]"
    return f'{{"version": {VERSION}, "partitions": {body}}}\n'


def read_plan(path: str) -> dict[TopicPartition, tuple[int, ...]]:
    """The replicas of each partition. Failure if the file is damaged; OSError."""
    with open(path, "rb") as file:
        content = file.read()
    return parse_plan(content, path)


def parse_plan(content: bytes, path: str) -> dict[TopicPartition, tuple[int, ...]]:
    try:
        plan = json.loads(content)
    except ValueError as error:
        raise _damaged(path, f"it is not JSON: {error}") from None
    if not isinstance(plan, dict) or not isinstance(plan.get("partitions"), list):
        raise _damaged(path, "it has no list of partitions")
    if plan.get("version", VERSION) != VERSION:
        raise _damaged(path, f"its version is {plan['version']!r}, {VERSION} is known")
    targets: dict[TopicPartition, tuple[int, ...]] = {}
    for entry in plan["partitions"]:
        name, replicas = _entry(entry, path)
        if name in targets:
            raise _damaged(path, f"it has partition {name} twice")
        targets[name] = replicas
    if not targets:
        raise _damaged(path, "it has no partitions")
    return targets


def _entry(entry: Any, path: str) -> tuple[TopicPartition, tuple[int, ...]]:
    if not isinstance(entry, dict):
        raise _damaged(path, f"{entry!r} is no partition")
    topic, partition = entry.get("topic"), entry.get("partition")
    replicas = entry.get("replicas")
    if not isinstance(topic, str) or not _is_number(partition):
        raise _damaged(path, f"{json.dumps(entry)} names no partition")
    name = TopicPartition(topic, partition)
    if not isinstance(replicas, list) or not replicas or not all(map(_is_number, replicas)):
        raise _damaged(path, f"partition {name} has no list of broker ids as its replicas")
    if len(set(replicas)) != len(replicas):
        raise _damaged(path, f"partition {name} has a broker twice")
    directories = entry.get("log_dirs")
    if directories is not None and directories != [ANY_DIRECTORY] * len(replicas):
        raise Failure(
            f"{path} gives log directories of partition {name}",
            why="only the brokers of replicas can be changed here, not their directories",
            advice=f'write "{ANY_DIRECTORY}" for each replica, or leave log_dirs out',
        )
    return name, tuple(replicas)


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _damaged(path: str, why: str) -> Failure:
    return Failure(
        f"{path} is not a reassignment plan",
        why=why,
        advice="`ottla topic reassign TOPIC -o json` writes one",
    )
