"""The delta between two images."""

from ottla.metadata.delta import image_delta
from ottla.metadata.image import Image
from ottla.metadata.records import Acl, Config, EpochFloor, Record, Topic, TopicDeleted
from ottla.metadata.values import Incarnation, ResourceKind
from tests.support.metadata.sample_records import BINDING, partition, topic_id

ORDERS: tuple[Record, ...] = (
    Topic("orders", topic_id(1)),
    partition(),
    Config(ResourceKind.TOPIC, "orders", "retention.ms", "1000"),
    Acl(BINDING, in_force=True),
)


def image_of(*records: Record) -> Image:
    image = Image()
    for record in records:
        image.apply(record)
    return image


def test_equal_images_have_no_delta() -> None:
    assert list(image_delta(image_of(*ORDERS), image_of(*ORDERS))) == []


def test_changed_records_and_removals_are_in_the_delta() -> None:
    changes: tuple[Record, ...] = (
        partition(partition_epoch=1, isr=(Incarnation(1, 5),)),
        Config(ResourceKind.TOPIC, "orders", "retention.ms", None),
        Acl(BINDING, in_force=False),
    )
    delta = list(image_delta(image_of(*ORDERS), image_of(*ORDERS, *changes)))
    assert delta == [changes[1], changes[2], changes[0]]


def test_a_recreated_topic_is_deleted_first_and_its_configs_are_not_removed_one_by_one() -> None:
    floor, deleted = EpochFloor(1), TopicDeleted(topic_id(1), "orders")
    after = image_of(*ORDERS, floor, deleted)
    assert list(image_delta(image_of(*ORDERS), after)) == [deleted, floor]
    again = Topic("orders", topic_id(2))
    after.apply(again)
    delta = list(image_delta(image_of(*ORDERS), after))
    assert delta[0] == deleted
    assert again in delta
