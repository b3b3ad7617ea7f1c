"""Topics, through the administration side of clients that others wrote."""

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from ottla.errors import ErrorCode
from tests.support.clients import CLIENTS, QUICK_CLIENTS, name_of
from tests.support.clients.admins import ADMINS, KafkaPythonAdmin, LibrdkafkaAdmin, OpenAdmin
from tests.support.clients.client import FIRST_TIMESTAMP_MS, WAIT_S, Client, Sent, numbered, unlike
from tests.support.clients.librdkafka import Librdkafka

each_admin = pytest.mark.parametrize("open_admin", ADMINS.values(), ids=ADMINS)


@each_admin
def test_a_topic_is_created_once_and_deleted_once(
    open_admin: OpenAdmin, servers: str, topic: str
) -> None:
    admin = open_admin(servers)
    assert admin.create(topic, 3, {}) == ErrorCode.NONE
    assert admin.topics()[topic] == 3
    assert admin.create(topic, 3, {}) == ErrorCode.TOPIC_ALREADY_EXISTS
    assert admin.delete(topic) == ErrorCode.NONE
    assert topic not in admin.topics()
    assert admin.delete(topic) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@each_admin
def test_an_invalid_topic_is_refused_with_kafkas_code(
    open_admin: OpenAdmin, servers: str, topic: str
) -> None:
    admin = open_admin(servers)
    assert admin.create("no/such:name", 1, {}) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert admin.create(topic, 1, {"no.such.config": "1"}) == ErrorCode.INVALID_CONFIG
    assert admin.create(topic, 1, {"retention.ms": "long"}) == ErrorCode.INVALID_CONFIG
    assert topic not in admin.topics()


@each_admin
def test_a_topic_is_described_with_its_own_configs_and_defaults(
    open_admin: OpenAdmin, servers: str, topic: str
) -> None:
    admin = open_admin(servers)
    given = {"retention.ms": "3600000", "segment.bytes": "2097152"}
    assert admin.create(topic, 1, given) == ErrorCode.NONE
    told = admin.configs(topic)
    assert told | given == told
    assert told["cleanup.policy"] == "delete"
    assert told["max.message.bytes"] == "1048588"
    assert told["min.insync.replicas"] == "1"


@each_admin
def test_a_topics_config_is_changed_and_counts_at_once(
    open_admin: OpenAdmin, servers: str, topic: str
) -> None:
    admin = open_admin(servers)
    admin.create(topic, 1, {})
    Librdkafka().write(servers, topic, [Sent(bytes(10_000))])
    assert admin.alter(topic, {"max.message.bytes": "5000", "retention.ms": "-1"}) == ErrorCode.NONE
    told = admin.configs(topic)
    assert (told["max.message.bytes"], told["retention.ms"]) == ("5000", "-1")
    assert delivery_code(servers, topic, bytes(10_000)) == ErrorCode.MESSAGE_TOO_LARGE
    assert admin.alter(topic, {"max.message.bytes": "few"}) == ErrorCode.INVALID_CONFIG
    assert admin.alter(f"no-{topic}", {"retention.ms": "1"}) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_all_that_has_settings_is_listed(servers: str, topic: str) -> None:
    admin = KafkaPythonAdmin(servers)
    admin.create(topic, 1, {})
    listed = admin.configured()
    assert listed["broker"] == ["1"]
    assert topic in listed["topic"]


@each_admin
def test_a_topic_gains_partitions_and_loses_none(
    open_admin: OpenAdmin, servers: str, topic: str
) -> None:
    admin = open_admin(servers)
    sent = [Sent(b"written before there were more")]
    admin.create(topic, 1, {})
    Librdkafka().write(servers, topic, sent)
    assert admin.grow(topic, 4) == ErrorCode.NONE
    assert admin.topics()[topic] == 4
    assert admin.grow(topic, 2) == ErrorCode.INVALID_PARTITIONS
    assert admin.grow(topic, 4) == ErrorCode.INVALID_PARTITIONS
    assert unlike(sent, Librdkafka().read(servers, topic, 1)) == []


@each_admin
def test_records_before_an_offset_are_deleted(
    open_admin: OpenAdmin, servers: str, topic: str
) -> None:
    sent = numbered(10)
    Librdkafka().write(servers, topic, sent)
    assert open_admin(servers).delete_records(topic, 4) == 4
    for reader in QUICK_CLIENTS:
        assert unlike(sent[4:], reader.read(servers, topic, 6, first=4), first=4) == []


@pytest.mark.parametrize("client", QUICK_CLIENTS, ids=name_of)
def test_the_first_write_creates_a_topic(client: Client, servers: str, topic: str) -> None:
    admin = LibrdkafkaAdmin(servers)
    assert topic not in admin.topics()
    client.write(servers, topic, [Sent(b"first")])
    assert admin.topics()[topic] == 1
    assert [stored.value for stored in client.read(servers, topic, 1)] == [b"first"]


def test_the_offset_of_the_largest_timestamp_is_found(servers: str, topic: str) -> None:
    sent = numbered(10, timestamps=True)
    Librdkafka().write(servers, topic, [*sent[5:], *sent[:5]], "zstd")
    asked = TopicPartition(topic, 0)
    admin = AdminClient({"bootstrap.servers": servers})
    found = admin.list_offsets({asked: OffsetSpec.max_timestamp()})[asked].result(WAIT_S)
    assert found.offset == 4
    assert found.timestamp == sent[9].timestamp_ms


@pytest.mark.parametrize("client", CLIENTS, ids=name_of)
def test_offsets_are_found_by_time_within_batches(client: Client, servers: str, topic: str) -> None:
    # Two batches, so that a time is in one, in the other, or between them.
    sent = numbered(20, timestamps=True)
    Librdkafka().write(servers, topic, sent[:10], "gzip")
    Librdkafka().write(servers, topic, sent[10:], "gzip")
    assert client.offset_at(servers, topic, FIRST_TIMESTAMP_MS - 1) == 0
    assert client.offset_at(servers, topic, FIRST_TIMESTAMP_MS + 7_000) == 7
    assert client.offset_at(servers, topic, FIRST_TIMESTAMP_MS + 9_001) == 10
    assert client.offset_at(servers, topic, FIRST_TIMESTAMP_MS + 19_001) is None


def delivery_code(servers: str, topic: str, value: bytes) -> int:
    """The error that a record is answered with."""
    codes: list[int] = []
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(topic, value, on_delivery=lambda error, _: codes.append(error.code()))
    producer.flush(WAIT_S)
    [code] = codes
    return code
