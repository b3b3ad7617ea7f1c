"""Groups whose target does not fit one batch: only the member that caused it is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinators.group.consumer.heartbeat_request import SUBSCRIPTION_CHARACTERS_MAX
from ottla.coordinators.group.consumer.rules import ConsumerRules
from ottla.coordinators.group.consumer.subscriptions import REGEX_REFRESH_MS
from ottla.coordinators.group.consumer.target_size import target_bytes_at_most
from ottla.coordinators.group.records import (
    CurrentAssignmentSaved,
    TargetAssignmentSaved,
    decode,
)
from ottla.errors import ErrorCode, PeerError
from tests.support.coordinators.consumer_clients import Client, Coordinator, FakeTopics, Log

ROOM_FOR_TWO = ConsumerRules(assignment_interval_ms=0, target_bytes_max=700)


def joined(group: Coordinator, member_id: str, *topics: str) -> Client:
    client = Client(group, member_id, topics)
    client.beat()
    client.reconcile()
    return client


def refused(client: Client) -> PeerError:
    with pytest.raises(PeerError) as caught:
        client.beat()
    return caught.value


def settled(*clients: Client) -> None:
    for _ in range(4):
        for client in clients:
            client.beat()
            client.reconcile()


def test_a_member_that_makes_the_target_too_large_is_refused_and_the_others_continue() -> None:
    group = Coordinator(FakeTopics(logs=4, more=40), ROOM_FOR_TWO)
    first, second = joined(group, "a", "logs"), joined(group, "b", "logs")
    before = len(group.log)
    error = refused(Client(group, "c", ("logs", "more")))
    assert error.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert "at most 700" in str(error)
    assert len(group.log) == before
    settled(first, second)
    assert group.group.state_name == "Stable"
    assert len(first.owned) == len(second.owned) == 2


def test_a_member_that_makes_the_target_too_large_is_not_added() -> None:
    group = Coordinator(FakeTopics(logs=40), ROOM_FOR_TWO)
    with pytest.raises(PeerError) as caught:
        group.add_member(Client(group, "a", ("logs",)).request())
    assert caught.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.group.is_empty


def test_a_too_large_subscription_is_refused_and_the_member_keeps_its_assignment() -> None:
    group = Coordinator(FakeTopics(logs=4, more=40), ROOM_FOR_TWO)
    first = joined(group, "a", "logs")
    first.subscribe("logs", "more")
    assert refused(first).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    first.subscribe("logs")
    settled(first)
    assert (group.group.state_name, len(first.owned)) == ("Stable", 4)


def test_if_topics_grow_too_large_all_members_keep_their_assignments() -> None:
    group = Coordinator(FakeTopics(logs=4), ROOM_FOR_TWO)
    first, second = joined(group, "a", "logs"), joined(group, "b", "logs")
    settled(first, second)
    group.topics.grow("logs", 40)
    settled(first, second)
    assert group.group.state_name == "Assigning"
    assert len(first.owned) == len(second.owned) == 2
    # Joins are refused. The partitions of a member that leaves are assigned once the target fits.
    assert refused(Client(group, "c", ("logs",))).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    group.topics.grow("logs", 6)
    settled(first, second)
    assert group.group.state_name == "Stable"
    assert len(first.owned) == len(second.owned) == 3


def test_a_pattern_that_matches_new_topics_beyond_the_limit_is_not_refused() -> None:
    group = Coordinator(FakeTopics(logs=4), ROOM_FOR_TWO)
    first, second = Client(group, "a", (), regex="l.*"), joined(group, "b", "logs")
    settled(first, second)
    group.topics.create("large", 40)
    group.pass_time(REGEX_REFRESH_MS)
    settled(second, first)
    assert group.group.state_name == "Assigning"
    assert len(first.owned) == len(second.owned) == 2


def test_a_pattern_that_matches_too_many_topics_is_refused_or_stays_as_it_was() -> None:
    group = Coordinator(FakeTopics(logs=1))
    client = Client(group, "a", (), regex="l.*")
    settled(client)
    for number in range(SUBSCRIPTION_CHARACTERS_MAX // 10_000 + 1):
        group.topics.create(f"l{number}".ljust(10_000, "l"), 1)
    group.pass_time(REGEX_REFRESH_MS)
    settled(client)
    assert len(client.owned) == 1
    assert refused(Client(group, "b", (), regex=".*")).code is ErrorCode.INVALID_REQUEST


@settings(derandomize=True, deadline=None, max_examples=50)
@given(
    counts=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    members=st.integers(1, 6),
    name=st.text(min_size=1, max_size=8),
)
def test_no_target_and_no_step_exceeds_the_computed_bound(
    counts: list[int], members: int, name: str
) -> None:
    topics = FakeTopics(**{f"t{number}": count for number, count in enumerate(counts)})
    group = Coordinator(topics, ConsumerRules(assignment_interval_ms=0))
    clients: list[Client] = []
    for number in range(members):
        clients.append(Client(group, f"{name}{number}", tuple(topics.names)))
        for client in clients * 4:
            written = len(group.log)
            client.beat()
            client.reconcile()
            saved = group.group.saved
            told = target_bytes_at_most(saved.group_id, saved.subscriptions, topics)
            assert _assigned_bytes(group.log[written:]) <= told


def _assigned_bytes(log: Log) -> int:
    """The bytes of the target and current assignments."""
    kinds = TargetAssignmentSaved | CurrentAssignmentSaved
    return sum(
        len(key) + len(value or b"") for key, value in log if isinstance(decode(key, value), kinds)
    )
