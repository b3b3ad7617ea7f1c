"""The partitions that change with the brokers: which ones, in which order, to which records."""

from collections.abc import Iterable

from ottla.metadata.controller.broker_changes import outdated_partitions, partition_updates
from ottla.metadata.image import Image
from ottla.metadata.records import EpochFloor, Partition, Topic, TopicDeleted
from ottla.metadata.values import BrokerState, Incarnation, PartitionId
from tests.support.metadata.sample_records import broker, partition, topic_id

ONE, TWO, THREE = Incarnation(1, 5), Incarnation(2, 6), Incarnation(3, 7)


def image_of(*partitions: Partition) -> Image:
    """Topics "topic-1" and so on, as their ids are numbered, on three brokers."""
    image = Image()
    for broker_id in (1, 2, 3):
        image.apply(broker(broker_id, 4 + broker_id))
    for each in partitions:
        if each.index == 0:
            number = int.from_bytes(each.topic_id, "big")
            image.apply(Topic(f"topic-{number}", each.topic_id))
        image.apply(each)
    return image


def where(topic: int, index: int = 0) -> PartitionId:
    return PartitionId(topic_id(topic), index)


def apply(image: Image, ids: Iterable[PartitionId]) -> list[Partition]:
    records = partition_updates(image, ids)
    for record in records:
        image.apply(record)
    return records


def test_no_partition_is_outdated_while_no_broker_changes() -> None:
    image = image_of(partition(1), partition(2))
    assert list(outdated_partitions(image, None)) == []


def test_changes_of_leader_come_first() -> None:
    image = image_of(
        partition(1, leader=TWO),
        partition(2),
        partition(2, 1, leader=TWO),
        partition(2, 2),
        partition(3, replicas=(2, 3), leader=TWO, isr=(TWO, THREE)),
    )
    image.apply(broker(1, 5, state=BrokerState.GONE))

    found = list(outdated_partitions(image, None))

    assert found == [where(2), where(2, 2), where(1), where(2, 1)]
    assert all(each.possible_loss_epoch is None for each in apply(image, found))
    assert list(outdated_partitions(image, None)) == []
    assert [each.leader for each in image.partitions(topic_id(2))] == [TWO, TWO, TWO]


def test_a_draining_leader_that_stays_and_partitions_without_a_leader_are_up_to_date() -> None:
    image = image_of(
        partition(1, replicas=(1,), isr=(ONE,)),
        partition(2, leader=None, isr=(), elr=(TWO, THREE)),
        partition(3, isr=(ONE,), elr=(TWO,)),
    )
    image.apply(broker(1, 5, state=BrokerState.DRAINING))
    for broker_id in (2, 3):
        image.apply(broker(broker_id, 4 + broker_id, state=BrokerState.GONE))
    assert partition_updates(image, outdated_partitions(image, None)) == []

    image.apply(broker(3, 11, inherits=7, state=BrokerState.STARTING))
    (changed,) = partition_updates(image, outdated_partitions(image, None))
    assert PartitionId(changed.topic_id, changed.index) == where(2)


def test_partitions_that_were_updated_meanwhile_are_left_out() -> None:
    image = image_of(partition(1), partition(2, leader=TWO), partition(3, leader=TWO))
    image.apply(broker(1, 5, state=BrokerState.GONE))
    search = outdated_partitions(image, None)

    assert next(search) == where(1)
    apply(image, [where(1), where(2)])

    assert list(search) == [where(3)]


def test_only_partitions_with_a_replica_on_the_brokers_are_examined() -> None:
    image = image_of(
        partition(1, replicas=(1,), isr=(ONE,)), partition(2, replicas=(2,), leader=TWO, isr=(TWO,))
    )
    for broker_id in (1, 2):
        image.apply(broker(broker_id, 4 + broker_id, state=BrokerState.GONE))

    assert list(outdated_partitions(image, (2,))) == [where(2)]
    assert list(outdated_partitions(image, ())) == []
    assert list(outdated_partitions(image, None)) == [where(1), where(2)]


def test_a_search_goes_on_while_topics_come_and_go() -> None:
    image = image_of(partition(1), partition(2), partition(3))
    image.apply(broker(1, 5, state=BrokerState.GONE))
    search = outdated_partitions(image, None)

    first = next(search)
    image.apply(EpochFloor(1))
    image.apply(TopicDeleted(topic_id(2), "topic-2"))
    image.apply(Topic("topic-9", topic_id(9)))

    assert [first, *search] == [where(1), where(3)]


def test_partitions_that_are_up_to_date_or_gone_get_no_record() -> None:
    image = image_of(partition(1), partition(2, replicas=(2, 3), leader=TWO, isr=(TWO, THREE)))
    image.apply(broker(1, 5, state=BrokerState.GONE))

    records = partition_updates(image, [where(1), where(2), where(1, 7), where(8)])

    assert [(each.topic_id, each.leader) for each in records] == [(topic_id(1), TWO)]


def test_possible_losses_are_recorded() -> None:
    image = image_of(partition(1), partition(2, replicas=(1,), isr=(ONE,)))
    image.apply(broker(1, 9, state=BrokerState.STARTING))

    records = apply(image, outdated_partitions(image, (1,)))

    lost = [(each.topic_id, each.possible_loss_epoch) for each in records]
    assert lost == [(topic_id(1), None), (topic_id(2), 1)]
