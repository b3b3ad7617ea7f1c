"""The oracle tells a cluster that keeps its invariants from one that does not."""

from dataclasses import replace

import pytest

from ottla.metadata.image import Image
from ottla.metadata.records import Broker, ControllerStarted, Partition, Topic
from ottla.metadata.store import Entry
from ottla.metadata.values import BrokerState, Incarnation
from ottla.protocol.primitives import Uuid
from tests.sim.cluster.oracle import (
    InvariantBroken,
    Oracle,
    check_partition,
    check_settled,
    check_successor,
)

TOPIC_ID = Uuid(b"0123456789abcdef")
ONE, TWO = Incarnation(1, 3), Incarnation(2, 6)
PARTITION = Partition(
    topic_id=TOPIC_ID,
    index=0,
    replicas=(1, 2),
    leader=ONE,
    leader_epoch=4,
    isr=(ONE, TWO),
    min_isr=1,
    partition_epoch=7,
)


def broker(incarnation: Incarnation, state: BrokerState = BrokerState.UP) -> Broker:
    return Broker(
        broker_id=incarnation.broker_id,
        epoch=incarnation.broker_epoch,
        inherits=None,
        endpoints=(),
        rack=None,
        host="host",
        state=state,
    )


def image_of(*records: object) -> Image:
    image = Image()
    image.replay(Entry(0, records))  # type: ignore[arg-type]
    return image


@pytest.mark.parametrize(
    ("partition", "reason"),
    [
        (replace(PARTITION, isr=(TWO,)), "not in the ISR"),
        (replace(PARTITION, elr=(TWO,)), "overlap"),
        (replace(PARTITION, isr=(ONE,), unclean=(1,)), "overlap"),
        (replace(PARTITION, replicas=(1,)), "not all of"),
    ],
)
def test_a_partition_against_the_rules_of_its_isr_is_found(
    partition: Partition, reason: str
) -> None:
    check_partition(PARTITION)
    with pytest.raises(InvariantBroken, match=f"invariant 6.*{reason}"):
        check_partition(partition)


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (replace(PARTITION, partition_epoch=9), "partition epoch 9 follows 7"),
        (replace(PARTITION, partition_epoch=7), "partition epoch 7 follows 7"),
        (replace(PARTITION, partition_epoch=8, leader=TWO), "leader epoch 4 follows 4"),
        (replace(PARTITION, partition_epoch=8, leader_epoch=5), "leader epoch 5 follows 4"),
    ],
)
def test_an_epoch_that_is_skipped_or_kept_is_found(after: Partition, reason: str) -> None:
    check_successor(PARTITION, replace(PARTITION, partition_epoch=8, leader=None, leader_epoch=5))
    with pytest.raises(InvariantBroken, match=reason):
        check_successor(PARTITION, after)


def test_two_processes_that_append_in_one_leader_epoch_are_found() -> None:
    oracle = Oracle()
    oracle.appended("one", 1, (TOPIC_ID, 0), 4)
    oracle.appended("one", 1, (TOPIC_ID, 0), 4)
    oracle.appended("two", 2, (TOPIC_ID, 0), 5)
    oracle.check()
    oracle.appended("two", 2, (TOPIC_ID, 0), 4)
    with pytest.raises(InvariantBroken, match=r"invariant 1.*leader epoch 4"):
        oracle.check()


def test_an_append_to_a_partition_that_another_broker_leads_is_found() -> None:
    oracle = Oracle()
    image = image_of(broker(ONE), broker(TWO), Topic("events", TOPIC_ID), PARTITION)
    for process in ("one", "two"):
        oracle.loaded(process, image)
    oracle.appended("one", 1, (TOPIC_ID, 0), 4)
    oracle.check()
    oracle.appended("two", 2, (TOPIC_ID, 0), 5)
    with pytest.raises(InvariantBroken, match=r"invariant 1: two appends to .* broker 1 leads"):
        oracle.check()


def test_images_that_differ_at_one_offset_are_found() -> None:
    oracle = Oracle()
    oracle.loaded("one", image_of(broker(ONE)))
    oracle.loaded("two", image_of(broker(ONE)))
    oracle.check()
    oracle.loaded("three", image_of(broker(TWO)))
    with pytest.raises(InvariantBroken, match="invariant 7: the image of three at entry 0"):
        oracle.check()


def test_a_controller_epoch_that_comes_again_is_found() -> None:
    oracle = Oracle()
    oracle.applied("one", image_of(), Entry(0, (ControllerStarted(2, 1),)))
    oracle.applied("two", image_of(), Entry(0, (ControllerStarted(2, 1),)))
    oracle.check()
    oracle.applied("one", image_of(), Entry(1, (ControllerStarted(2, 2),)))
    with pytest.raises(InvariantBroken, match="controller epoch 2 follows 2"):
        oracle.check()


def test_peace_with_a_leaderless_partition_a_dead_leader_or_a_late_broker_is_found() -> None:
    records = (broker(ONE), broker(TWO), Topic("events", TOPIC_ID))
    settled = image_of(*records, PARTITION)
    check_settled({"one": settled, "two": image_of(*records, PARTITION)})
    with pytest.raises(InvariantBroken, match="differs in peace"):
        check_settled({"one": settled, "two": image_of(*records)})
    with pytest.raises(InvariantBroken, match="has no leader, and candidates"):
        check_settled({"one": image_of(*records, replace(PARTITION, leader=None))})
    gone = (broker(ONE, BrokerState.GONE), *records[1:])
    with pytest.raises(InvariantBroken, match="which is gone"):
        check_settled({"one": image_of(*gone, PARTITION)})
    # Nobody can lead it, which is no fault.
    alone = replace(PARTITION, leader=None, isr=(ONE,))
    check_settled({"one": image_of(*gone, alone)})
