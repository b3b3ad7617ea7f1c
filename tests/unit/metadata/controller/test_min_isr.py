"""The partitions' records follow `min.insync.replicas` of topic and broker."""

from ottla.metadata.controller.min_isr import corrections
from ottla.metadata.image import Image
from ottla.metadata.records import Config, Partition, Topic
from ottla.metadata.values import Incarnation, ResourceKind
from ottla.settings.broker import BrokerSettings
from ottla.settings.sources import load
from tests.support.metadata.sample_records import partition, topic_id

KEY = "min.insync.replicas"
FIRST = (topic_id(1), 0)


def image_with(*configs: Config, **changes: object) -> Image:
    image = Image()
    image.apply(Topic("orders", topic_id(1)))
    image.apply(partition(min_isr=1, **changes))
    for config in configs:
        image.apply(config)
    return image


def test_a_topics_own_min_isr_counts_and_resets_the_eligible_leader_replicas() -> None:
    image = image_with(
        Config(ResourceKind.TOPIC, "orders", KEY, "2"), elr=(Incarnation(3, 7),), partition_epoch=4
    )
    (record,) = corrections(image, [FIRST], BrokerSettings())

    assert isinstance(record, Partition)
    assert (record.min_isr, record.elr, record.partition_epoch) == (2, (), 5)
    image.apply(record)
    assert corrections(image, [FIRST], BrokerSettings()) == []


def test_a_brokers_min_isr_counts_if_the_topic_has_none() -> None:
    settings = load(given={KEY: "2"}, environment={}, file=None)
    (record,) = corrections(image_with(), [FIRST], settings)

    assert isinstance(record, Partition)
    assert record.min_isr == 2
    own = image_with(Config(ResourceKind.TOPIC, "orders", KEY, "1"))
    assert corrections(own, [FIRST], settings) == []


def test_a_partition_that_was_deleted_meanwhile_is_skipped() -> None:
    image = image_with(Config(ResourceKind.TOPIC, "orders", KEY, "2"))
    others = [(topic_id(1), 1), (topic_id(9), 0)]

    assert corrections(image, others, BrokerSettings()) == []
