"""The image: records that are applied, records that are refused, and look-ups."""

from dataclasses import replace

import pytest

from ottla.metadata.image import Image, ResourceKey, RuleBroken, UserKey
from ottla.metadata.records import (
    Acl,
    Config,
    ControllerStarted,
    DeletedName,
    EpochFloor,
    Feature,
    InvalidRecord,
    Partition,
    ProducerIds,
    Quota,
    Record,
    Topic,
    TopicDeleted,
    User,
)
from ottla.metadata.store import Entry, Loaded, Snapshot
from ottla.metadata.values import BrokerState, Incarnation, ResourceKind, ScramMechanism
from tests.support.metadata.sample_records import (
    BINDING,
    CREDENTIAL,
    ENTITY,
    ONE_OF_EACH,
    broker,
    partition,
    topic_id,
)

ORDERS = Topic("orders", topic_id(1))
OTHERS = Topic("others", topic_id(2))


def image_of(*records: Record) -> Image:
    image = Image()
    for record in records:
        image.apply(record)
    return image


def refuses(image: Image, record: Record, complaint: str) -> bool:
    """Checks that the record is refused for this reason and does not change the image."""
    before = image.snapshot()
    with pytest.raises(RuleBroken, match=complaint):
        image.apply(record)
    return image.snapshot() == before


def test_look_ups_find_one_record_of_each_type() -> None:
    image = image_of(*ONE_OF_EACH[:-1])
    assert (image.controller_epoch, image.controller_id) == (3, 1)
    assert image.brokers == {1: broker(inherits=4)}
    assert list(image.topic_names) == ["orders"]
    assert image.topic("orders") == image.topic_by_id(topic_id(1)) == ORDERS
    assert image.partitions(topic_id(1)) == [ONE_OF_EACH[3]]
    assert image.partition(topic_id(1), 0) == ONE_OF_EACH[3]
    assert image.configs(ResourceKind.TOPIC, "orders") == {"retention.ms": "1000"}
    assert list(image.configured) == [ResourceKey(ResourceKind.TOPIC, "orders")]
    assert list(image.acls) == [BINDING]
    assert image.users == {UserKey("alice", ScramMechanism.SHA_512): CREDENTIAL}
    assert image.quotas == {ENTITY: {"producer_byte_rate": 1024.5}}
    assert image.next_producer_id == 2000
    assert image.features == {"metadata": 2}
    assert image.epoch_floor == 7


def test_look_ups_of_missing_things_find_nothing() -> None:
    image = image_of(ORDERS, partition())
    assert image.topic("nobody") is None
    assert image.topic_by_id(topic_id(9)) is None
    assert image.partitions(topic_id(9)) == ()
    assert image.partition(topic_id(1), 1) is None
    assert image.partition(topic_id(1), -1) is None
    assert image.configs(ResourceKind.TOPIC, "orders") == {}


def test_removed_things_leave_no_trace() -> None:
    image = image_of(
        Config(ResourceKind.BROKER, "", "k", "v"),
        Acl(BINDING, in_force=True),
        User("alice", ScramMechanism.SHA_512, CREDENTIAL),
        Quota(ENTITY, "k", 1.0),
        Feature("f", 1),
    )
    assert image != Image()
    image.apply(Config(ResourceKind.BROKER, "", "k", None))
    image.apply(Acl(BINDING, in_force=False))
    image.apply(User("alice", ScramMechanism.SHA_512, None))
    image.apply(Quota(ENTITY, "k", None))
    image.apply(Feature("f", None))
    assert image == Image()


def test_removing_missing_things_changes_nothing() -> None:
    image = image_of(Config(ResourceKind.GROUP, "g", "k", None), Acl(BINDING, in_force=False))
    assert image == Image()


def test_a_partition_epoch_rises_by_exactly_one() -> None:
    image = image_of(ORDERS, partition(partition_epoch=7))
    assert refuses(image, partition(partition_epoch=7), "partition epoch 7 cannot follow 7")
    assert refuses(image, partition(partition_epoch=9), "partition epoch 9 cannot follow 7")
    image.apply(partition(partition_epoch=8))
    assert image.partition(topic_id(1), 0) == partition(partition_epoch=8)


LED = partition(leader_epoch=4)


@pytest.mark.parametrize(
    ("leader", "isr"),
    [
        (Incarnation(2, 6), LED.isr),
        (None, LED.isr),
        (Incarnation(1, 9), (Incarnation(1, 9), Incarnation(2, 6))),
    ],
    ids=["another broker", "nobody", "the same broker come back"],
)
def test_a_leader_epoch_rises_by_one_when_the_leaders_incarnation_changes(
    leader: Incarnation | None, isr: tuple[Incarnation, ...]
) -> None:
    image = image_of(ORDERS, LED)
    changed = replace(LED, leader=leader, isr=isr, partition_epoch=1)
    for epoch in (3, 4, 6):
        assert refuses(image, replace(changed, leader_epoch=epoch), f"leader epoch {epoch} where 5")
    image.apply(replace(changed, leader_epoch=5))
    assert image.partition(topic_id(1), 0) == replace(changed, leader_epoch=5)


def test_a_leader_epoch_stays_while_the_leader_stays() -> None:
    image = image_of(ORDERS, LED)
    shrunk = replace(LED, isr=(Incarnation(1, 5),), partition_epoch=1)
    assert refuses(image, replace(shrunk, leader_epoch=5), "leader epoch 5 where 4 is due")
    image.apply(shrunk)
    assert image.partition(topic_id(1), 0) == shrunk


def test_a_leader_epoch_may_rise_when_a_replica_goes() -> None:
    """It does. Records of earlier versions kept the epoch."""
    for epoch in (4, 5):
        image = image_of(ORDERS, LED)
        left = replace(LED, replicas=(1, 2), partition_epoch=1, leader_epoch=epoch)
        image.apply(left)
        assert image.partition(topic_id(1), 0) == left
    image = image_of(ORDERS, LED)
    assert refuses(image, replace(left, leader_epoch=6), "leader epoch 6 where 4 is due")
    added = replace(LED, replicas=(*LED.replicas, 9), partition_epoch=1, leader_epoch=5)
    assert refuses(image, added, "leader epoch 5 where 4 is due")


def test_the_return_of_the_same_leader_is_a_change_as_well() -> None:
    image = image_of(ORDERS, replace(LED, leader=None))
    back = replace(LED, partition_epoch=1)
    assert refuses(image, back, "leader epoch 4 where 5 is due")
    image.apply(replace(back, leader_epoch=5))
    assert image.partition(topic_id(1), 0) == replace(back, leader_epoch=5)


def test_partitions_come_in_the_order_of_their_indexes() -> None:
    image = image_of(ORDERS)
    assert refuses(image, partition(index=1), "orders-1: index 0 is to come first")
    image.apply(partition(index=0))
    image.apply(partition(index=1))
    assert [found.index for found in image.partitions(topic_id(1))] == [0, 1]


def test_a_partition_needs_its_topic() -> None:
    assert refuses(Image(), partition(), "an unknown id")


def test_a_record_that_contradicts_itself_is_refused_before_anything_else() -> None:
    image = image_of(ORDERS)
    with pytest.raises(InvalidRecord):
        image.apply(partition(leader=Incarnation(3, 1)))
    assert image == image_of(ORDERS)


def test_names_and_ids_of_topics_are_unique() -> None:
    image = image_of(ORDERS)
    assert refuses(image, Topic("orders", topic_id(2)), "there is a topic orders already")
    assert refuses(image, Topic("others", topic_id(1)), "already")


def test_a_deleted_topic_loses_its_partitions_and_configs() -> None:
    image = image_of(
        ORDERS,
        OTHERS,
        partition(leader_epoch=4),
        partition(topic=2),
        Config(ResourceKind.TOPIC, "orders", "retention.ms", "1"),
        Config(ResourceKind.TOPIC, "others", "retention.ms", "2"),
        EpochFloor(5),
        TopicDeleted(topic_id(1), "orders"),
    )
    assert image.topic("orders") is None
    assert image.topic_by_id(topic_id(1)) is None
    assert image.partitions(topic_id(1)) == ()
    assert list(image.configured) == [ResourceKey(ResourceKind.TOPIC, "others")]
    assert list(image.topic_names) == ["others"]


def test_a_topic_is_deleted_only_by_its_name_and_id() -> None:
    image = image_of(ORDERS, OTHERS, EpochFloor(1))
    assert refuses(image, TopicDeleted(topic_id(3), "orders"), "no topic orders with id")
    assert refuses(image, TopicDeleted(topic_id(2), "orders"), "no topic orders with id")


def test_the_floor_is_raised_before_a_topic_is_deleted() -> None:
    image = image_of(ORDERS, partition(leader_epoch=4), partition(index=1, leader_epoch=6))
    image.apply(EpochFloor(6))
    deleted = TopicDeleted(topic_id(1), "orders")
    assert refuses(image, deleted, "above leader epoch 6 of its partition 1")
    image.apply(EpochFloor(7))
    image.apply(deleted)
    assert image.epoch_floor == 7


def test_a_topic_with_a_deleted_topics_name_starts_above_its_epochs() -> None:
    image = image_of(
        ORDERS,
        partition(leader_epoch=4),
        EpochFloor(5),
        TopicDeleted(topic_id(1), "orders"),
        Topic("orders", topic_id(2)),
    )
    assert refuses(image, partition(topic=2, leader_epoch=4), "below the first one of its name, 5")
    image.apply(partition(topic=2, leader_epoch=5))
    found: Partition | None = image.partition(topic_id(2), 0)
    assert found is not None
    assert found.leader_epoch == 5


def test_a_deleted_name_applies_to_topics_of_that_name_only() -> None:
    image = image_of(
        ORDERS,
        partition(leader_epoch=4),
        DeletedName("orders", 5),
        TopicDeleted(topic_id(1), "orders"),
        Topic("orders", topic_id(3)),
        OTHERS,
    )
    assert refuses(image, partition(topic=3, leader_epoch=4), "below the first one of its name, 5")
    image.apply(partition(topic=3, leader_epoch=5))
    image.apply(partition(topic=2, leader_epoch=0))
    assert (image.first_epoch("orders"), image.first_epoch("others")) == (5, 0)


def test_partitions_added_to_a_recreated_topic_start_above_the_old_epochs() -> None:
    image = image_of(ORDERS, partition(), partition(index=1, leader_epoch=6))
    image.apply(DeletedName("orders", 7))
    image.apply(TopicDeleted(topic_id(1), "orders"))
    image.apply(Topic("orders", topic_id(3)))
    image.apply(partition(topic=3, leader_epoch=7))
    assert refuses(image, partition(topic=3, index=1, leader_epoch=6), "below the first one")


def test_a_topic_may_be_deleted_after_a_deleted_name_above_its_epochs() -> None:
    image = image_of(ORDERS, partition(leader_epoch=4))
    deleted = TopicDeleted(topic_id(1), "orders")
    image.apply(DeletedName("others", 9))
    image.apply(DeletedName("orders", 4))
    assert refuses(image, deleted, "above leader epoch 4 of its partition 0")
    image.apply(DeletedName("orders", 5))
    image.apply(deleted)
    assert image.topic("orders") is None


def test_the_floor_replaces_the_names_below_it() -> None:
    image = image_of(DeletedName("a", 3), DeletedName("b", 4), DeletedName("c", 5), EpochFloor(4))
    assert image.deleted_names == {"c": 5}
    assert [image.first_epoch(name) for name in "abcd"] == [4, 4, 5, 4]
    image.apply(DeletedName("a", 4))
    assert image.deleted_names == {"c": 5}
    assert image == image_of(EpochFloor(4), DeletedName("c", 5))


def test_the_first_epoch_of_a_name_never_falls() -> None:
    image = image_of(EpochFloor(4), DeletedName("a", 7))
    assert refuses(image, DeletedName("a", 6), "the first epoch of 'a' cannot fall from 7 to 6")
    assert refuses(image, DeletedName("b", 3), "the first epoch of 'b' cannot fall from 4 to 3")


def test_a_snapshot_holds_the_deleted_names_behind_older_partitions() -> None:
    image = image_of(ORDERS, partition(), EpochFloor(2), DeletedName("orders", 9))
    assert image_of(*image.snapshot().records) == image
    assert image.snapshot().records[-2:] == (EpochFloor(2), DeletedName("orders", 9))


def test_equal_images_give_the_same_snapshot_whatever_was_deleted_first() -> None:
    one = image_of(DeletedName("b", 2), DeletedName("a", 1))
    other = image_of(DeletedName("a", 1), DeletedName("b", 2))
    assert one == other
    assert one.snapshot() == other.snapshot()


def test_topics_with_the_same_name_in_metrics_are_found() -> None:
    image = image_of(Topic("a.b", topic_id(1)), Topic("a-b", topic_id(2)))
    assert image.colliding_topic("a_b") == "a.b"
    assert image.colliding_topic("a.b") is None
    assert image.colliding_topic("a-b") is None
    # Adopted topics may collide.
    image.apply(Topic("a_b", topic_id(3)))
    image.apply(TopicDeleted(topic_id(1), "a.b"))
    assert image.colliding_topic("a.b") == "a_b"
    image.apply(TopicDeleted(topic_id(3), "a_b"))
    assert image.colliding_topic("a.b") is None
    assert image == image_of(Topic("a-b", topic_id(2)))


def test_partitions_are_counted() -> None:
    image = image_of(ORDERS, OTHERS, partition(), partition(index=1), partition(topic=2))
    image.apply(partition(partition_epoch=1))
    assert image.partition_count == 3
    image.apply(DeletedName("orders", 1))
    image.apply(TopicDeleted(topic_id(1), "orders"))
    assert image.partition_count == 1


def test_an_existing_partition_may_stay_below_the_floor() -> None:
    image = image_of(ORDERS, partition(), EpochFloor(9))
    image.apply(partition(partition_epoch=1))
    assert image.partition(topic_id(1), 0) == partition(partition_epoch=1)


def test_a_setting_needs_its_topic() -> None:
    config = Config(ResourceKind.TOPIC, "orders", "retention.ms", "1")
    assert refuses(Image(), config, "a topic that is not there")


@pytest.mark.parametrize(
    ("later", "earlier"),
    [
        (ControllerStarted(4), ControllerStarted(3)),
        (EpochFloor(4), EpochFloor(3)),
        (ProducerIds(4), ProducerIds(3)),
        (broker(epoch=4), broker(epoch=3)),
    ],
)
def test_epochs_and_producer_ids_never_fall(later: Record, earlier: Record) -> None:
    assert refuses(image_of(earlier, later), earlier, "cannot fall from 4 to 3")


def test_a_broker_that_is_gone_returns_only_as_another_incarnation() -> None:
    image = image_of(broker(), broker(state=BrokerState.DRAINING))
    assert refuses(image, broker(), "is draining, and not up again")
    image.apply(broker(state=BrokerState.GONE))
    assert refuses(image, broker(state=BrokerState.DRAINING), "is gone, and not draining again")
    image.apply(broker(epoch=6, inherits=5))
    assert image.brokers[1].incarnation == Incarnation(1, 6)


def test_the_inherited_epochs_of_an_incarnation_stay_until_it_is_up() -> None:
    starting = broker(state=BrokerState.STARTING, inherits=4, also_inherits=(2,))
    image = image_of(starting)
    for other in (replace(starting, also_inherits=()), replace(starting, inherits=None)):
        assert refuses(image, other, r"inherits \(4, 2\)")
    assert refuses(image, replace(starting, state=BrokerState.UP, inherits=3), r"inherits \(4, 2\)")
    image.apply(replace(starting, state=BrokerState.UP, inherits=None, also_inherits=()))
    assert refuses(image, broker(state=BrokerState.UP, inherits=4), r"inherits \(\)")


def test_the_id_of_an_incarnation_stays() -> None:
    image = image_of(broker(incarnation_id="a"))
    assert refuses(image, broker(incarnation_id="b"), "has the id a")
    image.apply(broker(epoch=6, incarnation_id="b"))


def test_entries_are_applied_in_the_order_of_their_offsets() -> None:
    image = Image()
    image.replay(Entry(0, (ORDERS,)))
    image.replay(Entry(1, ()))
    assert image.offset == 1
    for n in (0, 1, 3):
        with pytest.raises(RuleBroken, match=f"entry {n} cannot follow entry 1"):
            image.replay(Entry(n, ()))
    assert image.offset == 1


def test_a_snapshot_and_the_entries_after_it_give_the_same_image_as_all_entries() -> None:
    entries = tuple(Entry(n, (record,)) for n, record in enumerate(ONE_OF_EACH))
    whole = Image.of(Loaded(Snapshot(-1, ()), entries))
    first = Image.of(Loaded(Snapshot(-1, ()), entries[:6]))
    assert Image.of(Loaded(first.snapshot(), entries[6:])) == whole
    assert whole.offset == len(ONE_OF_EACH) - 1


def test_a_snapshot_holds_partitions_that_are_older_than_the_floor() -> None:
    image = image_of(ORDERS, partition(partition_epoch=12), EpochFloor(9))
    again = Image.of(Loaded(image.snapshot(), ()))
    assert again == image
    assert again.partition(topic_id(1), 0) == partition(partition_epoch=12)


def test_images_with_the_same_contents_are_equal_and_have_the_same_snapshot() -> None:
    one = image_of(ORDERS, OTHERS, broker(1), broker(2), partition(), partition(topic=2))
    two = image_of(broker(2), OTHERS, partition(topic=2), broker(1), ORDERS, partition())
    assert one == two
    assert one.snapshot() == two.snapshot()
    two.apply(partition(partition_epoch=1))
    assert one != two


def test_a_fork_changes_without_its_image() -> None:
    image, untouched = Image(), Image()
    for each in (image, untouched):
        for record in ONE_OF_EACH[:-1]:
            each.apply(record)
    moved = partition(
        partition_epoch=1, leader=Incarnation(2, 6), leader_epoch=1, isr=(Incarnation(2, 6),)
    )
    fork = image.fork()
    assert fork == image
    for record in (
        moved,
        partition(index=1, leader_epoch=7),
        Config(ResourceKind.TOPIC, "orders", "retention.ms", None),
        Acl(BINDING, in_force=False),
        User("alice", ScramMechanism.SHA_512, None),
        Quota(ENTITY, "producer_byte_rate", None),
        Feature("metadata", None),
        EpochFloor(8),
        broker(epoch=9),
        TopicDeleted(topic_id(1), "orders"),
        Topic("orders", topic_id(1)),
    ):
        fork.apply(record)
    assert image == untouched
    assert fork != untouched
