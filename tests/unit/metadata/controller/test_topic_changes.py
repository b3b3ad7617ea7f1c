"""The controller's decisions about topics, each applied to the image that it was made on."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller import topic_changes
from ottla.metadata.controller.pending_topics import DELETED_NAMES_MAX, PendingTopics
from ottla.metadata.controller.reassignment import started
from ottla.metadata.controller.topic_changes import (
    MAX_PARTITIONS_PER_CHANGE,
    REPLICATION_FACTOR_MAX,
    CreatedTopic,
    NewTopic,
    create_partitions,
    create_topic,
    delete_topic,
)
from ottla.metadata.entry_codec import encode
from ottla.metadata.image import Image
from ottla.metadata.records import (
    Config,
    DeletedName,
    EpochFloor,
    Partition,
    Record,
    Topic,
    TopicDeleted,
)
from ottla.metadata.store import Loaded
from ottla.metadata.values import BrokerState, Incarnation, ResourceKind
from ottla.protocol.primitives import Uuid
from ottla.settings.broker import BrokerSettings
from ottla.settings.setting import ConfigSource
from ottla.settings.sources import load
from ottla.settings.table.retention import RETENTION_MS
from tests.support.metadata.sample_records import broker, topic_id

ME = Incarnation(1, 5)
SETTINGS = BrokerSettings()


def image_of(*brokers: int) -> Image:
    image = Image()
    for broker_id in brokers:
        image.apply(broker(broker_id, 4 + broker_id, rack=None))
    return image


def apply(image: Image, records: Sequence[Record]) -> None:
    for record in records:
        image.apply(record)


def create(
    image: Image, name: str, number: int = 1, settings: BrokerSettings = SETTINGS, **wish: Any
) -> CreatedTopic:
    records, created = create_topic(
        PendingTopics(image), NewTopic(name=name, **wish), settings, topic_id(number), 0
    )
    apply(image, records)
    return created


def delete(image: Image, topic: Uuid) -> None:
    records, _ = delete_topic(PendingTopics(image), topic)
    apply(image, records)


def move_leader(image: Image, number: int) -> None:
    """The topic's first partition loses its leader, or broker 1 leads it again."""
    before = image.partitions(topic_id(number))[0]
    leader = None if before.leader else before.isr[0]
    image.apply(
        replace(
            before,
            leader=leader,
            leader_epoch=before.leader_epoch + 1,
            partition_epoch=before.partition_epoch + 1,
        )
    )


def grow(
    image: Image, name: str, count: int, assignments: Sequence[tuple[int, ...]] | None = None
) -> None:
    records, _ = create_partitions(PendingTopics(image), name, count, assignments, SETTINGS, 0)
    apply(image, records)


def refusal(image: Image, **wish: Any) -> ErrorCode:
    with pytest.raises(PeerError) as refused:
        create_topic(
            PendingTopics(image), NewTopic(**{"name": "new", **wish}), SETTINGS, topic_id(99), 0
        )
    assert str(refused.value)
    return refused.value.code


def growth_refusal(
    image: Image, name: str, count: int, assignments: Sequence[tuple[int, ...]] | None = None
) -> ErrorCode:
    with pytest.raises(PeerError) as refused:
        create_partitions(PendingTopics(image), name, count, assignments, SETTINGS, 0)
    return refused.value.code


# --- creating topics --------------------------------------------------------------------------


def test_a_new_topic_has_leaders_and_all_replicas_in_sync() -> None:
    image = image_of(1)

    created = create(image, "orders", partitions=2, replication_factor=1)

    assert image.topic("orders") == Topic("orders", topic_id(1))
    assert list(image.partitions(topic_id(1))) == [
        Partition(
            topic_id=topic_id(1),
            index=index,
            replicas=(1,),
            leader=ME,
            leader_epoch=0,
            isr=(ME,),
            min_isr=1,
            partition_epoch=0,
        )
        for index in (0, 1)
    ]
    assert created[:3] == (topic_id(1), 2, 1)


def test_omitted_numbers_are_the_default_settings() -> None:
    settings = load(
        given={"num.partitions": "3", "default.replication.factor": "2"}, environment={}, file=None
    )

    created = create(image_of(1, 2), "orders", settings=settings)

    assert (created.partitions, created.replication_factor) == (3, 2)


def test_a_topic_is_created_with_its_configs() -> None:
    image = image_of(1)

    created = create(
        image, "orders", configs=[("retention.ms", "07"), ("min.insync.replicas", "2")]
    )

    assert image.configs(ResourceKind.TOPIC, "orders") == {
        "min.insync.replicas": "2",
        "retention.ms": "7",
    }
    assert created.configs[RETENTION_MS] == 7
    assert created.configs.source_of(RETENTION_MS) is ConfigSource.DYNAMIC_TOPIC
    assert image.partitions(topic_id(1))[0].min_isr == 2


def test_replicas_can_be_assigned_by_hand() -> None:
    image = image_of(1, 2)

    created = create(image, "orders", assignments={1: (1, 2), 0: (2, 1)})

    assert [each.replicas for each in image.partitions(topic_id(1))] == [(2, 1), (1, 2)]
    assert [each.leader for each in image.partitions(topic_id(1))] == [Incarnation(2, 6), ME]
    assert (created.partitions, created.replication_factor) == (2, 2)


@pytest.mark.parametrize("state", [BrokerState.GONE, BrokerState.DRAINING, BrokerState.STARTING])
def test_an_assigned_broker_that_is_not_up_is_not_in_sync(state: BrokerState) -> None:
    image = image_of(1, 2)
    image.apply(broker(2, 9, rack=None, state=state))

    create(image, "orders", assignments={0: (2, 1)})
    grow(image, "orders", 2, [(2, 1)])

    for each in image.partitions(topic_id(1)):
        assert (each.replicas, each.leader, each.isr) == ((2, 1), ME, (ME,))


def test_replicas_go_to_brokers_that_are_up() -> None:
    image = image_of(1, 2)
    image.apply(broker(2, 6, rack=None, state=BrokerState.DRAINING))

    create(image, "orders", partitions=4, replication_factor=1)

    assert {each.replicas for each in image.partitions(topic_id(1))} == {(1,)}
    assert refusal(image, assignments={0: (2,)}) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        ({"name": "orders"}, ErrorCode.TOPIC_ALREADY_EXISTS),
        ({"name": "bad name!"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "__cluster_metadata"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "my_orders"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"replication_factor": 3}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": -2}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"partitions": -2}, ErrorCode.INVALID_PARTITIONS),
        ({"partitions": MAX_PARTITIONS_PER_CHANGE + 1}, ErrorCode.POLICY_VIOLATION),
        ({"configs": [("no.such", "1")]}, ErrorCode.INVALID_CONFIG),
        ({"configs": [("segment.bytes", "10")]}, ErrorCode.INVALID_CONFIG),
        ({"configs": [("retention.ms", None)]}, ErrorCode.INVALID_CONFIG),
        ({"configs": [("compression.type", "brotli")]}, ErrorCode.INVALID_CONFIG),
        ({"assignments": {0: (9,)}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": {1: (1,)}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": {-1: (1,), 0: (1,)}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": {0: ()}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": {0: (1, 1)}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": {0: (1, 2), 1: (1,)}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": {0: (1,)}, "partitions": 1}, ErrorCode.INVALID_REQUEST),
        ({"assignments": {0: (1,)}, "replication_factor": 1}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_topic_that_cannot_be_created_is_refused_with_its_code(
    wish: dict[str, Any], code: ErrorCode
) -> None:
    image = image_of(1, 2)
    create(image, "orders")
    create(image, "my.orders", 2)

    assert refusal(image, **wish) is code


@pytest.mark.parametrize(
    ("brokers", "factor", "said"),
    [
        ((1,), 3, "A replication factor of 3, where 1 broker is up."),
        ((1, 2), 3, "A replication factor of 3, where 2 brokers are up."),
        ((1, 2), 99, f"where {topic_changes.REPLICATION_FACTOR_MAX} is the most there can be."),
    ],
)
def test_too_many_replicas_are_refused_with_the_limit_that_applies(
    brokers: tuple[int, ...], factor: int, said: str
) -> None:
    with pytest.raises(PeerError) as refused:
        create(image_of(*brokers), "orders", replication_factor=factor)
    assert str(refused.value).endswith(said)


def test_the_number_of_partitions_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_changes, "PARTITIONS_MAX", 5)
    monkeypatch.setattr(topic_changes, "MAX_PARTITIONS_PER_TOPIC", 4)
    image = image_of(1)
    create(image, "orders", partitions=3)

    assert refusal(image, partitions=3) is ErrorCode.POLICY_VIOLATION
    assert growth_refusal(image, "orders", 5) is ErrorCode.POLICY_VIOLATION
    grow(image, "orders", 4)
    assert len(image.partitions(topic_id(1))) == 4


def test_the_largest_possible_topic_fits_one_entry() -> None:
    image = Image()
    for broker_id in range(2**31 - REPLICATION_FACTOR_MAX, 2**31):
        image.apply(broker(broker_id, 2**63 - 1))

    records, created = create_topic(
        PendingTopics(image),
        NewTopic(
            name="x" * 249,
            partitions=MAX_PARTITIONS_PER_CHANGE,
            replication_factor=REPLICATION_FACTOR_MAX,
            configs=[("retention.ms", "9223372036854775807")],
        ),
        SETTINGS,
        topic_id(1),
        0,
    )

    assert created.partitions == MAX_PARTITIONS_PER_CHANGE
    assert encode(records)


# --- deleting topics --------------------------------------------------------------------------


def test_a_recreated_topic_never_reuses_leader_epochs() -> None:
    image = image_of(1)
    create(image, "orders")
    first = image.partitions(topic_id(1))[0]
    assert first.leader_epoch == 0

    delete(image, topic_id(1))
    create(image, "orders", 2)

    assert image.partitions(topic_id(1)) == ()
    assert image.partitions(topic_id(2))[0].leader_epoch == 1


def test_a_new_name_starts_at_leader_epoch_0_after_other_topics_were_deleted() -> None:
    image = image_of(1)
    create(image, "old")
    delete(image, topic_id(1))

    create(image, "new", 2)

    assert image.partitions(topic_id(2))[0].leader_epoch == 0


def test_a_name_that_is_deleted_repeatedly_starts_at_higher_epochs() -> None:
    image = image_of(1)
    for number in range(1, 5):
        create(image, "orders", number)
        assert image.partitions(topic_id(number))[0].leader_epoch == number - 1
        delete(image, topic_id(number))

    assert image.deleted_names == {"orders": 4}


def test_too_many_deleted_names_raise_the_floor_of_every_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.metadata.controller.pending_topics.DELETED_NAMES_MAX", 2)
    image = image_of(1)
    for number in (1, 2, 3):
        create(image, "often", number)
        delete(image, topic_id(number))
    create(image, "once", 4)
    delete(image, topic_id(4))
    assert (image.epoch_floor, image.deleted_names) == (0, {"often": 3, "once": 1})

    create(image, "one-too-many", 5)
    delete(image, topic_id(5))

    assert (image.epoch_floor, image.deleted_names) == (1, {"often": 3})
    assert [image.first_epoch(name) for name in ("often", "once", "one-too-many", "new")] == [
        3,
        1,
        1,
        1,
    ]


def test_a_remembered_name_is_counted_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.metadata.controller.pending_topics.DELETED_NAMES_MAX", 2)
    image = image_of(1)
    for number, name in enumerate(("a", "b", "a", "b"), start=1):
        create(image, name, number)
        delete(image, topic_id(number))

    assert (image.epoch_floor, image.deleted_names) == (0, {"a": 2, "b": 2})


def test_a_forgotten_name_never_starts_below_its_old_epochs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For any order of deletions, compared with a model that remembers every name."""
    monkeypatch.setattr("ottla.metadata.controller.pending_topics.DELETED_NAMES_MAX", 3)
    image = image_of(1)
    ends: dict[str, int] = {}
    random = Random(7)
    for number in range(1, 200):
        name = random.choice("abcdefgh")
        create(image, name, number)
        begin = image.partitions(topic_id(number))[0].leader_epoch
        assert begin >= ends.get(name, 0)
        for _ in range(random.randrange(3)):
            move_leader(image, number)
        ends[name] = image.partitions(topic_id(number))[0].leader_epoch + 1
        delete(image, topic_id(number))
        assert len(image.deleted_names) <= 3
        folded = Image.of(Loaded(image.snapshot(), ()))
        assert folded == image


def test_the_names_of_deleted_topics_are_remembered_within_a_limit() -> None:
    image = image_of(1)
    for number in range(DELETED_NAMES_MAX):
        image.apply(DeletedName(f"gone-{number}", 1 + number))
    create(image, "orders")

    delete(image, topic_id(1))

    assert len(image.deleted_names) == DELETED_NAMES_MAX - 1
    assert image.epoch_floor == 1


def test_a_topic_with_epochs_below_the_floor_is_deleted_without_epoch_records() -> None:
    image = image_of(1)
    create(image, "old")
    apply(image, [EpochFloor(1)])

    records, deleted = delete_topic(PendingTopics(image), topic_id(1))

    assert deleted.name == "old"
    assert records == [TopicDeleted(topic_id(1), "old")]


def test_the_configs_of_a_deleted_topic_are_removed() -> None:
    image = image_of(1)
    create(image, "orders", configs=[("retention.ms", "1")])
    delete(image, topic_id(1))
    create(image, "orders", 2)

    assert image.configs(ResourceKind.TOPIC, "orders") == {}


def test_a_missing_topic_cannot_be_deleted() -> None:
    with pytest.raises(PeerError) as refused:
        delete_topic(PendingTopics(image_of(1)), topic_id(1))

    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_ID


# --- more partitions --------------------------------------------------------------------------


def test_new_partitions_have_the_replication_factor_and_configs_of_their_topic() -> None:
    image = image_of(1, 2)
    create(image, "orders", partitions=1, replication_factor=2)
    apply(image, [Config(ResourceKind.TOPIC, "orders", "min.insync.replicas", "2")])

    grow(image, "orders", 3)

    added = image.partitions(topic_id(1))[1:]
    assert [each.index for each in added] == [1, 2]
    assert [len(each.isr) for each in added] == [2, 2]
    assert [each.min_isr for each in added] == [2, 2]


def test_new_partitions_start_at_the_first_epoch_of_their_topics_name() -> None:
    image = image_of(1)
    create(image, "orders", partitions=2)
    delete(image, topic_id(1))
    create(image, "orders", 2, partitions=1)
    create(image, "other", 3)

    grow(image, "orders", 2)
    grow(image, "other", 2)

    assert [each.leader_epoch for each in image.partitions(topic_id(2))] == [1, 1]
    assert [each.leader_epoch for each in image.partitions(topic_id(3))] == [0, 0]


def test_new_partitions_start_at_the_epoch_floor() -> None:
    image = image_of(1)
    create(image, "orders")
    apply(image, [EpochFloor(1)])

    grow(image, "orders", 2)

    assert [each.leader_epoch for each in image.partitions(topic_id(1))] == [0, 1]


def test_new_partitions_can_be_assigned_by_hand() -> None:
    image = image_of(1, 2)
    create(image, "orders", assignments={0: (1,)})

    grow(image, "orders", 3, [(2,), (1,)])

    assert [each.replicas for each in image.partitions(topic_id(1))] == [(1,), (2,), (1,)]


@pytest.mark.parametrize(
    ("name", "count", "assignments", "code"),
    [
        ("missing", 2, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 2, None, ErrorCode.INVALID_PARTITIONS),
        ("orders", 1, None, ErrorCode.INVALID_PARTITIONS),
        ("orders", -1, None, ErrorCode.INVALID_PARTITIONS),
        ("orders", MAX_PARTITIONS_PER_CHANGE + 3, None, ErrorCode.POLICY_VIOLATION),
        ("orders", 3, [(9,)], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 3, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 3, [(1,), (1,)], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 3, [(1, 2)], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_partitions_that_cannot_be_added_are_refused_with_their_code(
    name: str, count: int, assignments: list[tuple[int, ...]] | None, code: ErrorCode
) -> None:
    image = image_of(1, 2)
    create(image, "orders", partitions=2, replication_factor=1)

    assert growth_refusal(image, name, count, assignments) is code


def test_a_decrease_and_no_change_have_different_messages() -> None:
    image = image_of(1)
    create(image, "orders", partitions=2)
    messages = []
    for count in (1, 2):
        with pytest.raises(PeerError) as refused:
            create_partitions(PendingTopics(image), "orders", count, None, SETTINGS, 0)
        messages.append(str(refused.value))

    assert messages[0] != messages[1]


def test_a_topic_cannot_grow_while_too_few_brokers_are_up_for_its_replicas() -> None:
    image = image_of(1, 2)
    create(image, "orders", partitions=1, replication_factor=2)
    image.apply(broker(2, 6, rack=None, state=BrokerState.GONE))

    assert growth_refusal(image, "orders", 2) is ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_topic_grows_with_the_replication_factor_that_its_reassignment_aims_at() -> None:
    image = image_of(1, 2, 3)
    create(image, "orders", assignments={0: (1, 2)})
    (before,) = image.partitions(topic_id(1))
    image.apply(started(image, before, (3,), may_change_factor=True))

    grow(image, "orders", 2)

    assert [len(each.replicas) for each in image.partitions(topic_id(1))] == [3, 1]
