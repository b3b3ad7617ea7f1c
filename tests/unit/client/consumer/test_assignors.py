"""The range assignor: fair to within one partition per topic, and in order."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.consumer.assignors import assign_range
from ottla.protocol.topic_partition import TopicPartition

members = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3),
    st.lists(st.sampled_from("xyz"), max_size=4),
    max_size=6,
)
counts = st.dictionaries(st.sampled_from("xyz"), st.integers(0, 9))


def numbers(assigned: list[TopicPartition], topic: str) -> list[int]:
    return [each.partition for each in assigned if each.topic == topic]


def test_seven_partitions_of_three_members() -> None:
    assigned = assign_range({"b": ["t"], "a": ["t"], "c": ["t"]}, {"t": 7})
    assert {member: numbers(own, "t") for member, own in assigned.items()} == {
        "a": [0, 1, 2],
        "b": [3, 4],
        "c": [5, 6],
    }


def test_more_members_than_partitions() -> None:
    assigned = assign_range({"a": ["t"], "b": ["t"], "c": ["other"]}, {"t": 1})
    assert assigned == {"a": [TopicPartition("t", 0)], "b": [], "c": []}


@given(members, counts)
@settings(derandomize=True, deadline=None)
def test_each_partition_is_assigned_to_one_subscriber(
    subscriptions: dict[str, list[str]], partition_counts: dict[str, int]
) -> None:
    assigned = assign_range(subscriptions, partition_counts)
    assert assigned.keys() == subscriptions.keys()
    for topic, count in partition_counts.items():
        owners = {member: numbers(own, topic) for member, own in assigned.items()}
        wanting = [member for member, topics in subscriptions.items() if topic in topics]
        assert sorted(number for own in owners.values() for number in own) == (
            list(range(count)) if wanting else []
        )
        shares = [len(owners[member]) for member in wanting]
        assert not shares or max(shares) - min(shares) <= 1
        assert all(not own for member, own in owners.items() if member not in wanting)
