"""Committed offsets, through clients that others wrote: all agree on them, and none is lost."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.testing import Broker
from tests.compat.test_broker_kill import BrokerProcess
from tests.support.clients.client import WAIT_S
from tests.support.clients.kafka_python import KafkaAdminClient, KafkaConsumer, OffsetAndMetadata
from tests.support.clients.kafka_python import TopicPartition as KafkaPythonPartition
from tests.support.clients.kcat import kcat
from tests.support.compat.java_tools import run_tool

COMMITS_BETWEEN_KILLS = 50
KILLS = 3


def produced(servers: str, topic: str, amount: int) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for number in range(amount):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(WAIT_S) == 0


def simple_consumer(servers: str, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False})


def commit_by_librdkafka(servers: str, group: str, topic: str, offset: int) -> None:
    with closing(simple_consumer(servers, group)) as consumer:
        wish = TopicPartition(topic, 0, offset, metadata="by librdkafka")
        (done,) = consumer.commit(offsets=[wish], asynchronous=False) or ()
        assert done.error is None


def commit_by_kafka_python(servers: str, group: str, topic: str, offset: int) -> None:
    with closing(
        KafkaConsumer(bootstrap_servers=servers, group_id=group, enable_auto_commit=False)
    ) as consumer:
        partition = KafkaPythonPartition(topic, 0)
        consumer.assign([partition])
        consumer.commit({partition: OffsetAndMetadata(offset, "by kafka-python", -1)})


def seen_by_librdkafka(servers: str, group: str, topic: str) -> int:
    with closing(simple_consumer(servers, group)) as consumer:
        (found,) = consumer.committed([TopicPartition(topic, 0)], WAIT_S)
        return int(found.offset)


def seen_by_kafka_python(servers: str, group: str, topic: str) -> int:
    with closing(KafkaConsumer(bootstrap_servers=servers, group_id=group)) as consumer:
        found = consumer.committed(KafkaPythonPartition(topic, 0))
        return int(found)


def seen_by_admin(servers: str, group: str, topic: str) -> int:
    admin = AdminClient({"bootstrap.servers": servers})
    asked = [ConsumerGroupTopicPartitions(group)]
    told = admin.list_consumer_group_offsets(asked)[group].result(WAIT_S)
    return next(each.offset for each in told.topic_partitions if each.topic == topic)


@pytest.mark.parametrize("commit", [commit_by_librdkafka, commit_by_kafka_python])
def test_all_clients_see_the_offsets_that_one_has_committed(
    commit: Callable[[str, str, str, int], None], servers: str, topic: str
) -> None:
    produced(servers, topic, 10)
    group = f"{topic}-simple"
    for offset in (7, 3):
        commit(servers, group, topic, offset)
        assert seen_by_librdkafka(servers, group, topic) == offset
        assert seen_by_kafka_python(servers, group, topic) == offset
        assert seen_by_admin(servers, group, topic) == offset


def test_offsets_are_changed_listed_and_deleted_through_admin_clients(
    servers: str, topic: str
) -> None:
    produced(servers, topic, 10)
    group = f"{topic}-admin"
    admin = AdminClient({"bootstrap.servers": servers})
    wish = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 4)])
    admin.alter_consumer_group_offsets([wish])[group].result(WAIT_S)
    assert seen_by_librdkafka(servers, group, topic) == 4
    listed = admin.list_consumer_groups().result(WAIT_S).valid
    assert (group, "EMPTY") in {(each.group_id, each.state.name) for each in listed}
    with closing(KafkaAdminClient(bootstrap_servers=servers)) as other:
        assert group in str(other.list_groups())
    printed = run_tool(
        "consumer.group.ConsumerGroupCommand",
        *("--bootstrap-server", servers, "--describe", "--group", group),
    ).decode()
    assert [line.split()[1:6] for line in printed.splitlines() if topic in line] == [
        [topic, "0", "4", "10", "6"]
    ]
    admin.delete_consumer_groups([group])[group].result(WAIT_S)
    assert seen_by_librdkafka(servers, group, topic) < 0


def test_kafka_reads_the_offsets_that_we_wrote(broker: Broker, topic: str) -> None:
    servers = broker.bootstrap_servers
    produced(servers, topic, 5)
    group = f"{topic}-dumped"
    commit_by_librdkafka(servers, group, topic, 5)
    written = [
        path
        for path in Path(broker.directory).glob("__consumer_offsets-*/*.log")
        if group.encode() in path.read_bytes()
    ]
    assert len(written) == 1
    printed = run_tool(
        *("DumpLogSegments", "--offsets-decoder", "--print-data-log"),
        *("--files", str(written[0])),
    ).decode()
    (line,) = [line for line in printed.splitlines() if group in line]
    assert '"offset":5' in line
    assert '"metadata":"by librdkafka' in line


def test_a_group_goes_on_where_it_was_after_the_broker_was_killed(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        topic, group = "resumed", "resuming"
        options = ("-b", broker.servers, "-G", group, "-X", "auto.offset.reset=earliest")
        seen = []
        for number in range(3):
            line = b"record %d" % number
            kcat("-P", "-b", broker.servers, "-t", topic, "-p", "0", lines=line)
            seen.append(kcat(*options, "-q", "-e", topic).split(b"\n"))
            broker.kill_and_restart()
        assert seen == [[b"record %d" % number, b""] for number in range(3)]
        broker.stop()


def noted(topic: str, offset: int) -> TopicPartition:
    """A committed offset, with distinct metadata."""
    return TopicPartition(topic, 0, offset, metadata=f"note {offset}")


def test_no_acknowledged_commit_is_lost_when_the_broker_is_killed(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        topic = "committed"
        produced(broker.servers, topic, 1)
        offset = 0
        for _ in range(KILLS):
            with closing(simple_consumer(broker.servers, "killed")) as consumer:
                for _ in range(COMMITS_BETWEEN_KILLS):
                    offset += 1
                    consumer.commit(offsets=[noted(topic, offset)], asynchronous=False)
                # This one may be acknowledged or not.
                consumer.commit(offsets=[noted(topic, offset + 1)])
                broker.kill_and_restart()
            with closing(simple_consumer(broker.servers, "killed")) as consumer:
                (found,) = consumer.committed([TopicPartition(topic, 0)], WAIT_S)
            assert found.offset in (offset, offset + 1)
            assert found.metadata == noted(topic, found.offset).metadata
            offset = found.offset
        broker.stop()
