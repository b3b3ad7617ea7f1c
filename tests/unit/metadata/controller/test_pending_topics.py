"""Changes of topics that are decided but not yet committed."""

import pytest

from ottla.metadata.controller.pending_topics import PendingTopics
from ottla.metadata.image import Image
from ottla.metadata.records import DeletedName, EpochFloor, Topic
from tests.support.metadata.sample_records import partition, topic_id


def image_with(**leader_epochs: int) -> Image:
    image = Image()
    for number, (name, epoch) in enumerate(leader_epochs.items(), 1):
        image.apply(Topic(name, topic_id(number)))
        image.apply(partition(topic=number, leader_epoch=epoch))
    return image


def test_pending_topics_exist_collide_and_count() -> None:
    pending = PendingTopics(image_with(orders=0))
    pending.add_topic("new.topic", 3)
    assert pending.has_topic("orders")
    assert pending.has_topic("new.topic")
    assert not pending.has_topic("new_topic")
    assert pending.colliding_topic("new_topic") == "new.topic"
    assert pending.partitions == 4


def test_the_first_epoch_is_raised_above_those_of_the_deleted_topic() -> None:
    image = image_with(orders=4)
    assert PendingTopics(image).raise_first_epoch(Topic("orders", topic_id(1))) == [
        DeletedName("orders", 5)
    ]
    image.apply(EpochFloor(5))
    assert PendingTopics(image).raise_first_epoch(Topic("orders", topic_id(1))) == []


def test_the_deletions_of_one_entry_share_the_limit_of_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.metadata.controller.pending_topics.DELETED_NAMES_MAX", 1)
    pending = PendingTopics(image_with(low=1, high=7, middle=3))
    assert pending.raise_first_epoch(Topic("low", topic_id(1))) == [DeletedName("low", 2)]
    assert pending.raise_first_epoch(Topic("high", topic_id(2))) == [
        EpochFloor(2),
        DeletedName("high", 8),
    ]
    assert pending.epoch_floor == 2
    assert pending.raise_first_epoch(Topic("middle", topic_id(3))) == [EpochFloor(4)]
