"""A topic's settings in force, and the changes that a client may make."""

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.settings.broker import BrokerSettings
from ottla.settings.setting import ConfigSource
from ottla.settings.sources import load
from ottla.settings.table import BROKER_SETTINGS, TOPIC_SETTINGS
from ottla.settings.table.records import (
    MESSAGE_TIMESTAMP_TYPE,
    TimestampType,
)
from ottla.settings.table.replicas import MIN_INSYNC_REPLICAS, NUM_PARTITIONS
from ottla.settings.table.retention import RETENTION_BYTES, RETENTION_MS
from ottla.settings.table.segments import PREALLOCATE
from ottla.settings.topic import TopicConfigs
from ottla.settings.validation import validate_broker_config, validate_topic_config


def topic(overrides: dict[str, str], given: dict[str, str] | None = None) -> TopicConfigs:
    return TopicConfigs(overrides, load(given=given or {}, environment={}, file=None))


def refused_topic(name: str, value: str | None) -> PeerError:
    with pytest.raises(PeerError) as refused:
        validate_topic_config(name, value)
    return refused.value


# --- precedence -------------------------------------------------------------------------------


def test_a_topics_own_setting_counts_before_its_brokers() -> None:
    configs = topic({"retention.ms": "5"}, {"log.retention.hours": "1"})
    assert configs[RETENTION_MS] == 5
    assert configs.source_of(RETENTION_MS) is ConfigSource.DYNAMIC_TOPIC


def test_a_topic_has_its_brokers_value_for_a_setting_that_it_does_not_set() -> None:
    configs = topic({}, {"log.retention.hours": "1", "log.message.timestamp.type": "LogAppendTime"})
    assert configs[RETENTION_MS] == 3_600_000
    assert configs.source_of(RETENTION_MS) is ConfigSource.STATIC_BROKER
    assert configs[MESSAGE_TIMESTAMP_TYPE] is TimestampType.LOG_APPEND_TIME
    assert configs[RETENTION_BYTES] == -1
    assert configs.source_of(RETENTION_BYTES) is ConfigSource.DEFAULT


def test_a_setting_that_topic_and_broker_call_the_same_is_kept_apart() -> None:
    configs = topic({"min.insync.replicas": "3"}, {"min.insync.replicas": "2"})
    assert configs[MIN_INSYNC_REPLICAS] == 3
    assert topic({}, {"min.insync.replicas": "2"})[MIN_INSYNC_REPLICAS] == 2


def test_a_topics_configs_include_broker_settings() -> None:
    assert topic({}, {"num.partitions": "4"})[NUM_PARTITIONS] == 4


def test_internal_topics_may_have_values_that_users_cannot_set_yet() -> None:
    assert refused_topic("preallocate", "true").code is ErrorCode.INVALID_CONFIG
    assert topic({"preallocate": "true"})[PREALLOCATE] is True


def test_a_setting_that_only_a_later_version_knows_is_skipped() -> None:
    configs = TopicConfigs({"from.the.future": "1"}, BrokerSettings())
    assert configs[RETENTION_BYTES] == -1


# --- validation -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "stored"),
    [
        ("retention.ms", " +5 ", "5"),
        ("segment.bytes", "1048576", "1048576"),
        ("preallocate", "FALSE", "false"),
        ("cleanup.policy", " delete ", "delete"),
        ("cleanup.policy", "compact", "compact"),
        ("cleanup.policy", "compact, delete", "compact,delete"),
        ("compression.type", "producer", "producer"),
        ("leader.replication.throttled.replicas", "", ""),
        ("leader.replication.throttled.replicas", " 0:1, 3:2 ", "0:1,3:2"),
        ("follower.replication.throttled.replicas", " * ", "*"),
        ("min.cleanable.dirty.ratio", ".5", "0.5"),
    ],
)
def test_a_value_is_stored_as_it_is_shown(name: str, value: str, stored: str) -> None:
    assert validate_topic_config(name, value) == stored


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("no.such", "1", "Unknown topic config name: no.such"),
        (
            "retention.sm",
            "1",
            "Unknown topic config name: retention.sm; did you mean 'retention.ms'?",
        ),
        ("retention.ms", None, "Null value not supported for topic configs: retention.ms"),
        (
            "retention.ms",
            "abc",
            (
                "Invalid value abc for configuration retention.ms: "
                "must be a whole number of ms from -1 to 9223372036854775807"
            ),
        ),
        (
            "segment.bytes",
            "1048575",
            (
                "Invalid value 1048575 for configuration segment.bytes: "
                "must be a whole number of bytes from 1048576 to 2147483647"
            ),
        ),
        (
            "message.timestamp.type",
            "createtime",
            (
                "Invalid value createtime for configuration message.timestamp.type: "
                "must be one of CreateTime, LogAppendTime"
            ),
        ),
        (
            "preallocate",
            "true",
            (
                "Invalid value true for configuration preallocate: must be false, "
                "other values are not supported yet: segments grow as they are written"
            ),
        ),
        (
            "leader.replication.throttled.replicas",
            "0",
            (
                "Invalid value 0 for configuration leader.replication.throttled.replicas: must be "
                "* or a comma-separated list of partition:broker"
            ),
        ),
    ],
)
def test_a_refusal_names_the_setting_the_value_and_the_allowed_values(
    name: str, value: str | None, message: str
) -> None:
    refused = refused_topic(name, value)
    assert refused.code is ErrorCode.INVALID_CONFIG
    assert str(refused) == message


def test_an_unsupported_setting_accepts_its_default_only() -> None:
    others = {
        "local.retention.bytes": "1",
        "local.retention.ms": "1",
        "preallocate": "true",
        "remote.log.copy.disable": "true",
        "remote.log.delete.on.disable": "true",
        "remote.storage.enable": "true",
        "segment.jitter.ms": "1",
    }
    assert {name for name, each in TOPIC_SETTINGS.items() if each.unsupported_reason} == set(others)
    for name, value in others.items():
        assert "not supported yet" in str(refused_topic(name, value))
        default = TOPIC_SETTINGS[name].text(TOPIC_SETTINGS[name].default)
        assert validate_topic_config(name, default) == default


def test_a_long_wrong_name_is_not_shown_in_full() -> None:
    assert len(str(refused_topic("x" * 30_000, "1"))) < 300


def test_a_broker_changes_only_dynamic_settings_at_run_time() -> None:
    assert validate_broker_config("max.connections", "5") == "5"
    assert validate_broker_config("log.retention.ms", "5") == "5"
    with pytest.raises(PeerError) as refused:
        validate_broker_config("node.id", "5")
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert str(refused.value) == "Cannot update these configs dynamically: [node.id]"


@pytest.mark.parametrize(("name", "value"), [("retention.ms", "1"), ("max.connections", "-1")])
def test_a_broker_refuses_unknown_settings_and_invalid_values(name: str, value: str) -> None:
    with pytest.raises(PeerError) as refused:
        validate_broker_config(name, value)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert name in str(refused.value)
    assert (name in BROKER_SETTINGS) == (value in str(refused.value))
