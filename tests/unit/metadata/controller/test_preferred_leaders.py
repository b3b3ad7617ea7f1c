"""Preferred replicas lead again when they are up and in sync, and only then."""

from typing import Any

import pytest

from ottla.metadata.controller.preferred_leaders import LeaderBalance, preferred_leader_updates
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


def due(image: Image, imbalance_percent_max: int = 0) -> list[PartitionId]:
    balance = LeaderBalance()
    for name in sorted(image.topic_names):
        balance.add_topic(image, name)
    return balance.due(imbalance_percent_max)


def test_leadership_goes_back_to_the_first_replica() -> None:
    image = image_with(leader_epoch=4, partition_epoch=8)

    found = due(image)
    (record,) = preferred_leader_updates(image, found)
    image.apply(record)

    assert found == [FIRST]
    assert (record.leader, record.leader_epoch, record.partition_epoch) == (ONE, 5, 9)
    assert record.isr == (ONE, TWO)
    assert due(image) == []
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
    assert FIRST not in due(image)
    assert preferred_leader_updates(image, [FIRST]) == []


def test_partitions_that_are_gone_are_skipped() -> None:
    image = image_with()
    gone = [PartitionId(topic_id(1), 5), PartitionId(topic_id(7), 0)]
    assert preferred_leader_updates(image, gone) == []


def spread(led_elsewhere: int, count: int) -> Image:
    """Broker 1 is the preferred replica of so many partitions, and does not lead some of them."""
    image = Image()
    image.apply(broker(1, 5))
    image.apply(broker(2, 6))
    image.apply(Topic("orders", topic_id(1)))
    for index in range(count):
        image.apply(partition(index=index, leader=TWO if index < led_elsewhere else ONE))
    return image


@pytest.mark.parametrize(
    ("led_elsewhere", "percent_max", "is_due"),
    [(1, 10, False), (2, 10, True), (1, 9, True), (10, 100, False), (1, 0, True), (0, 0, False)],
)
def test_a_broker_leads_again_above_the_allowed_imbalance(
    led_elsewhere: int, percent_max: int, is_due: bool
) -> None:
    found = due(spread(led_elsewhere, 10), percent_max)
    expected = [PartitionId(topic_id(1), index) for index in range(led_elsewhere)]
    assert found == (expected if is_due else [])


def test_a_brokers_imbalance_counts_partitions_that_it_cannot_lead_yet() -> None:
    """One of ten is due; another one, out of sync, makes the imbalance too large."""
    image = spread(1, 9)
    image.apply(partition(index=9, leader=TWO, isr=(TWO,)))
    assert due(image, 10) == [FIRST]


def test_the_imbalance_of_one_broker_is_not_that_of_another() -> None:
    image = spread(1, 10)
    image.apply(Topic("events", topic_id(2)))
    image.apply(partition(2, replicas=(2, 1), leader=ONE, isr=(ONE, TWO)))
    assert due(image, 10) == [PartitionId(topic_id(2), 0)]


def test_a_topic_that_is_gone_counts_nothing() -> None:
    assert LeaderBalance().add_topic(image_with(), "gone") == 0
