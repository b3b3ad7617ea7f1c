"""Broker epochs are lowered for a store that counts from the start, and nothing else changes."""

from dataclasses import replace

import pytest

from ottla.metadata.image import Image
from ottla.metadata.rebase import REBASED_EPOCH, rebased
from ottla.metadata.records import Broker, ControllerStarted, Partition, ProducerIds, Topic
from ottla.metadata.store import Loaded, Snapshot
from ottla.metadata.values import BrokerState, Incarnation
from ottla.protocol.primitives import Uuid

TOPIC = Topic("orders", Uuid(b"\1" * 16))
BROKER = Broker(
    broker_id=1,
    epoch=5_000,
    inherits=None,
    endpoints=(),
    rack=None,
    host="h",
    state=BrokerState.UP,
    incarnation_id="abc",
)
PARTITION = Partition(
    topic_id=TOPIC.topic_id,
    index=0,
    replicas=(1,),
    leader=Incarnation(1, 5_000),
    leader_epoch=7,
    isr=(Incarnation(1, 5_000),),
    min_isr=1,
    partition_epoch=9,
)
NOW = Incarnation(1, REBASED_EPOCH)


def promoted(broker: Broker, partition: Partition) -> Image:
    records = (ControllerStarted(3, 1), broker, TOPIC, partition, ProducerIds(77))
    image = Image.of(Loaded(Snapshot(6_000, records), ()))
    return Image.of(Loaded(Snapshot(0, rebased(image)), ()))


def only_partition(image: Image) -> Partition:
    found = image.partition(TOPIC.topic_id, 0)
    assert found is not None
    return found


def test_the_broker_goes_on_where_it_was() -> None:
    image = promoted(BROKER, PARTITION)
    assert image.brokers[1] == replace(BROKER, epoch=REBASED_EPOCH)
    assert only_partition(image) == replace(PARTITION, leader=NOW, isr=(NOW,))
    assert (image.controller_epoch, image.next_producer_id) == (3, 77)


@pytest.mark.parametrize("epoch", [4_000, 3_000])
def test_what_a_starting_broker_inherits_stays_inherited(epoch: int) -> None:
    starting = replace(BROKER, state=BrokerState.STARTING, inherits=4_000, also_inherits=(3_000,))
    old = Incarnation(1, epoch)
    image = promoted(starting, replace(PARTITION, leader=old, isr=(old,)))
    assert image.brokers[1].inherited_epochs == ()
    assert only_partition(image).isr == (NOW,)


def test_a_membership_that_nobody_inherits_is_unclean() -> None:
    starting = replace(BROKER, state=BrokerState.STARTING)
    old = Incarnation(1, 4_000)
    for before in (
        replace(PARTITION, leader=old, isr=(old,)),
        replace(PARTITION, leader=None, leader_epoch=8, isr=(), elr=(old,)),
    ):
        after = only_partition(promoted(starting, before))
        assert (after.leader, after.isr, after.elr, after.unclean) == (None, (), (), (1,))
        assert after.leader_epoch == 8


def test_a_broker_of_an_earlier_version_is_known_by_its_old_epoch() -> None:
    image = promoted(replace(BROKER, incarnation_id=None), PARTITION)
    assert image.brokers[1].incarnation_id == "epoch-5000"
