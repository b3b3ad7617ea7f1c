"""Partitions as arguments and in rows: `orders:0`, or `orders` for all partitions of a topic.

No topic's name contains a colon, while `orders-0` may be a topic of that name.
"""

from typing import NamedTuple

from ottla.cli.shared.failure import ExitCode, Failure
from ottla.protocol.topic_partition import TopicPartition


class TopicOrPartition(NamedTuple):
    """A topic, or one of its partitions."""

    topic: str
    partition: int | None


def parse_partition(text: str) -> TopicOrPartition:
    """Failure if it is neither."""
    topic, colon, number = text.partition(":")
    if not topic or (colon and not (number.isascii() and number.isdigit() and len(number) < 10)):
        raise Failure(
            f"{text!r} is not a partition",
            advice="TOPIC:PARTITION, as orders:0",
            exit_code=ExitCode.USAGE,
        )
    return TopicOrPartition(topic, int(number) if colon else None)


def partition_name(partition: TopicPartition) -> str:
    """The notation that these commands take."""
    return f"{partition.topic}:{partition.partition}"
