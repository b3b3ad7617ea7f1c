"""Rules: each setting of a topic reaches the part that obeys it."""

from typing import Any

import pytest

from ottla.replication.replica import TopicRules
from ottla.replication.rules import topic_rules
from ottla.settings.broker import BrokerSettings
from ottla.settings.sources import load
from ottla.settings.topic import TopicConfigs
from ottla.storage.admission.rules import AdmissionRules
from ottla.storage.log.config import LogConfig


def rules(**overrides: str) -> TopicRules:
    named = {name.replace("_", "."): value for name, value in overrides.items()}
    return topic_rules(TopicConfigs(named, BrokerSettings()))


def field(of: TopicRules, path: str) -> Any:
    part, name = path.split(".")
    return getattr(getattr(of, part), name)


@pytest.mark.parametrize(
    ("setting", "value", "path", "expected"),
    [
        ("max_message_bytes", "7", "admission.message_bytes_max", 7),
        ("message_timestamp_before_max_ms", "7", "admission.timestamp_before_max_ms", 7),
        ("message_timestamp_after_max_ms", "7", "admission.timestamp_after_max_ms", 7),
        ("message_timestamp_type", "LogAppendTime", "admission.log_append_time", True),
        ("cleanup_policy", "compact", "admission.compacted", True),
        ("cleanup_policy", "compact", "retention.deletes", False),
        ("cleanup_policy", "compact,delete", "retention.deletes", True),
        ("retention_ms", "-1", "retention.retention_ms", -1),
        ("retention_bytes", "7", "retention.retention_bytes", 7),
        ("file_delete_delay_ms", "7", "retention.file_delete_delay_ms", 7),
        ("segment_bytes", "2000000", "log.segment_bytes", 2_000_000),
        ("segment_ms", "7", "log.segment_ms", 7),
        ("segment_index_bytes", "8", "log.segment_index_bytes", 8),
        ("index_interval_bytes", "7", "log.index_interval_bytes", 7),
        ("flush_messages", "7", "log.flush_messages", 7),
        ("flush_ms", "7", "log.flush_ms", 7),
    ],
)
def test_a_topics_setting_becomes_a_rule(
    setting: str, value: str, path: str, expected: Any
) -> None:
    assert field(rules(), path) != expected or path == "retention.deletes"
    assert field(rules(**{setting: value}), path) == expected


@pytest.mark.parametrize(
    ("setting", "path"),
    [
        ("ottla.batch.decompressed.max.bytes", "admission.decompressed_bytes_max"),
        ("ottla.tail.batches.max", "log.tail_batches_max"),
        ("message.max.bytes", "admission.message_bytes_max"),
    ],
)
def test_a_brokers_setting_becomes_a_rule_of_its_topics(setting: str, path: str) -> None:
    settings = load(given={setting: "77"}, environment={}, file=None)

    assert field(topic_rules(TopicConfigs({}, settings)), path) == 77


def test_without_settings_the_rules_are_the_parts_own_defaults() -> None:
    assert rules().admission == AdmissionRules()
    assert rules().log == LogConfig()
    assert rules().retention.deletes
