"""Everything that clients can see of one broker, as JSON. Read by librdkafka and kafka-python.

No code of Ottla takes part: the same content is read from every version. The form is that of the
recorded cases, so it stays. Something new to be seen gets a function of its own.
"""

import hashlib
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource

from tests.support.raw_requests import epoch_end

with warnings.catch_warnings():
    # kafka-python reads its schemas in a way that Python means to give up.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient
    from kafka import TopicPartition as KafkaPythonPartition
    from kafka.admin import ConfigResource as KafkaPythonResource
    from kafka.admin import ConfigResourceType

WAIT_S = 120.0
# A longer key or value is kept as a digest.
PLAIN_BYTES_MAX = 256
OFFSETS_TOPIC = "__consumer_offsets"
# Their content is seen through groups and transactional ids.
INTERNAL = {OFFSETS_TOPIC, "__transaction_state"}
# Set for one topic, one broker or all brokers, as opposed to defaults and the command line.
DYNAMIC = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG.value: "topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG.value: "broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value: "all brokers",
}

EPOCHS = ("leader_epoch", "epoch_ends")

Json = Any


def contents(servers: str) -> Json:
    """The cluster's topics with their records, configs and producers; groups; broker configs."""
    admin = AdminClient({"bootstrap.servers": servers})
    with kafka_python_admin(servers) as kafka_python:
        described = kafka_python.describe_topics()
        topics = {
            topic["name"]: _topic(servers, admin, kafka_python, topic)
            for topic in sorted(described, key=lambda topic: topic["name"])
            if topic["name"] not in INTERNAL
        }
        offsets_topic = [each for each in described if each["name"] == OFFSETS_TOPIC]
        offsets_partitions = [len(each["partitions"]) for each in offsets_topic]
    described_cluster = admin.describe_cluster().result(WAIT_S)
    broker_ids = sorted(str(node.id) for node in described_cluster.nodes)
    return {
        "cluster_id": described_cluster.cluster_id,
        "broker_configs": {
            each: _configs(admin, ConfigResource.Type.BROKER, each) for each in broker_ids
        },
        "topics": topics,
        "offsets_topic_partitions": offsets_partitions,
        "groups": _groups(servers, admin),
    }


@contextmanager
def kafka_python_admin(servers: str) -> Iterator[KafkaAdminClient]:
    """For what librdkafka cannot ask."""
    admin = KafkaAdminClient(
        bootstrap_servers=servers, request_timeout_ms=int(WAIT_S * 1000), client_id="upgrade"
    )
    with closing(admin):
        yield admin


def without_epochs(found: Json) -> Json:
    """All that a restart does not change: it begins new leader epochs."""
    kept = {
        topic: [
            {name: part for name, part in partition.items() if name not in EPOCHS}
            for partition in content["partitions"]
        ]
        for topic, content in found["topics"].items()
    }
    topics = {
        topic: content | {"partitions": kept[topic]} for topic, content in found["topics"].items()
    }
    return found | {"topics": topics}


# Topics


def _topic(servers: str, admin: AdminClient, kafka_python: KafkaAdminClient, topic: Json) -> Json:
    name = topic["name"]
    partitions = sorted(topic["partitions"], key=lambda partition: partition["partition_index"])
    return {
        "topic_id": str(topic["topic_id"]),
        "configs": _configs(admin, ConfigResource.Type.TOPIC, name),
        "partitions": [
            {
                "leader_epoch": partition["leader_epoch"],
                "epoch_ends": [
                    epoch_end(servers, name, partition["partition_index"], epoch)
                    for epoch in range(partition["leader_epoch"] + 1)
                ],
                **_partition(servers, name, partition["partition_index"]),
                "producers": _producers(kafka_python, name, partition["partition_index"]),
            }
            for partition in partitions
        ],
    }


def _partition(servers: str, topic: str, number: int) -> Json:
    """Start and end offset, and every record in between."""
    settings = {"bootstrap.servers": servers, "group.id": "none", "enable.auto.commit": "false"}
    settings |= {"auto.offset.reset": "error", "enable.partition.eof": "true"}
    # Each fetch answers at once; checksums are the client's to check.
    settings |= {"fetch.wait.max.ms": "10", "check.crcs": "true"}
    with closing(Consumer(settings)) as consumer:
        wanted = TopicPartition(topic, number)
        start, end = consumer.get_watermark_offsets(wanted, WAIT_S)
        consumer.assign([TopicPartition(topic, number, start)])
        records = list(records_to_end(consumer))
        found = {"start": start, "end": end, "records": records}
        if records:
            _, time_ms = records[len(records) // 2]["timestamp"]
            wanted = TopicPartition(topic, number, time_ms)
            (by_time,) = consumer.offsets_for_times([wanted], WAIT_S)
            found["offset_by_time"] = [time_ms, by_time.offset]
        return found


def records_to_end(consumer: Consumer) -> Iterator[Json]:
    """Of the one partition that is assigned; the consumer has `enable.partition.eof`."""
    while True:
        message = consumer.poll(WAIT_S)
        assert message is not None, "no answer to a fetch"
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            return
        assert error is None, error
        yield _record(message)


def _record(message: Message) -> Json:
    kind, timestamp_ms = message.timestamp()
    record = {
        "offset": message.offset(),
        "leader_epoch": message.leader_epoch(),
        "timestamp": [kind, timestamp_ms],
        "key": text_of(message.key()),
        "value": text_of(message.value()),
    }
    if message.headers():
        record["headers"] = [[name, text_of(value)] for name, value in message.headers()]
    return record


def text_of(content: bytes | None) -> str | None:
    """Bytes as JSON can hold them: short ones by their characters, long ones by a digest."""
    if content is None or len(content) <= PLAIN_BYTES_MAX:
        return None if content is None else content.decode("latin-1")
    return f"{len(content)} bytes, sha256 {hashlib.sha256(content).hexdigest()}"


def _producers(kafka_python: KafkaAdminClient, topic: str, number: int) -> Json:
    partition = KafkaPythonPartition(topic, number)
    found = kafka_python.describe_producers([partition])[partition]
    return sorted(
        (
            {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.producer_epoch,
                "last_sequence": producer.last_sequence,
                "last_timestamp": producer.last_timestamp,
            }
            for producer in found.active_producers
        ),
        key=lambda producer: producer["producer_id"],
    )


# Configs


def _configs(admin: AdminClient, kind: ConfigResource.Type, name: str) -> Json:
    """Only the dynamic ones: defaults may change from version to version."""
    (asked,) = admin.describe_configs([ConfigResource(kind, name)]).values()
    return {
        entry.name: [DYNAMIC[entry.source], entry.value]
        for entry in sorted(asked.result(WAIT_S).values(), key=lambda entry: entry.name)
        if entry.source in DYNAMIC
    }


# Groups


def _groups(servers: str, admin: AdminClient) -> Json:
    """Every group: its kind and state, its configs, its members, its committed offsets."""
    listed = admin.list_consumer_groups().result(WAIT_S)
    assert listed.errors == []
    return {
        each.group_id: {
            "type": each.type.name,
            "configs": _group_configs(servers, each.group_id),
            **_members(admin, each.group_id),
            "offsets": _offsets(admin, each.group_id),
        }
        for each in sorted(listed.valid, key=lambda each: each.group_id)
    }


def _group_configs(servers: str, group: str) -> Json:
    # librdkafka knows none of them.
    with kafka_python_admin(servers) as kafka_python:
        wanted = KafkaPythonResource(ConfigResourceType.GROUP, group)
        found = kafka_python.describe_configs([wanted])["group"][group]
    return {
        name: entry["value"]
        for name, entry in sorted(found.items())
        if entry["config_source"] == "DYNAMIC_GROUP_CONFIG"
    }


def _members(admin: AdminClient, group: str) -> Json:
    described = admin.describe_consumer_groups([group])[group].result(WAIT_S)
    return {
        "state": described.state.name,
        "assignor": described.partition_assignor,
        "members": [
            {
                "member_id": member.member_id,
                "instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "assigned": sorted(
                    f"{each.topic}-{each.partition}" for each in member.assignment.topic_partitions
                ),
            }
            for member in sorted(described.members, key=lambda member: member.member_id)
        ],
    }


def _offsets(admin: AdminClient, group: str) -> Json:
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group]
    return {
        f"{each.topic}-{each.partition}": {
            "offset": each.offset,
            "leader_epoch": each.leader_epoch,
            "metadata": each.metadata,
        }
        for each in sorted(asked.result(WAIT_S).topic_partitions)
    }
