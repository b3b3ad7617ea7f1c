"""The restart of a broker: the partitions that it leads again, and possible losses."""

from dataclasses import replace
from typing import Any

import pytest

from ottla.metadata.controller.broker_restart import (
    Restart,
    broker_started,
    rejoin,
)
from ottla.metadata.controller.entry_packing import MAX_RECORDS_PER_ENTRY, in_entries
from ottla.metadata.entry_codec import ENTRY_BYTES_MAX, encode
from ottla.metadata.image import Image
from ottla.metadata.records import Broker, Partition, Topic
from ottla.metadata.store import RegisteredBroker
from ottla.metadata.values import Incarnation
from ottla.protocol.topic_partition import TopicPartition
from tests.support.metadata.sample_records import broker, partition, registration, topic_id

OLD, NEW = Incarnation(1, 5), Incarnation(1, 9)
OTHER = Incarnation(2, 6)


def alone(index: int = 0, **changes: Any) -> Partition:
    """A partition with broker 1 as its only replica and leader."""
    fields: dict[str, Any] = {"replicas": (1,), "leader": OLD, "isr": (OLD,), "min_isr": 1}
    return partition(index=index, **{**fields, **changes})


def image_of(*partitions: Partition) -> Image:
    image = Image()
    image.apply(broker(1, 5))
    image.apply(Topic("orders", topic_id(1)))
    for each in partitions:
        image.apply(each)
    return image


def restarted(image: Image, inherits: int | None, *unserved: int, epoch: int = 9) -> Restart:
    """Also applies the records to the image, which checks them."""
    member = RegisteredBroker(replace(registration(1, inherits), unserved=unserved), epoch)
    restart = broker_started(image, member)
    for record in restart.records:
        image.apply(record)
    return restart


def test_an_intact_broker_leads_its_partitions_again() -> None:
    image = image_of(alone(0), alone(1, leader_epoch=7))

    restart = restarted(image, inherits=5)

    assert restart.possible_losses == []
    first, second = image.partitions(topic_id(1))
    assert first == alone(0, leader=NEW, isr=(NEW,), leader_epoch=1, partition_epoch=1)
    assert second == alone(1, leader=NEW, isr=(NEW,), leader_epoch=8, partition_epoch=1)
    assert image.brokers[1].incarnation == NEW
    assert image.brokers[1].inherits == 5


@pytest.mark.parametrize(
    "inherits", [None, 6, 4], ids=["nothing", "from a later epoch", "from an earlier epoch"]
)
def test_a_broker_that_lost_its_disks_leads_again_and_the_possible_loss_is_reported(
    inherits: int | None,
) -> None:
    image = image_of(alone(0))

    restart = restarted(image, inherits)

    assert restart.possible_losses == [TopicPartition("orders", 0)]
    assert image.partitions(topic_id(1))[0] == alone(
        leader=NEW, isr=(NEW,), unclean=(), leader_epoch=1, partition_epoch=1
    )


def test_an_unserved_incarnation_loses_nothing() -> None:
    """It changed one partition of two and crashed: the third incarnation inherits from both."""
    image = image_of(alone(0, leader=Incarnation(1, 7), isr=(Incarnation(1, 7),)), alone(1))

    restart = restarted(image, 5, 7)

    assert restart.possible_losses == []
    assert [each.leader for each in image.partitions(topic_id(1))] == [NEW, NEW]


def test_a_disk_from_a_backup_does_not_inherit_from_later_incarnations() -> None:
    """The disk has epoch 5; epoch 7 has served, and its records are not on the disk."""
    image = image_of(alone(0, leader=Incarnation(1, 7), isr=(Incarnation(1, 7),)), alone(1))

    restart = restarted(image, 5, 6)

    assert restart.possible_losses == [TopicPartition("orders", 0)]


def test_partitions_of_other_brokers_do_not_change() -> None:
    theirs = alone(replicas=(2,), leader=OTHER, isr=(OTHER,))
    image = image_of(theirs)

    restart = restarted(image, inherits=5)

    assert len(restart.records) == 1
    assert isinstance(restart.records[0], Broker)
    assert image.partitions(topic_id(1))[0] == theirs


def test_an_unclean_replica_does_not_lead_while_another_is_in_sync() -> None:
    shared = partition(replicas=(1, 2), leader=OTHER, isr=(OLD, OTHER), min_isr=1)

    changed, may_have_lost = rejoin(shared, NEW, inherits=())

    assert not may_have_lost
    assert changed.leader == OTHER
    assert changed.leader_epoch == shared.leader_epoch
    assert changed.isr == (OTHER,)
    assert changed.unclean == (1,)


def test_an_unclean_leader_steps_down_if_another_replica_is_eligible() -> None:
    shared = partition(replicas=(1, 2), leader=OLD, isr=(OLD,), elr=(OTHER,), min_isr=2)

    changed, may_have_lost = rejoin(shared, NEW, inherits=())

    assert not may_have_lost
    assert changed.leader is None
    assert changed.leader_epoch == shared.leader_epoch + 1
    assert changed.isr == ()
    assert changed.elr == (OTHER,)
    assert changed.unclean == (1,)


def test_an_intact_eligible_leader_replica_becomes_the_leader() -> None:
    waiting = partition(replicas=(1, 2), leader=None, isr=(), elr=(OLD, OTHER), min_isr=2)

    changed, may_have_lost = rejoin(waiting, NEW, inherits={5})

    assert not may_have_lost
    assert changed.leader == NEW
    assert changed.leader_epoch == waiting.leader_epoch + 1
    assert changed.isr == (NEW,)
    assert changed.elr == (OTHER,)


def test_every_portion_of_a_large_restart_fits_an_entry() -> None:
    widest = partition(
        index=2**31 - 1,
        replicas=tuple(range(2**31 - 6, 2**31)),
        adding=tuple(range(2**31 - 3, 2**31)),
        removing=tuple(range(2**31 - 6, 2**31 - 3)),
        leader=Incarnation(2**31 - 1, 2**63 - 1),
        leader_epoch=2**31 - 1,
        isr=tuple(Incarnation(each, 2**63 - 1) for each in range(2**31 - 6, 2**31)),
        min_isr=2**31 - 1,
        partition_epoch=2**31 - 1,
    )

    portions = list(in_entries([widest] * (2 * MAX_RECORDS_PER_ENTRY + 1)))

    assert [len(portion) for portion in portions] == [MAX_RECORDS_PER_ENTRY] * 2 + [1]
    assert all(len(encode(portion)) <= ENTRY_BYTES_MAX for portion in portions)


def test_a_restart_that_fills_an_entry_continues_in_the_next() -> None:
    image = image_of(*(alone(index) for index in range(MAX_RECORDS_PER_ENTRY)))

    first = restarted(image, inherits=5)
    second = restarted(image, inherits=5)

    assert (len(first.records), first.is_up) == (MAX_RECORDS_PER_ENTRY, False)
    assert not any(isinstance(record, Broker) for record in first.records)
    assert (len(second.records), second.is_up) == (1, True)
    assert {each.leader for each in image.partitions(topic_id(1))} == {NEW}
    assert restarted(image, inherits=5) == Restart([], [], is_up=True)


@pytest.mark.parametrize("inherits", [(), {5}], ids=["unclean", "intact"])
@pytest.mark.parametrize(
    "before",
    [
        partition(replicas=(1, 2), leader=OLD, isr=(OLD, OTHER), min_isr=1),
        partition(replicas=(1, 2), leader=OTHER, isr=(OLD, OTHER), min_isr=1),
        partition(replicas=(1, 2), leader=OTHER, isr=(OTHER,), min_isr=1),
        partition(replicas=(1, 2), leader=None, isr=(), elr=(OLD, OTHER), min_isr=2),
        partition(replicas=(1, 2), leader=None, isr=(), elr=(OTHER,), min_isr=2),
        alone(),
    ],
)
def test_a_partition_that_has_the_new_incarnation_is_unchanged(
    before: Partition, inherits: Any
) -> None:
    """A deposed controller leaves the rest to the next one."""
    once = rejoin(before, NEW, inherits).partition
    assert rejoin(once, NEW, inherits) == (once, False)


def test_a_partition_created_for_the_new_incarnation_is_not_a_loss() -> None:
    made = partition(replicas=(1, 2), leader=NEW, isr=(NEW, OTHER), min_isr=1)
    assert rejoin(made, NEW, inherits=()) == (made, False)
