"""When a draining broker has left its partitions."""

from typing import Any

import pytest

from ottla.broker.node.membership import is_drained
from ottla.metadata.image import Image
from ottla.metadata.records import Topic
from ottla.metadata.values import BrokerState, Incarnation, PartitionId
from tests.support.metadata.sample_records import broker, partition, topic_id

ONE, TWO = Incarnation(1, 5), Incarnation(2, 6)
FIRST, GONE = PartitionId(topic_id(1), 0), PartitionId(topic_id(1), 7)


def image_with(state: BrokerState, **fields: Any) -> Image:
    image = Image()
    image.apply(broker(1, 5, state=state))
    image.apply(broker(2, 6))
    image.apply(Topic("orders", topic_id(1)))
    image.apply(partition(**fields))
    return image


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        # It leads, and another one could.
        ({}, False),
        # It follows in sync: the leader would wait for it.
        ({"leader": TWO}, False),
        ({"leader": TWO, "isr": (TWO,)}, True),
        # Nobody can take over.
        ({"isr": (ONE,)}, True),
        ({"leader": None, "isr": (), "elr": (ONE,)}, True),
    ],
)
def test_a_draining_broker_waits_until_it_has_left_the_isrs_of_others(
    fields: dict[str, Any], expected: bool
) -> None:
    image = image_with(BrokerState.DRAINING, **fields)
    assert is_drained(image, 1, [GONE, FIRST]) is expected


def test_a_broker_is_not_drained_before_the_controller_knows_of_it() -> None:
    left = {"leader": TWO, "isr": (TWO,)}
    assert not is_drained(image_with(BrokerState.UP, **left), 1, [FIRST])
    assert is_drained(image_with(BrokerState.GONE, **left), 1, [FIRST])
