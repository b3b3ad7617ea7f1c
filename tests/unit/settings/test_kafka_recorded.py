"""Our settings equal those that a real Kafka 4.3 described, except for a listed few."""

import functools
import gzip
import json
from typing import Any

import pytest

from ottla.settings.broker import BrokerSettings
from ottla.settings.describe import ConfigRow, describe_broker, describe_topic
from ottla.settings.setting import ConfigSource
from ottla.settings.table import BROKER_SETTINGS, TOPIC_SETTINGS
from ottla.settings.topic import TopicConfigs
from tests.support.paths import VECTORS

WIRE = VECTORS / "wire"
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4

# The recorded cluster tracks eligible leader replicas, and so sets this for all brokers at its
# first start. Ours does not: the value is the same, and comes from the default.
SET_BY_KAFKA_ITSELF = "min.insync.replicas"

# The settings that the recorded broker was started with: their values are no defaults.
GIVEN_TO_KAFKA = {
    "advertised.listeners",
    "auto.create.topics.enable",
    "broker.id",
    "group.initial.rebalance.delay.ms",
    "group.min.session.timeout.ms",
    "listener.security.protocol.map",
    "listeners",
    "log.dirs",
    "node.id",
    "num.partitions",
    "offsets.topic.num.partitions",
    "offsets.topic.replication.factor",
    "transaction.state.log.min.isr",
    "transaction.state.log.num.partitions",
    "transaction.state.log.replication.factor",
}

# Broker settings that differ, and why; the table gives the reasons for defaults.
BROKER_DIFFERENCES = {
    ("log.dir", "value"): "an older name of log.dirs, which has a default of its own here",
    ("listeners", "is_read_only"): "listeners are opened at the start",
    ("listener.security.protocol.map", "is_read_only"): "listeners are opened at the start",
    ("max.connections", "value"): "descriptors are left for the logs",
    ("queued.max.request.bytes", "value"): "memory is bounded",
    ("socket.listen.backlog.size", "value"): "all clients come back at once",
}

# Settings that Kafka 4.3 does not describe, and why.
NOT_DESCRIBED_BY_KAFKA = {
    "leader.imbalance.per.broker.percentage": "Kafka 4 has every preferred replica lead again",
    "leader.replication.throttled.rate": "described only where it is set",
    "follower.replication.throttled.rate": "described only where it is set",
    "replica.alter.log.dirs.io.max.bytes.per.second": "described only where it is set",
    **{
        name: "of Kafka 3, the last version that used ZooKeeper"
        for name in BROKER_SETTINGS
        if name.startswith("zookeeper.")
    },
}


@functools.cache
def described(resource_type: int) -> tuple[dict[str, Any], ...]:
    """Every recorded request about a resource of this type, with its response."""
    lines = gzip.decompress((WIRE / "32-DescribeConfigs.jsonl.gz").read_bytes()).splitlines()
    return tuple(
        {
            "asked": pair["requestJson"],
            "configs": {each["name"]: each for each in result["configs"]},
        }
        for pair in map(json.loads, lines)
        for result in pair["responseJson"]["results"]
        if result["resourceType"] == resource_type and result["configs"]
    )


@functools.cache
def created() -> tuple[list[dict[str, Any]], ...]:
    """The settings of every topic that CreateTopics was recorded to answer with."""
    lines = gzip.decompress((WIRE / "19-CreateTopics.jsonl.gz").read_bytes()).splitlines()
    return tuple(
        topic["configs"]
        for pair in map(json.loads, lines)
        for topic in pair["responseJson"]["topics"]
        if topic.get("configs")
    )


def ours_of_topic(configs: dict[str, dict[str, Any]]) -> dict[str, ConfigRow]:
    """Our description of a topic with the same overrides."""
    overrides = {
        name: config["value"]
        for name, config in configs.items()
        if config["configSource"] == ConfigSource.DYNAMIC_TOPIC
    }
    rows = describe_topic(TopicConfigs(overrides, BrokerSettings()))
    return {row.name: row for row in rows if row.name in configs}


def expected_source(config: dict[str, Any]) -> int:
    if config["name"] == SET_BY_KAFKA_ITSELF:
        return ConfigSource.DEFAULT
    return int(config["configSource"])


def test_topics_were_recorded_with_all_their_settings() -> None:
    full = [each for each in described(TOPIC_RESOURCE) if len(each["configs"]) > 30]
    assert len(full) >= 5
    for each in full:
        assert set(each["configs"]) == set(TOPIC_SETTINGS)


def test_a_topics_settings_are_described_as_kafka_describes_them() -> None:
    for each in described(TOPIC_RESOURCE):
        ours = ours_of_topic(each["configs"])
        assert set(ours) == set(each["configs"])
        for name, config in each["configs"].items():
            row = ours[name]
            assert row.value == config["value"], name
            assert row.source == expected_source(config), name
            assert row.is_read_only == config["readOnly"], name
            assert row.is_sensitive == config["isSensitive"], name
            assert row.config_type == config.get("configType", row.config_type), name


def test_a_topics_synonyms_are_those_of_kafka() -> None:
    asked = [each for each in described(TOPIC_RESOURCE) if each["asked"]["includeSynonyms"]]
    assert asked
    for each in asked:
        ours = ours_of_topic(each["configs"])
        for name, config in each["configs"].items():
            theirs = [(one["name"], one["value"], one["source"]) for one in config["synonyms"]]
            if name == SET_BY_KAFKA_ITSELF:
                theirs = theirs[1:]
            assert [tuple(synonym) for synonym in ours[name].synonyms] == theirs, name


def test_create_topics_answers_with_the_settings_that_kafka_answers_with() -> None:
    assert created()
    for configs in created():
        ours = ours_of_topic({config["name"]: config for config in configs})
        assert list(ours) == [config["name"] for config in configs]
        for config in configs:
            row = ours[config["name"]]
            assert (row.value, row.source) == (config["value"], expected_source(config))
            assert (row.is_read_only, row.is_sensitive) == (
                config["readOnly"],
                config["isSensitive"],
            )


@functools.cache
def recorded_broker() -> dict[str, dict[str, Any]]:
    (configs,) = (
        each["configs"] for each in described(BROKER_RESOURCE) if len(each["configs"]) > 300
    )
    return dict(configs)


def test_kafka_does_not_describe_the_settings_that_are_listed_so() -> None:
    assert not recorded_broker().keys() & NOT_DESCRIBED_BY_KAFKA.keys()


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in BROKER_SETTINGS
        if name[:6] != "ottla." and name not in NOT_DESCRIBED_BY_KAFKA
    ],
)
def test_a_brokers_setting_equals_kafkas_except_for_the_listed_ones(name: str) -> None:
    theirs = recorded_broker()[name]
    (row,) = describe_broker(BrokerSettings(), [name])
    assert row.config_type == theirs["configType"]
    assert row.is_sensitive == theirs["isSensitive"]
    differs = {
        "is_read_only": row.is_read_only != theirs["readOnly"],
        "value": name not in GIVEN_TO_KAFKA and row.value != theirs["value"],
    }
    listed = {field: (name, field) in BROKER_DIFFERENCES for field in differs}
    assert differs == listed


def test_the_default_of_a_setting_given_to_kafka_equals_kafkas_where_kafka_shows_it() -> None:
    shown = {
        synonym["name"]: synonym["value"]
        for each in described(BROKER_RESOURCE)
        for config in each["configs"].values()
        for synonym in config["synonyms"]
        if synonym["source"] == ConfigSource.DEFAULT
    }
    assert shown == {
        "num.partitions": "1",
        "log.segment.bytes": "1073741824",
        # Every interface; ours is the loopback one.
        "listeners": "PLAINTEXT://:9092",
    }
    for name in ("num.partitions", "log.segment.bytes"):
        setting = BROKER_SETTINGS[name]
        assert setting.text(setting.default) == shown[name]


def test_a_default_that_is_not_kafkas_has_its_reason_in_the_table() -> None:
    differing = {name for name, field in BROKER_DIFFERENCES if field == "value"} - {"log.dir"}
    assert {name for name, each in BROKER_SETTINGS.items() if each.default_reason} == {
        *differing,
        "listeners",
        "log.dirs",
        "node.id",
    }
