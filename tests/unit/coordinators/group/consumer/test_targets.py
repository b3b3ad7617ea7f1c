"""The choice of an assignor, and the target assignment of a group."""

from dataclasses import replace

import pytest

from ottla.coordinators.group.consumer.member import new_member
from ottla.coordinators.group.consumer.subscriptions import Subscriptions
from ottla.coordinators.group.consumer.targets import decide_targets, preferred_assignor
from ottla.coordinators.group.records import ConsumerMemberSaved
from tests.support.coordinators.consumer_clients import FakeTopics

ASSIGNORS = ("uniform", "range")


def members(**assignors: str | None) -> dict[str, ConsumerMemberSaved]:
    return {
        name: replace(new_member("g", name).saved, topics=("logs",), server_assignor=assignor)
        for name, assignor in assignors.items()
    }


@pytest.mark.parametrize(
    ("assignors", "preferred"),
    [
        ({"a": None}, "uniform"),
        ({"a": "range", "b": None}, "range"),
        ({"a": "range", "b": "uniform"}, "uniform"),
        ({"a": "range", "b": "range", "c": "uniform"}, "range"),
        ({"a": "unknown"}, "uniform"),
    ],
)
def test_the_assignor_with_most_votes_is_preferred(
    assignors: dict[str, str | None], preferred: str
) -> None:
    assert preferred_assignor(members(**assignors), ASSIGNORS) == preferred


def test_the_partitions_of_existing_topics_are_assigned_and_kept() -> None:
    topics = FakeTopics(logs=4)
    logs = topics.shape("logs")
    assert logs is not None
    group = Subscriptions(members(a=None, b=None), {})
    before = {"a": {logs.topic_id: (1, 3)}, "b": {}}
    assert decide_targets(group, before, topics, ASSIGNORS) == {
        "a": {logs.topic_id: (1, 3)},
        "b": {logs.topic_id: (0, 2)},
    }
    topics.delete("logs")
    assert decide_targets(group, before, topics, ASSIGNORS) == {"a": {}, "b": {}}
