"""Assignors assign every partition once, only to subscribers, evenly, and with few moves."""

from collections import Counter
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinators.group.assignors import (
    ASSIGNORS,
    Subscriber,
    assign_range,
    assign_uniform,
)
from ottla.coordinators.group.records import Partitions
from ottla.protocol.primitives import Uuid

TOPICS = [Uuid(number.to_bytes(16)) for number in range(1, 6)]
MEMBERS = [f"m{number}" for number in range(7)]

topic_sets = st.frozensets(st.sampled_from(TOPICS))
partition_counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 9))
members_alike = st.builds(
    lambda names, topics: {name: Subscriber(topics) for name in names},
    st.sets(st.sampled_from(MEMBERS), min_size=1),
    topic_sets,
)
members_unlike = st.dictionaries(st.sampled_from(MEMBERS), topic_sets.map(Subscriber), min_size=1)
steady = settings(derandomize=True, deadline=None, max_examples=150)


def placed(assigned: Mapping[str, Partitions]) -> dict[tuple[Uuid, int], str]:
    """The owner of each partition; fails if a partition has two."""
    rows = [
        ((topic, index), name)
        for name, partitions in assigned.items()
        for topic, indexes in partitions.items()
        for index in indexes
    ]
    assert len(dict(rows)) == len(rows)
    return dict(rows)


def loads(assigned: Mapping[str, Partitions]) -> Counter[str]:
    return Counter({name: sum(map(len, mine.values())) for name, mine in assigned.items()})


def again(
    members: Mapping[str, Subscriber], assigned: Mapping[str, Partitions]
) -> dict[str, Subscriber]:
    return {
        name: member._replace(before=assigned.get(name, {})) for name, member in members.items()
    }


@steady
@given(st.sampled_from(sorted(ASSIGNORS)), members_unlike | members_alike, partition_counts)
def test_each_partition_of_a_subscribed_topic_has_one_owner(
    name: str, members: dict[str, Subscriber], counts: dict[Uuid, int]
) -> None:
    assigned = ASSIGNORS[name](members, counts)
    owners = placed(assigned)
    assert assigned.keys() == members.keys()
    assert all(topic in members[owner].topics for (topic, _), owner in owners.items())
    wanted = {topic for member in members.values() for topic in member.topics}
    assert owners.keys() == {
        (topic, index) for topic in wanted for index in range(counts.get(topic, 0))
    }


@steady
@given(members_alike, partition_counts)
def test_uniform_balances_equal_subscriptions_to_within_one_partition(
    members: dict[str, Subscriber], counts: dict[Uuid, int]
) -> None:
    sizes = loads(assign_uniform(members, counts)).values()
    assert max(sizes) - min(sizes) <= 1


@steady
@given(members_unlike, partition_counts)
def test_uniform_leaves_no_move_that_would_improve_the_balance(
    members: dict[str, Subscriber], counts: dict[Uuid, int]
) -> None:
    assigned = assign_uniform(members, counts)
    size = loads(assigned)
    for (topic, _), owner in placed(assigned).items():
        others = [name for name, member in members.items() if topic in member.topics]
        assert all(size[owner] - size[name] <= 1 for name in others)


@steady
@given(members_unlike | members_alike, partition_counts)
def test_uniform_moves_nothing_when_nothing_changed(
    members: dict[str, Subscriber], counts: dict[Uuid, int]
) -> None:
    assigned = assign_uniform(members, counts)
    assert assign_uniform(again(members, assigned), counts) == assigned


@steady
@given(members_alike, members_alike, partition_counts)
def test_uniform_moves_as_few_partitions_as_the_balance_needs(
    old: dict[str, Subscriber], new: dict[str, Subscriber], counts: dict[Uuid, int]
) -> None:
    (topics,) = {member.topics for member in new.values()}
    before = assign_uniform({name: Subscriber(topics) for name in old}, counts)
    assigned = assign_uniform(again(new, before), counts)
    total = sum(counts.get(topic, 0) for topic in topics)
    least, over = divmod(total, len(new))
    held = sorted((loads(before)[name] for name in new), reverse=True)
    kept_at_most = sum(min(each, least + (place < over)) for place, each in enumerate(held))
    was, now = placed(before), placed(assigned)
    assert sum(was.get(each) == owner for each, owner in now.items()) == kept_at_most


@steady
@given(members_unlike, partition_counts)
def test_range_assigns_ranges_as_in_the_kafka_paper(
    members: dict[str, Subscriber], counts: dict[Uuid, int]
) -> None:
    assigned = assign_range(members, counts)
    for topic, count in counts.items():
        names = sorted(name for name, member in members.items() if topic in member.topics)
        indexes = [index for name in names for index in assigned[name].get(topic, ())]
        sizes = [len(assigned[name].get(topic, ())) for name in names]
        assert indexes == list(range(count if names else 0))
        assert sizes == sorted(sizes, reverse=True)
        assert not sizes or sizes[0] - sizes[-1] <= 1


def test_range_co_partitions_topics_of_equal_size() -> None:
    both = frozenset(TOPICS[:2])
    members = {name: Subscriber(both) for name in ("a", "b", "c")}
    assigned = assign_range(members, dict.fromkeys(both, 7))
    assert all(mine[TOPICS[0]] == mine[TOPICS[1]] for mine in assigned.values())


def test_range_orders_static_members_by_instance_id() -> None:
    topics = frozenset(TOPICS[:1])
    first = assign_range(
        {"z": Subscriber(topics, {}, "i1"), "b": Subscriber(topics)}, {TOPICS[0]: 3}
    )
    later = assign_range(
        {"c": Subscriber(topics, {}, "i1"), "b": Subscriber(topics)}, {TOPICS[0]: 3}
    )
    assert first["z"] == later["c"] == {TOPICS[0]: (0, 1)}


def test_a_thousand_members_with_different_topics_are_balanced() -> None:
    topics = [Uuid(number.to_bytes(16)) for number in range(1, 41)]
    members = {
        f"m{number:04}": Subscriber(frozenset(topics[number % 7 :])) for number in range(1000)
    }
    assigned = assign_uniform(members, dict.fromkeys(topics, 100))
    assert len(placed(assigned)) == 4000
    assert set(loads(assigned).values()) == {4}
