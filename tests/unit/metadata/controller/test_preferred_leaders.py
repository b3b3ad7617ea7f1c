"""Preferred replicas lead again when they are up and in sync, and only then."""

from typing import Any

import pytest

from ottla.metadata.controller.preferred_leaders import (
    preferred_leader_changes,
    preferred_leader_updates,
)
from ottla.metadata.image import Image
from ottla.metadata.records import Topic
from ottla.metadata.values import BrokerState, Incarnation, PartitionId
from tests.support.metadata.sample_records import broker, partition, topic_id

ONE, TWO = Incarnation(1, 5), Incarnation(2, 6)
FIRST = PartitionId(topic_id(1), 0)


def image_with(first: BrokerState = BrokerState.UP, **fields: Any) -> Image:
    image = Image()
    image.apply(broker(1, 5, state=first))
    image.apply(broker(2, 6))
    image.apply(Topic("orders", topic_id(1)))
    image.apply(partition(**{"leader": TWO, **fields}))
    image.apply(partition(index=1))
    return image


def test_leadership_goes_back_to_the_first_replica() -> None:
    image = image_with(leader_epoch=4, partition_epoch=8)

    found = list(preferred_leader_changes(image))
    (record,) = preferred_leader_updates(image, found)
    image.apply(record)

    assert found == [FIRST]
    assert (record.leader, record.leader_epoch, record.partition_epoch) == (ONE, 5, 9)
    assert record.isr == (ONE, TWO)
    assert list(preferred_leader_changes(image)) == []
    assert preferred_leader_updates(image, found) == []


@pytest.mark.parametrize(
    ("state", "fields"),
    [
        (BrokerState.STARTING, {}),
        (BrokerState.DRAINING, {}),
        (BrokerState.GONE, {}),
        (BrokerState.UP, {"isr": (TWO,)}),
        (BrokerState.UP, {"isr": (TWO, Incarnation(1, 4))}),
        (BrokerState.UP, {"leader": None}),
        (BrokerState.UP, {"replicas": (2, 1)}),
        (BrokerState.UP, {"replicas": (3, 2, 1)}),
    ],
)
def test_the_leader_stays_otherwise(state: BrokerState, fields: dict[str, Any]) -> None:
    image = image_with(state, **fields)
    assert FIRST not in list(preferred_leader_changes(image))
    assert preferred_leader_updates(image, [FIRST]) == []


def test_partitions_that_are_gone_are_skipped() -> None:
    image = image_with()
    gone = [PartitionId(topic_id(1), 5), PartitionId(topic_id(7), 0)]
    assert preferred_leader_updates(image, gone) == []
