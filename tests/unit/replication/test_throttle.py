"""Throttled replication: which replicas it concerns, and how many bytes per second they get."""

import pytest

from ottla.metadata.image import Image
from ottla.metadata.records import Config, DeletedName, Record, Topic, TopicDeleted
from ottla.metadata.store import Entry
from ottla.metadata.values import ResourceKind
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.throttle import (
    ReplicationThrottle,
    ReplicationThrottles,
    throttled_partitions,
)
from ottla.settings.broker import BrokerSettings
from ottla.settings.sources import load
from ottla.settings.table.replicas import UNTHROTTLED
from tests.support.metadata.sample_records import partition, topic_id

ORDERS, EVENTS = TopicPartition("orders", 0), TopicPartition("events", 0)
LEADER = "leader.replication.throttled.replicas"
FOLLOWER = "follower.replication.throttled.replicas"


class Time:
    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns

    def pass_s(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1e9)


def throttle(rate: int = 1_000) -> tuple[ReplicationThrottle, Time]:
    time = Time()
    made = ReplicationThrottle(time)
    made.set_rate(rate)
    made.set_topic("orders", frozenset((0, 2)))
    return made, time


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ((), frozenset()),
        (("0:1", "2:1", "3:2"), frozenset((0, 2))),
        (("*",), None),
        (("0:11",), frozenset()),
    ],
)
def test_a_broker_finds_its_own_replicas_in_the_list(
    listed: tuple[str, ...], expected: frozenset[int] | None
) -> None:
    assert throttled_partitions(listed, 1) == expected


def test_throttled_replicas_wait_when_their_rate_is_used_up() -> None:
    made, time = throttle(1_000)
    assert made.allows(ORDERS, is_in_sync=False)
    made.charge(ORDERS, 3_000, is_in_sync=False)
    assert not made.allows(ORDERS, is_in_sync=False)
    assert made.wait_s == pytest.approx(2)
    time.pass_s(1.9)
    assert not made.allows(ORDERS, is_in_sync=False)
    time.pass_s(0.2)
    assert made.allows(ORDERS, is_in_sync=False)
    assert made.wait_s == 0


def test_others_neither_wait_nor_count() -> None:
    made, _ = throttle()
    made.charge(EVENTS, 1 << 30, is_in_sync=False)
    made.charge(TopicPartition("orders", 1), 1 << 30, is_in_sync=False)
    made.charge(ORDERS, 1 << 30, is_in_sync=True)
    assert made.allows(ORDERS, is_in_sync=False)
    made.charge(ORDERS, 1 << 30, is_in_sync=False)
    assert not made.allows(ORDERS, is_in_sync=False)
    assert made.allows(ORDERS, is_in_sync=True)
    assert made.allows(EVENTS, is_in_sync=False)
    assert made.allows(TopicPartition("orders", 1), is_in_sync=False)
    assert not made.allows(TopicPartition("orders", 2), is_in_sync=False)


def test_a_whole_topic_is_throttled_and_released() -> None:
    made, _ = throttle()
    made.set_topic("events", None)
    made.charge(TopicPartition("events", 77), 1 << 20, is_in_sync=False)
    assert not made.allows(EVENTS, is_in_sync=False)
    made.set_topic("events", frozenset())
    assert made.allows(EVENTS, is_in_sync=False)


def test_over_a_long_time_the_rate_is_kept() -> None:
    made, time = throttle(1_000)
    sent = 0
    for _ in range(1_000):
        time.pass_s(0.1)
        if made.allows(ORDERS, is_in_sync=False):
            made.charge(ORDERS, 700, is_in_sync=False)
            sent += 700
    assert 100_000 <= sent <= 102_000


def test_an_idle_replication_saves_up_one_second_only() -> None:
    made, time = throttle(1_000)
    time.pass_s(3_600)
    made.charge(ORDERS, 1_001, is_in_sync=False)
    assert not made.allows(ORDERS, is_in_sync=False)


def test_another_rate_applies_at_once() -> None:
    made, _ = throttle(1)
    made.charge(ORDERS, 1 << 30, is_in_sync=False)
    made.set_rate(1_000)
    assert made.allows(ORDERS, is_in_sync=False)
    made.charge(ORDERS, 1 << 30, is_in_sync=False)
    # The same rate again forgets nothing.
    made.set_rate(1_000)
    assert not made.allows(ORDERS, is_in_sync=False)
    made.set_rate(UNTHROTTLED)
    assert made.allows(ORDERS, is_in_sync=False)
    assert made.bytes_per_second == UNTHROTTLED


def test_a_rate_of_nothing_stops_throttled_replicas() -> None:
    made, time = throttle(0)
    time.pass_s(60)
    assert not made.allows(ORDERS, is_in_sync=False)
    assert made.wait_s == float("inf")
    assert made.allows(ORDERS, is_in_sync=True)


# --- settings ---------------------------------------------------------------------------------


def settings(**given: str) -> BrokerSettings:
    named = {f"{name}.replication.throttled.rate": value for name, value in given.items()}
    return load(given=named, environment={}, file=None)


def image_of(*records: Record) -> Image:
    image = Image()
    image.apply(Topic("orders", topic_id(1)))
    image.apply(partition())
    for record in records:
        image.apply(record)
    return image


def listed(key: str, value: str | None) -> Config:
    return Config(ResourceKind.TOPIC, "orders", key, value)


def follow(throttles: ReplicationThrottles, image: Image, *records: Record) -> None:
    for record in records:
        image.apply(record)
    throttles.follow(image, Entry(image.offset + 1, records))


def test_leader_and_follower_have_their_own_rates_and_replicas() -> None:
    image = image_of(listed(LEADER, "0:1,5:2"), listed(FOLLOWER, "3:1"))
    throttles = ReplicationThrottles(1, Time(), settings(leader="10", follower="20"))
    throttles.load(image)

    rates = throttles.leader.bytes_per_second, throttles.follower.bytes_per_second
    assert rates == (10, 20)
    assert [
        throttles.leader.is_throttled(TopicPartition("orders", each)) for each in (0, 3, 5)
    ] == [
        True,
        False,
        False,
    ]
    assert [throttles.follower.is_throttled(TopicPartition("orders", each)) for each in (0, 3)] == [
        False,
        True,
    ]


def test_without_a_rate_nothing_is_throttled() -> None:
    throttles = ReplicationThrottles(1, Time(), settings())
    throttles.load(image_of(listed(LEADER, "*")))
    assert not throttles.leader.is_throttled(ORDERS)
    throttles.apply_settings(settings(leader="10"))
    assert throttles.leader.is_throttled(ORDERS)
    assert not throttles.follower.is_throttled(ORDERS)


def test_changes_of_the_topic_are_followed_until_it_is_deleted() -> None:
    image = image_of()
    throttles = ReplicationThrottles(1, Time(), settings(leader="10", follower="10"))
    throttles.load(image)
    assert not throttles.leader.is_throttled(ORDERS)
    follow(throttles, image, listed(LEADER, "0:1"), listed(FOLLOWER, "*"))
    assert throttles.leader.is_throttled(ORDERS)
    assert throttles.follower.is_throttled(ORDERS)
    follow(throttles, image, listed(LEADER, None))
    assert not throttles.leader.is_throttled(ORDERS)
    assert throttles.follower.is_throttled(ORDERS)
    follow(throttles, image, DeletedName("orders", 9), TopicDeleted(topic_id(1), "orders"))
    assert not throttles.follower.is_throttled(ORDERS)
