"""`ottla topic list` and `describe`."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ottla.cli.shared.output import Row, RowWriter
from ottla.client.admin.cluster import Admin
from ottla.client.admin.eligible_leaders import eligible_leaders
from ottla.client.errors import ClientError, Refused, UnsupportedByBroker
from ottla.client.reading.offsets import ListedOffset
from ottla.client.routing.outcomes import Outcomes, unwrap
from ottla.client.routing.router import Router
from ottla.client.routing.topology import Partition, Topic
from ottla.protocol.config_resource import ResourceType
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.topic_partition import TopicPartition

# DescribeConfigs' source of a topic's own setting.
OWN_SETTING = 1


async def list_topics(router: Router, writer: RowWriter, *, with_internal: bool) -> None:
    for topic in await Admin(router).list_topics():
        if with_internal or not topic.is_internal:
            writer.write(topic_row(topic))
    writer.close()


class PartitionFilter(NamedTuple):
    """Selects partitions in one of these states; every partition if none is asked for."""

    under_replicated: bool = False
    unavailable: bool = False

    @property
    def is_given(self) -> bool:
        return self.under_replicated or self.unavailable

    def selects(self, partition: Partition) -> bool:
        return (
            not self.is_given
            or (self.under_replicated and partition.is_under_replicated)
            or (self.unavailable and partition.is_unavailable)
        )


async def describe_partitions(
    router: Router, names: Sequence[str], wanted: PartitionFilter, writer: RowWriter
) -> None:
    """Writes rows of the partitions in a state, of all topics if none is named. Refused."""
    admin = Admin(router)
    topics = await existing_topics(admin, names) if names else await admin.list_topics()
    for row in await _partition_rows(router, [_selected(topic, wanted) for topic in topics]):
        writer.write(row)
    writer.close()


def _selected(topic: Topic, wanted: PartitionFilter) -> Topic:
    """The topic with some of its partitions."""
    selected = tuple(each for each in topic.partitions if wanted.selects(each))
    return replace(topic, partitions=selected)


async def describe_topics(router: Router, names: Sequence[str], writer: RowWriter) -> None:
    """Writes rows of topics, then of partitions, then of settings. Refused if one is missing."""
    admin = Admin(router)
    topics = await existing_topics(admin, names)
    for topic in topics:
        writer.write(topic_row(topic))
    for row in await _partition_rows(router, topics):
        writer.write(row)
    for topic in topics:
        for config in await admin.describe_configs(ResourceType.TOPIC, topic.name):
            if config.source == OWN_SETTING:
                writer.write(
                    {
                        "kind": "config",
                        "topic": topic.name,
                        "config": config.name,
                        "value": config.value,
                    }
                )
    writer.close()


async def existing_topics(admin: Admin, names: Collection[str]) -> list[Topic]:
    """The topics of these names. Refused if one does not exist."""
    found = await admin.describe_topics(list(dict.fromkeys(names)))
    return [unwrap(outcome) for outcome in found.values()]


def partitions_of(topics: Iterable[Topic]) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, partition.number)
        for topic in topics
        for partition in topic.partitions
    ]


def topic_row(topic: Topic) -> Row:
    return {
        "kind": "topic",
        "name": topic.name,
        "partitions": len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "is_internal": topic.is_internal,
        "topic_id": str(topic.topic_id),
    }


async def _partition_rows(router: Router, topics: Sequence[Topic]) -> list[Row]:
    admin = Admin(router)
    partitions = {
        TopicPartition(topic.name, partition.number): partition
        for topic in topics
        for partition in topic.partitions
    }
    # Nobody would answer for the others.
    led = {name: each.leader for name, each in partitions.items() if not each.is_unavailable}
    begins = await admin.list_offsets(dict.fromkeys(led, OffsetSpec.EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(led, OffsetSpec.LATEST))
    sizes = await _sizes(admin, led)
    eligible = await eligible_leaders(router, {name.topic for name in partitions})
    return [
        {
            "kind": "partition",
            "topic": name.topic,
            "partition": name.partition,
            "state": _state(partition),
            "leader": led.get(name),
            "leader_epoch": partition.leader_epoch,
            "replicas": _ids(partition.replicas),
            "isr": _ids(partition.in_sync),
            "elr": _ids(eligible[name].elr) if name in eligible else None,
            "last_known_elr": _ids(eligible[name].last_known_elr) if name in eligible else None,
            "offline": _ids(partition.offline),
            "first_offset": _offset(begins, name),
            "end_offset": _offset(ends, name),
            "bytes": sizes.get(name),
        }
        for name, partition in partitions.items()
    ]


def _state(partition: Partition) -> str:
    if partition.is_unavailable:
        return "unavailable"
    return "under-replicated" if partition.is_under_replicated else "ok"


async def _sizes(admin: Admin, led: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The size of each leader's replica on disk, if the leader reports it."""
    leaders: dict[int, list[TopicPartition]] = {}
    for name, leader in led.items():
        leaders.setdefault(leader, []).append(name)
    sizes: dict[TopicPartition, int] = {}
    for leader, names in leaders.items():
        try:
            directories = await admin.describe_log_dirs(leader)
        except (Refused, UnsupportedByBroker):
            continue
        for directory in directories:
            sizes |= {name: directory.sizes[name] for name in names if name in directory.sizes}
    return sizes


def _offset(outcomes: Outcomes[ListedOffset], partition: TopicPartition) -> int | None:
    """None without a response of a leader: the rest of the description is still useful."""
    outcome = outcomes.get(partition)
    return None if outcome is None or isinstance(outcome, ClientError) else outcome.offset


def _ids(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes))
