"""The partitions' records follow `min.insync.replicas` of topic and broker."""

from ottla.metadata.controller.min_isr import corrections, with_min_isr
from ottla.metadata.image import Image
from ottla.metadata.records import Config, Partition, Topic
from ottla.metadata.values import BrokerState, Incarnation, ResourceKind
from ottla.settings.broker import BrokerSettings
from ottla.settings.sources import load
from tests.support.metadata.sample_records import broker, partition, topic_id

KEY = "min.insync.replicas"
FIRST = (topic_id(1), 0)


def image_with(*configs: Config, **changes: object) -> Image:
    image = Image()
    for broker_id in (1, 2, 3):
        image.apply(broker(broker_id, 4 + broker_id))
    image.apply(Topic("orders", topic_id(1)))
    image.apply(partition(**{"min_isr": 1, **changes}))
    for config in configs:
        image.apply(config)
    return image


def test_a_topics_own_min_isr_counts_and_an_isr_that_reaches_it_empties_the_elr() -> None:
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


# --- the eligible leader replicas -------------------------------------------------------------

ONE, TWO, THREE = Incarnation(1, 5), Incarnation(2, 6), Incarnation(3, 7)


def lowered(*, live: bool, **fields: object) -> Partition:
    """A partition of three replicas whose `min_isr` falls from 2 to 1."""
    state = BrokerState.UP if live else BrokerState.GONE
    brokers = {number: broker(number, 4 + number, state=state) for number in (1, 2, 3)}
    return with_min_isr(partition(min_isr=2, **fields), 1, brokers)


def test_an_isr_that_is_large_enough_under_a_lower_min_isr_empties_the_elr() -> None:
    after = lowered(live=True, isr=(ONE,), elr=(TWO,))

    assert (after.min_isr, after.leader, after.isr, after.elr) == (1, ONE, (ONE,), ())
    assert (after.leader_epoch, after.partition_epoch) == (0, 1)


def test_the_elr_is_not_emptied_while_nobody_leads() -> None:
    after = lowered(live=False, leader=None, isr=(), elr=(ONE, TWO))

    assert (after.min_isr, after.leader, after.elr) == (1, None, (ONE, TWO))


def test_the_elr_stays_while_the_isr_is_smaller_than_a_higher_min_isr() -> None:
    brokers = {number: broker(number, 4 + number) for number in (1, 2, 3)}

    after = with_min_isr(partition(isr=(ONE,), elr=(TWO,)), 3, brokers)

    assert (after.min_isr, after.isr, after.elr) == (3, (ONE,), (TWO,))


def test_a_lower_min_isr_completes_a_reassignment_that_waited_for_it() -> None:
    brokers = {number: broker(number, 4 + number) for number in (1, 2, 3)}
    moving = partition(replicas=(3, 2, 1), adding=(3,), removing=(1,), isr=(THREE, ONE))

    after = with_min_isr(moving, 1, brokers)

    assert (after.replicas, after.adding, after.removing) == ((3, 2), (), ())
    assert (after.leader, after.leader_epoch, after.isr) == (THREE, 1, (THREE,))
