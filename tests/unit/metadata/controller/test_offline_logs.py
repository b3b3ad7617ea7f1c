"""A broker does not count as live for partitions whose logs are offline."""

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.broker_changes import partition_updates
from ottla.metadata.controller.isr_changes import AskedIsr, altered
from ottla.metadata.controller.offline_logs import OFFLINE_MAX, logs_offline
from ottla.metadata.image import Image
from ottla.metadata.records import DeletedName, Record, Topic, TopicDeleted
from ottla.metadata.values import Incarnation, PartitionId
from tests.support.metadata.sample_records import broker, partition, topic_id

ONE, TWO = Incarnation(1, 5), Incarnation(2, 6)
FIRST, SECOND = PartitionId(topic_id(1), 0), PartitionId(topic_id(1), 1)


def image_of(*records: Record) -> Image:
    image = Image()
    for record in (broker(1, 5), broker(2, 6), Topic("orders", topic_id(1)), *records):
        image.apply(record)
    return image


def apply(image: Image, *offline: PartitionId, broker_id: int = 1) -> list[Record]:
    records = list(logs_offline(image, broker_id, offline))
    for record in records:
        image.apply(record)
    return records


def test_another_replica_in_sync_leads_instead() -> None:
    image = image_of(*(partition(index=index, replicas=(1, 2), min_isr=1) for index in (0, 1)))
    apply(image, FIRST)
    first, second = image.partitions(topic_id(1))
    assert (first.leader, first.isr, first.elr) == (TWO, (TWO,), ())
    assert (second.leader, second.isr) == (ONE, (ONE, TWO))
    assert image.brokers[1].offline == (FIRST,)


def test_a_repeated_report_changes_nothing() -> None:
    image = image_of(partition(replicas=(1, 2), min_isr=1))
    apply(image, FIRST)
    assert apply(image, FIRST) == []
    assert partition_updates(image, [FIRST]) == []


def test_the_last_member_leads_no_more_and_stays_eligible() -> None:
    image = image_of(partition(replicas=(1, 2), isr=(ONE,), min_isr=1))
    apply(image, FIRST)
    (record,) = image.partitions(topic_id(1))
    assert (record.leader, record.isr, record.elr) == (None, (), (ONE,))


def test_a_later_incarnation_with_a_sound_log_leads_again() -> None:
    image = image_of(partition(replicas=(1, 2), isr=(ONE,), min_isr=1))
    apply(image, FIRST)
    image.apply(broker(1, 9, inherits=5))
    for record in partition_updates(image, [FIRST]):
        image.apply(record)
    (found,) = image.partitions(topic_id(1))
    assert found.leader == Incarnation(1, 9)


def test_a_broker_does_not_join_an_isr_while_its_log_is_offline() -> None:
    image = image_of(partition(replicas=(1, 2), leader=TWO, isr=(TWO,), min_isr=1))
    apply(image, FIRST)
    with pytest.raises(PeerError) as caught:
        altered(image, TWO, AskedIsr(topic_id(1), 0, 0, 0, (ONE, TWO)))
    assert caught.value.code is ErrorCode.INELIGIBLE_REPLICA


def test_logs_of_deleted_topics_are_forgotten_with_the_next_report() -> None:
    image = image_of(*(partition(index=index, replicas=(1, 2), min_isr=1) for index in (0, 1)))
    image.apply(Topic("deleted", topic_id(2)))
    image.apply(partition(topic=2, replicas=(1, 2), min_isr=1))
    apply(image, PartitionId(topic_id(2), 0), FIRST)
    image.apply(DeletedName("deleted", 2))
    image.apply(TopicDeleted(topic_id(2), "deleted"))
    apply(image, SECOND)
    assert image.brokers[1].offline == (FIRST, SECOND)


def test_a_broker_with_too_many_offline_logs_is_refused_and_nothing_changes() -> None:
    count = OFFLINE_MAX + 1
    image = image_of(
        *(partition(index=index, replicas=(1, 2), min_isr=1) for index in range(count))
    )
    where = [PartitionId(topic_id(1), index) for index in range(count)]
    apply(image, *where[:-1])
    assert len(image.brokers[1].offline) == OFFLINE_MAX
    with pytest.raises(PeerError) as refused:
        apply(image, where[-1])
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_a_report_of_unknown_partitions_changes_nothing() -> None:
    image = image_of(partition(replicas=(1, 2), min_isr=1))
    assert apply(image, PartitionId(topic_id(9), 0), SECOND) == []
