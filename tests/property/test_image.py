"""Any valid history of metadata records: its image, its snapshot, and both as bytes."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.metadata.entry_codec import EntryPacker, decode, encode
from ottla.metadata.image import Image
from ottla.metadata.records import (
    Acl,
    Broker,
    Config,
    ControllerStarted,
    DeletedName,
    EpochFloor,
    Feature,
    Partition,
    ProducerIds,
    Quota,
    Record,
    Topic,
    TopicDeleted,
    User,
)
from ottla.metadata.store import Entry, Loaded, Snapshot
from ottla.metadata.values import (
    AclBinding,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    BrokerState,
    Endpoint,
    Incarnation,
    QuotaEntity,
    QuotaEntityKind,
    ResourceKind,
    ScramCredential,
    ScramMechanism,
    SecurityProtocol,
)
from ottla.protocol.primitives import Uuid

DETERMINISTIC = settings(derandomize=True, deadline=None)

# Few of each, so that histories reuse them.
TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
BROKER_IDS = st.integers(0, 4)
NAMES = st.sampled_from(["a", "b", "a.b", "a_b", "__consumer_offsets"])
STEPS = st.integers(0, 3)
CONTROLLERS = st.none() | st.integers(0, 3)
ENDPOINTS = st.builds(
    Endpoint, TEXT, TEXT, st.integers(1, 65535), st.sampled_from(SecurityProtocol)
)
BINDINGS = st.builds(
    AclBinding,
    st.sampled_from(AclResource),
    NAMES,
    st.sampled_from(AclPattern),
    st.just("User:a"),
    st.just("*"),
    st.sampled_from(AclOperation),
    st.sampled_from(AclPermission),
)
CREDENTIALS = st.builds(ScramCredential, st.binary(), st.binary(), st.binary(), st.integers(1, 9))
ENTITIES = st.lists(
    st.builds(QuotaEntity, st.sampled_from(QuotaEntityKind), st.none() | TEXT),
    min_size=1,
    unique_by=lambda part: part.kind,
).map(lambda parts: tuple(sorted(parts, key=lambda part: part.kind)))
SETTLED = st.one_of(
    st.builds(Acl, BINDINGS, st.booleans()),
    st.builds(User, TEXT, st.sampled_from(ScramMechanism), st.none() | CREDENTIALS),
    st.builds(Quota, ENTITIES, TEXT, st.none() | st.floats(0, 1e12)),
    st.builds(Feature, NAMES, st.integers(0, 2)),
    st.builds(Config, st.just(ResourceKind.BROKER), st.sampled_from(["", "1"]), NAMES, TEXT),
    st.builds(Config, st.just(ResourceKind.GROUP), NAMES, NAMES, st.none() | TEXT),
)
"""Records that can come at any time."""


@st.composite
def incarnations(draw: st.DrawFn, broker_ids: list[int]) -> tuple[Incarnation, ...]:
    return tuple(Incarnation(broker_id, draw(st.integers(0, 9))) for broker_id in broker_ids)


@st.composite
def partition_states(draw: st.DrawFn, topic_id: Uuid, index: int) -> Partition:
    """A consistent partition; its epochs are set later."""
    replicas = draw(st.lists(BROKER_IDS, min_size=1, max_size=4, unique=True))
    shuffled = draw(st.permutations(replicas))
    cuts = sorted(draw(st.lists(st.integers(0, len(replicas)), min_size=3, max_size=3)))
    isr = draw(incarnations(shuffled[: cuts[0]]))
    elr = draw(incarnations(shuffled[cuts[0] : cuts[1]]))
    return Partition(
        topic_id=topic_id,
        index=index,
        replicas=tuple(replicas),
        adding=tuple(shuffled[: draw(st.integers(0, 1))]),
        leader=draw(st.sampled_from((*isr, None))),
        leader_epoch=0,
        isr=isr,
        elr=elr,
        unclean=tuple(shuffled[cuts[1] : cuts[2]]),
        min_isr=draw(st.integers(1, 3)),
        partition_epoch=0,
    )


@st.composite
def partition_changes(draw: st.DrawFn, image: Image) -> Record:
    """The next record of a partition, or its first."""
    topic = image.topic(draw(st.sampled_from(sorted(image.topic_names))))
    assert topic is not None
    known = image.partitions(topic.topic_id)
    index = draw(st.integers(0, len(known)))
    state = draw(partition_states(topic.topic_id, index))
    if index == len(known):
        return replace(state, leader_epoch=image.first_epoch(topic.name) + draw(STEPS))
    before = known[index]
    return replace(
        state,
        partition_epoch=before.partition_epoch + 1,
        leader_epoch=before.leader_epoch + (state.leader != before.leader),
    )


@st.composite
def broker_changes(draw: st.DrawFn, image: Image) -> Record:
    broker_id = draw(BROKER_IDS)
    state = draw(st.sampled_from(BrokerState))
    known = image.brokers.get(broker_id)
    if known and draw(st.booleans()):
        order = list(BrokerState)
        return replace(known, state=max(state, known.state, key=order.index))
    return Broker(
        broker_id=broker_id,
        epoch=(known.epoch if known else 0) + 1 + draw(STEPS),
        inherits=draw(st.none() | st.integers(0, 9)),
        endpoints=tuple(draw(st.lists(ENDPOINTS, max_size=2, unique_by=lambda e: e.listener))),
        rack=draw(st.none() | TEXT),
        host=draw(TEXT),
        state=state,
    )


def deletion(image: Image, name: str, *, by_name: bool) -> list[Record]:
    """The ways to record the deletion of a topic."""
    topic = image.topic(name)
    assert topic is not None
    epochs = [partition.leader_epoch + 1 for partition in image.partitions(topic.topic_id)]
    if by_name:
        retired: Record = DeletedName(name, max([image.first_epoch(name), *epochs]))
    else:
        retired = EpochFloor(max([image.epoch_floor, *epochs]))
    return [retired, TopicDeleted(topic.topic_id, name)]


@st.composite
def next_records(draw: st.DrawFn, image: Image, number: int) -> list[Record]:
    """Records that may follow the records of the image."""
    choices = ["settled", "broker", "grown", "topic"]
    if image.topic_names:
        choices += ["partition", "partition", "partition", "config", "deletion"]
    choice = draw(st.sampled_from(choices))
    name = draw(NAMES)
    by_name = draw(st.booleans())
    if choice == "settled":
        return [draw(SETTLED)]
    if choice == "broker":
        return [draw(broker_changes(image))]
    if choice == "topic":
        gone = deletion(image, name, by_name=by_name) if name in image.topic_names else []
        return [*gone, Topic(name, Uuid((number + 1).to_bytes(16, "big")))]
    if choice == "partition":
        return [draw(partition_changes(image))]
    if choice == "config":
        name = draw(st.sampled_from(sorted(image.topic_names)))
        return [Config(ResourceKind.TOPIC, name, draw(NAMES), draw(st.none() | TEXT))]
    if choice == "deletion":
        name = draw(st.sampled_from(sorted(image.topic_names)))
        return deletion(image, name, by_name=by_name)
    return [
        ControllerStarted(image.controller_epoch + draw(STEPS), draw(CONTROLLERS)),
        ProducerIds(image.next_producer_id + draw(STEPS)),
        EpochFloor(image.epoch_floor + draw(STEPS)),
    ]


@st.composite
def histories(draw: st.DrawFn) -> tuple[Entry, ...]:
    """Entries that a correct controller could have written."""
    image = Image()
    entries = []
    for n in range(draw(st.integers(0, 15))):
        entry = Entry(n, tuple(draw(next_records(image, n))))
        image.replay(entry)
        entries.append(entry)
    return tuple(entries)


def fold(entries: tuple[Entry, ...]) -> Image:
    return Image.of(Loaded(Snapshot(-1, ()), entries))


@DETERMINISTIC
@given(histories())
def test_a_snapshot_gives_an_equal_image(entries: tuple[Entry, ...]) -> None:
    image = fold(entries)
    again = Image.of(Loaded(image.snapshot(), ()))
    assert again == image
    assert again.offset == image.offset == len(entries) - 1
    assert again.snapshot() == image.snapshot()


@DETERMINISTIC
@given(histories(), st.data())
def test_a_snapshot_at_any_entry_replaces_all_before_it(
    entries: tuple[Entry, ...], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(entries)))
    snapshot = fold(entries[:cut]).snapshot()
    assert Image.of(Loaded(snapshot, entries[cut:])) == fold(entries)


@DETERMINISTIC
@given(histories())
def test_entries_and_snapshots_survive_a_round_trip_as_bytes(entries: tuple[Entry, ...]) -> None:
    for entry in entries:
        assert decode(encode(entry.records)) == entry.records
    records = fold(entries).snapshot().records
    packer = EntryPacker()
    for record in records:
        packer.add(record)
    chunks = packer.entries()
    assert tuple(record for chunk in chunks for record in decode(chunk)) == records


@DETERMINISTIC
@given(histories())
def test_a_name_never_gets_a_leader_epoch_of_a_deleted_topic(entries: tuple[Entry, ...]) -> None:
    """The model remembers the highest epoch that any topic of a name ever had."""
    image = Image()
    highest: dict[str, int] = {}
    for entry in entries:
        for record in entry.records:
            topic = image.topic_by_id(record.topic_id) if isinstance(record, Partition) else None
            if isinstance(record, Partition) and topic is not None:
                is_first = record.index == len(image.partitions(topic.topic_id))
                assert not is_first or record.leader_epoch > highest.get(topic.name, -1)
            if isinstance(record, TopicDeleted):
                epochs = [each.leader_epoch for each in image.partitions(record.topic_id)]
                highest[record.name] = max([highest.get(record.name, -1), *epochs])
            image.apply(record)
    assert all(image.first_epoch(name) > epoch for name, epoch in highest.items())


@DETERMINISTIC
@given(histories())
def test_an_image_has_no_configs_or_partitions_without_a_topic(entries: tuple[Entry, ...]) -> None:
    image = fold(entries)
    for key in image.configured:
        assert key.kind is not ResourceKind.TOPIC or key.name in image.topic_names
        assert image.configs(*key)
    alike = [name.replace(".", "_") for name in image.topic_names]
    partitions = 0
    for name in image.topic_names:
        collides = alike.count(name.replace(".", "_")) > 1
        assert (image.colliding_topic(name) is not None) is collides
        topic = image.topic(name)
        assert topic is not None
        assert image.topic_by_id(topic.topic_id) == topic
        indexes = [partition.index for partition in image.partitions(topic.topic_id)]
        assert indexes == list(range(len(indexes)))
        partitions += len(indexes)
    assert image.partition_count == partitions
