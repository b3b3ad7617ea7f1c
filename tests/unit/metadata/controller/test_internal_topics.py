"""The creation of internal topics."""

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.internal_topics import InternalTopic, create_internal_topic
from ottla.metadata.controller.pending_topics import PendingTopics
from ottla.metadata.image import Image
from ottla.metadata.records import Broker, Config, Partition, Record
from ottla.metadata.store import Entry
from ottla.metadata.values import BrokerState
from ottla.protocol.primitives import Uuid
from ottla.settings.broker import BrokerSettings

TOPIC_ID = Uuid(bytes(15) + b"\x01")
WISH = InternalTopic("__consumer_offsets", 4, 3, {"cleanup.policy": "compact"})


def with_brokers(count: int) -> Image:
    image = Image()
    brokers = tuple(
        Broker(
            broker_id=number,
            epoch=number,
            inherits=None,
            state=BrokerState.UP,
            endpoints=(),
            rack=None,
            host=f"host{number}",
        )
        for number in range(1, count + 1)
    )
    image.replay(Entry(image.offset + 1, brokers))
    return image


def created(image: Image) -> list[Record]:
    return create_internal_topic(PendingTopics(image), WISH, BrokerSettings(), TOPIC_ID, 0)[0]


def test_an_internal_topic_has_as_many_replicas_as_are_wanted() -> None:
    partitions = [each for each in created(with_brokers(5)) if isinstance(each, Partition)]
    assert len(partitions) == 4
    assert {len(partition.replicas) for partition in partitions} == {3}


@pytest.mark.parametrize("brokers", [1, 2])
def test_an_internal_topic_is_not_created_while_too_few_brokers_are_up(brokers: int) -> None:
    with pytest.raises(PeerError) as caught:
        created(with_brokers(brokers))
    assert caught.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_an_internal_topic_may_have_any_configs() -> None:
    configs = [each for each in created(with_brokers(3)) if isinstance(each, Config)]
    assert [(each.key, each.value) for each in configs] == [("cleanup.policy", "compact")]


def test_an_internal_topic_is_created_once() -> None:
    image = with_brokers(3)
    image.replay(Entry(image.offset + 1, tuple(created(image))))
    with pytest.raises(PeerError) as caught:
        created(image)
    assert caught.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
