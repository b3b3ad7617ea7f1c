"""The settings in force: a topic's configs on top of its broker's."""

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.configs import broker_settings, topic_configs, validated_topic_configs
from ottla.metadata.image import Image
from ottla.metadata.records import Config, Topic
from ottla.metadata.values import ResourceKind
from ottla.settings.broker import BrokerSettings
from ottla.settings.setting import ConfigSource
from ottla.settings.sources import load
from ottla.settings.table.network import MAX_CONNECTIONS
from ottla.settings.table.retention import RETENTION_MS
from tests.support.metadata.sample_records import topic_id


def image_with(*configs: Config) -> Image:
    image = Image()
    image.apply(Topic("orders", topic_id(1)))
    for config in configs:
        image.apply(config)
    return image


def test_a_config_that_a_topic_does_not_set_is_the_brokers() -> None:
    settings = load(given={"log.retention.ms": "7"}, environment={}, file=None)

    configs = topic_configs(image_with(), "orders", settings)

    assert configs[RETENTION_MS] == 7
    assert configs.source_of(RETENTION_MS) is ConfigSource.STATIC_BROKER


def test_a_topics_config_applies_to_it_only() -> None:
    image = image_with(Config(ResourceKind.TOPIC, "orders", "retention.ms", "1000"))

    assert topic_configs(image, "orders", BrokerSettings())[RETENTION_MS] == 1000
    assert topic_configs(image, "others", BrokerSettings())[RETENTION_MS] == 604_800_000


def test_a_brokers_own_config_overrides_the_cluster_wide_one() -> None:
    image = image_with(
        Config(ResourceKind.BROKER, "", "max.connections", "20"),
        Config(ResourceKind.BROKER, "1", "max.connections", "10"),
    )

    assert broker_settings(image, 1, BrokerSettings())[MAX_CONNECTIONS] == 10
    assert broker_settings(image, 2, BrokerSettings())[MAX_CONNECTIONS] == 20


def test_unchanged_settings_are_the_ones_it_started_with() -> None:
    settings = BrokerSettings()

    assert broker_settings(image_with(), 1, settings) is settings


def test_configs_are_stored_in_order_as_kafka_prints_them_and_the_later_of_two_counts() -> None:
    validated = validated_topic_configs(
        [("segment.ms", " +5 "), ("retention.ms", "9"), ("retention.ms", "3")]
    )

    assert list(validated.items()) == [("retention.ms", "3"), ("segment.ms", "5")]


@pytest.mark.parametrize(
    ("name", "value"), [("no.such", "1"), ("segment.bytes", "10"), ("retention.ms", None)]
)
def test_an_invalid_config_is_refused(name: str, value: str | None) -> None:
    with pytest.raises(PeerError) as refused:
        validated_topic_configs([(name, value)])

    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert name in str(refused.value)
