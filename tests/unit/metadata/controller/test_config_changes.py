"""Decisions on changes of configs."""

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.config_changes import (
    ConfigChange,
    ConfigOperation,
    change_configs,
    replace_configs,
)
from ottla.metadata.image import Image, ResourceKey
from ottla.metadata.records import Config, Topic
from ottla.metadata.values import ResourceKind
from tests.support.metadata.sample_records import topic_id

ORDERS = ResourceKey(ResourceKind.TOPIC, "orders")


def config(key: str, value: str | None) -> Config:
    return Config(ResourceKind.TOPIC, "orders", key, value)


def image_with(*configs: Config) -> Image:
    image = Image()
    for record in (Topic("orders", topic_id(1)), *configs):
        image.apply(record)
    return image


def test_changed_configs_are_recorded_and_equal_ones_are_not() -> None:
    image = image_with(config("retention.ms", "1000"), config("segment.bytes", "2000000"))
    changes = [
        ConfigChange("retention.ms", ConfigOperation.SET, "1000"),
        ConfigChange("segment.bytes", ConfigOperation.DELETE),
        ConfigChange("min.insync.replicas", ConfigOperation.SET, "2"),
    ]
    assert change_configs(image, ORDERS, changes) == (
        [config("segment.bytes", None), config("min.insync.replicas", "2")],
        {"segment.bytes", "min.insync.replicas"},
    )


def test_a_replacement_removes_the_other_configs() -> None:
    image = image_with(config("retention.ms", "1000"), config("segment.bytes", "2000000"))
    records, changed = replace_configs(image, ORDERS, [("retention.ms", "5")])
    assert records == [config("retention.ms", "5"), config("segment.bytes", None)]
    assert changed == {"retention.ms", "segment.bytes"}


def test_items_are_added_to_and_removed_from_lists() -> None:
    image = image_with(config("cleanup.policy", "delete"))
    append = ConfigChange("cleanup.policy", ConfigOperation.APPEND, "compact")
    records, _ = change_configs(image, ORDERS, [append])
    assert records == [config("cleanup.policy", "delete,compact")]
    image.apply(records[0])
    subtract = ConfigChange("cleanup.policy", ConfigOperation.SUBTRACT, "delete")
    assert change_configs(image, ORDERS, [subtract])[0] == [config("cleanup.policy", "compact")]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([ConfigChange("retention.ms", ConfigOperation.SET)], ErrorCode.INVALID_REQUEST),
        ([ConfigChange("retention.ms", ConfigOperation.DELETE)] * 2, ErrorCode.INVALID_REQUEST),
        ([ConfigChange("retention.ms", ConfigOperation.SET, "x")], ErrorCode.INVALID_CONFIG),
        ([ConfigChange("unknown", ConfigOperation.SET, "x")], ErrorCode.INVALID_CONFIG),
        ([ConfigChange("retention.ms", ConfigOperation.APPEND, "1")], ErrorCode.INVALID_CONFIG),
    ],
)
def test_an_invalid_change_is_refused(changes: list[ConfigChange], code: ErrorCode) -> None:
    with pytest.raises(PeerError) as refused:
        change_configs(image_with(), ORDERS, changes)
    assert refused.value.code is code


def test_the_configs_of_a_missing_topic_are_refused() -> None:
    with pytest.raises(PeerError) as refused:
        change_configs(Image(), ORDERS, [])
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
