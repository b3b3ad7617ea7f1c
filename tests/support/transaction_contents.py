"""What clients can see of transactions, as JSON. Read by librdkafka and kafka-python.

No code of Ottla takes part. The form is that of the recorded cases, so it stays, as in
`cluster_contents`.
"""

import time
import warnings
from contextlib import closing

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.support.cluster_contents import (
    INTERNAL,
    WAIT_S,
    Json,
    KafkaPythonPartition,
    contents,
    kafka_python_admin,
    records_to_end,
)

with warnings.catch_warnings():
    # As in `cluster_contents`.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import CoordinatorLoadInProgressError

# Of these only: a later version may have more features, and other defaults.
FEATURES = ("transaction.version",)
ENDED = {"Empty", "CompleteCommit", "CompleteAbort"}


def settled_contents(servers: str) -> Json:
    """`contents`, which are of committed records, and the transactions, once all have ended.

    The broker aborts a transaction that was open at its last end. The time of that abort is left
    out: it is another whenever the directory is opened.
    """
    deadline = time.monotonic() + WAIT_S
    while not _all_ended(servers):
        assert time.monotonic() < deadline, "a transaction does not end"
        time.sleep(0.05)
    found = contents(servers)
    for topic, content in found["topics"].items():
        for number, partition in enumerate(content["partitions"]):
            partition["producers"] = _producers(servers, topic, number)
    return found | {
        "last_stable_offsets": last_stable_offsets(servers),
        "uncommitted": uncommitted(servers),
        "transactions": transactions(servers),
        "features": features(servers),
    }


def _all_ended(servers: str) -> bool:
    with kafka_python_admin(servers) as admin:
        try:
            listed = admin.list_transactions().values()
        except CoordinatorLoadInProgressError:
            # The broker has just started. kafka-python leaves the retry to its caller.
            return False
    return {each.state.value for ids in listed for each in ids} <= ENDED


def transactions(servers: str) -> Json:
    """Every transactional id: its producer, and its current or last transaction."""
    with kafka_python_admin(servers) as admin:
        listed = [each for ids in admin.list_transactions().values() for each in ids]
        described = admin.describe_transactions([each.transactional_id for each in listed])
    assert {each.transactional_id: (each.producer_id, each.state) for each in listed} == {
        name: (each.producer_id, each.state) for name, each in described.items()
    }
    return {
        name: {
            "state": each.state.value,
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "timeout_ms": each.transaction_timeout_ms,
            "start_ms": each.transaction_start_time_ms,
            "partitions": sorted(f"{topic}-{number}" for topic, number in each.topic_partitions),
        }
        for name, each in sorted(described.items())
    }


def uncommitted(servers: str) -> Json:
    """The records of each partition, as a read_uncommitted consumer sees them."""
    return {
        topic: [_uncommitted(servers, topic, number) for number in range(count)]
        for topic, count in _partition_counts(servers).items()
    }


def _uncommitted(servers: str, topic: str, number: int) -> Json:
    settings = {"bootstrap.servers": servers, "group.id": "none", "enable.auto.commit": "false"}
    settings |= {"enable.partition.eof": "true", "fetch.wait.max.ms": "10"}
    settings |= {"isolation.level": "read_uncommitted"}
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, number, 0)])
        return list(records_to_end(consumer))


def last_stable_offsets(servers: str) -> Json:
    """The end of each partition for a read_committed consumer."""
    admin = AdminClient({"bootstrap.servers": servers})
    wanted = [
        TopicPartition(topic, number)
        for topic, count in _partition_counts(servers).items()
        for number in range(count)
    ]
    asked = admin.list_offsets(
        dict.fromkeys(wanted, OffsetSpec.latest()), isolation_level=IsolationLevel.READ_COMMITTED
    )
    return {f"{each.topic}-{each.partition}": asked[each].result(WAIT_S).offset for each in wanted}


def _partition_counts(servers: str) -> dict[str, int]:
    with kafka_python_admin(servers) as admin:
        described = {each["name"]: len(each["partitions"]) for each in admin.describe_topics()}
    return {topic: described[topic] for topic in sorted(described.keys() - INTERNAL)}


def stable_offsets(servers: str, group: str, topic: str) -> Json:
    """The group's offset in each partition: null without one, "pending" in an open transaction."""
    wanted = [TopicPartition(topic, number) for number in range(_partition_counts(servers)[topic])]
    admin = AdminClient({"bootstrap.servers": servers})
    request = [ConsumerGroupTopicPartitions(group, wanted)]
    asked = admin.list_consumer_group_offsets(request, require_stable=True)[group]
    return {
        f"{each.topic}-{each.partition}": _stable_offset(each)
        for each in asked.result(WAIT_S).topic_partitions
    }


def _stable_offset(found: TopicPartition) -> Json:
    if found.error is not None:
        assert found.error.code() == KafkaError.UNSTABLE_OFFSET_COMMIT, found.error
        return "pending"
    return found.offset if found.offset >= 0 else None


def features(servers: str) -> Json:
    """The finalized levels; 0 if a feature is disabled."""
    with kafka_python_admin(servers) as admin:
        described = admin.describe_features()
    return {name: described.get(name, {}).get("finalized", (0, 0))[1] for name in FEATURES}


def _producers(servers: str, topic: str, number: int) -> Json:
    partition = KafkaPythonPartition(topic, number)
    with kafka_python_admin(servers) as admin:
        found = admin.describe_producers([partition])[partition].active_producers
    return [
        {
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "last_sequence": each.last_sequence,
            "coordinator_epoch": each.coordinator_epoch,
            "transaction_start_offset": each.current_transaction_start_offset,
        }
        for each in sorted(found, key=lambda each: each.producer_id)
    ]
