"""Subscriptions by name and by regular expression."""

from dataclasses import replace

import pytest

from ottla.coordinators.group.consumer.member import new_member
from ottla.coordinators.group.consumer.subscriptions import (
    REGEX_REFRESH_MS,
    RegexCheck,
    Subscriptions,
)
from ottla.coordinators.group.records import ConsumerMemberSaved, RegexResolved
from tests.support.coordinators.consumer_clients import FakeTopics


def member(member_id: str, *topics: str, regex: str = "") -> ConsumerMemberSaved:
    return replace(new_member("g", member_id).saved, topics=topics, regex=regex)


def subscriptions(*members: ConsumerMemberSaved) -> Subscriptions:
    resolved = RegexResolved("g", "l.*", ("logs", "lost"), version=1, resolved_ms=0)
    return Subscriptions({each.member_id: each for each in members}, {"l.*": resolved})


def test_names_are_those_of_the_member_and_of_its_pattern() -> None:
    both = member("a", "audit", regex="l.*")
    found = subscriptions(both, member("b", "audit"))
    assert list(found.names(both)) == ["audit", "logs", "lost"]
    assert found.all_names() == {"audit", "logs", "lost"}


def test_only_existing_topics_have_ids() -> None:
    topics = FakeTopics(logs=3)
    one = member("a", regex="l.*")
    logs = topics.shape("logs")
    assert logs is not None
    assert subscriptions(one).topic_ids(one, topics) == {logs.topic_id}


def test_a_pattern_is_used_unless_only_excepted_members_have_it() -> None:
    found = subscriptions(member("a", regex="l.*"), member("b"))
    assert found.is_used("l.*", besides=["b"])
    assert not found.is_used("l.*", besides=["a"])


@pytest.mark.parametrize(
    ("passed_ms", "is_new_version", "is_due"),
    [
        (REGEX_REFRESH_MS, True, True),
        (REGEX_REFRESH_MS - 1, True, False),
        (REGEX_REFRESH_MS, False, False),
        (-1, True, True),
    ],
)
def test_a_pattern_is_matched_again_for_new_metadata_after_the_interval(
    passed_ms: int, is_new_version: bool, is_due: bool
) -> None:
    topics = FakeTopics(logs=3)
    check = RegexCheck(topics.version - is_new_version, checked_ms=1_000)
    assert check.is_due(topics, 1_000 + passed_ms) is is_due
