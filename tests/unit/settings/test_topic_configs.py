"""A topic's settings: what counts, and what a client may set."""

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


# --- what counts ------------------------------------------------------------------------------


def test_a_topics_own_setting_counts_before_its_brokers() -> None:
    configs = topic({"retention.ms": "5"}, {"log.retention.hours": "1"})
    assert configs[RETENTION_MS] == 5
    assert configs.source_of(RETENTION_MS) is ConfigSource.DYNAMIC_TOPIC


def test_a_topic_has_its_brokers_settings_for_what_it_does_not_set() -> None:
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


def test_a_topic_can_be_asked_for_a_setting_of_the_broker() -> None:
    assert topic({}, {"num.partitions": "4"})[NUM_PARTITIONS] == 4


def test_topics_of_our_own_may_have_what_nobody_else_may_set_yet() -> None:
    assert refused_topic("preallocate", "true").code is ErrorCode.INVALID_CONFIG
    assert topic({"preallocate": "true"})[PREALLOCATE] is True


def test_a_setting_that_only_a_later_version_knows_is_skipped() -> None:
    configs = TopicConfigs({"from.the.future": "1"}, BrokerSettings())
    assert configs[RETENTION_BYTES] == -1


# --- what may be set --------------------------------------------------------------------------


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
                "allowed is a whole number of ms from -1 to 9223372036854775807"
            ),
        ),
        (
            "segment.bytes",
            "1048575",
            (
                "Invalid value 1048575 for configuration segment.bytes: "
                "allowed is a whole number of bytes from 1048576 to 2147483647"
            ),
        ),
        (
            "message.timestamp.type",
            "createtime",
            (
                "Invalid value createtime for configuration message.timestamp.type: "
                "allowed is one of CreateTime, LogAppendTime"
            ),
        ),
        (
            "preallocate",
            "true",
            (
                "Invalid value true for configuration preallocate: allowed is only false, "
                "other values are not supported yet: segments grow as they are written"
            ),
        ),
        (
            "leader.replication.throttled.replicas",
            "*",
            (
                "Invalid value * for configuration leader.replication.throttled.replicas: allowed "
                "is only nothing, other values are not supported yet: no partition has followers"
            ),
        ),
    ],
)
def test_a_refusal_says_name_value_and_what_is_allowed(
    name: str, value: str | None, message: str
) -> None:
    refused = refused_topic(name, value)
    assert refused.code is ErrorCode.INVALID_CONFIG
    assert str(refused) == message


def test_what_is_not_built_is_taken_at_its_default_and_at_nothing_else() -> None:
    others = {
        "follower.replication.throttled.replicas": "0:1",
        "leader.replication.throttled.replicas": "0:1",
        "local.retention.bytes": "1",
        "local.retention.ms": "1",
        "preallocate": "true",
        "remote.log.copy.disable": "true",
        "remote.log.delete.on.disable": "true",
        "remote.storage.enable": "true",
        "segment.jitter.ms": "1",
        "unclean.leader.election.enable": "true",
    }
    assert {name for name, each in TOPIC_SETTINGS.items() if each.only_default} == set(others)
    for name, value in others.items():
        assert "not supported yet" in str(refused_topic(name, value))
        default = TOPIC_SETTINGS[name].text(TOPIC_SETTINGS[name].default)
        assert validate_topic_config(name, default) == default


def test_a_long_wrong_name_is_not_shown_in_full() -> None:
    assert len(str(refused_topic("x" * 30_000, "1"))) < 300


def test_a_broker_changes_at_run_time_only_what_can_change() -> None:
    assert validate_broker_config("max.connections", "5") == "5"
    assert validate_broker_config("log.retention.ms", "5") == "5"
    with pytest.raises(PeerError) as refused:
        validate_broker_config("node.id", "5")
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert str(refused.value) == "Cannot update these configs dynamically: [node.id]"


@pytest.mark.parametrize(("name", "value"), [("retention.ms", "1"), ("max.connections", "-1")])
def test_a_broker_refuses_what_is_no_setting_or_value_of_its(name: str, value: str) -> None:
    with pytest.raises(PeerError) as refused:
        validate_broker_config(name, value)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert name in str(refused.value)
    assert (name in BROKER_SETTINGS) == (value in str(refused.value))
