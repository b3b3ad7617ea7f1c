"""`ottla topic list` and `describe`."""

from collections.abc import Collection, Iterable, Sequence

from ottla.cli.shared.output import Row, RowWriter
from ottla.client.admin.cluster import Admin
from ottla.client.errors import ClientError, Refused, UnsupportedByBroker
from ottla.client.reading.offsets import ListedOffset
from ottla.client.routing.outcomes import Outcomes, unwrap
from ottla.client.routing.router import Router
from ottla.client.routing.topology import Topic
from ottla.protocol.config_resource import ResourceType
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.primitives import NO_BROKER
from ottla.protocol.topic_partition import TopicPartition

# DescribeConfigs' source of a topic's own setting.
OWN_SETTING = 1


async def list_topics(router: Router, writer: RowWriter, *, with_internal: bool) -> None:
    for topic in await Admin(router).list_topics():
        if with_internal or not topic.is_internal:
            writer.write(topic_row(topic))
    writer.close()


async def describe_topics(router: Router, names: Sequence[str], writer: RowWriter) -> None:
    """Writes rows of topics, then of partitions, then of settings. Refused if one is missing."""
    admin = Admin(router)
    topics = await existing_topics(admin, names)
    for topic in topics:
        writer.write(topic_row(topic))
    for row in await _partition_rows(admin, topics):
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


async def _partition_rows(admin: Admin, topics: Sequence[Topic]) -> list[Row]:
    partitions = partitions_of(topics)
    begins = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    sizes = await _sizes(admin, topics)
    return [
        {
            "kind": "partition",
            "topic": topic.name,
            "partition": partition.number,
            "leader": partition.leader if partition.leader != NO_BROKER else None,
            "leader_epoch": partition.leader_epoch,
            "replicas": _ids(partition.replicas),
            "isr": _ids(partition.in_sync),
            "first_offset": _offset(begins, (name := TopicPartition(topic.name, partition.number))),
            "end_offset": _offset(ends, name),
            "bytes": sizes.get(name),
        }
        for topic in topics
        for partition in topic.partitions
    ]


async def _sizes(admin: Admin, topics: Iterable[Topic]) -> dict[TopicPartition, int]:
    """The size of each leader's replica on disk, if the leader reports it."""
    leaders: dict[int, list[TopicPartition]] = {}
    for topic in topics:
        for partition in topic.partitions:
            name = TopicPartition(topic.name, partition.number)
            leaders.setdefault(partition.leader, []).append(name)
    sizes: dict[TopicPartition, int] = {}
    for leader, led in leaders.items():
        try:
            directories = await admin.describe_log_dirs(leader)
        except (Refused, UnsupportedByBroker):
            continue
        for directory in directories:
            sizes |= {name: directory.sizes[name] for name in led if name in directory.sizes}
    return sizes


def _offset(outcomes: Outcomes[ListedOffset], partition: TopicPartition) -> int | None:
    """None if the leader does not respond: the rest of the description is still useful."""
    outcome = outcomes[partition]
    return None if isinstance(outcome, ClientError) else outcome.offset


def _ids(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes))
