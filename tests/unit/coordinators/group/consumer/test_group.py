"""One consumer group and its members."""

from collections.abc import Callable
from functools import partial

import pytest

from ottla.coordinators.group.consumer.description import describe
from ottla.coordinators.group.consumer.heartbeat_request import SpecialEpoch
from ottla.coordinators.group.consumer.reconciliation import MemberState
from ottla.coordinators.group.consumer.rules import ConsumerRules
from ottla.coordinators.group.consumer.subscriptions import REGEX_REFRESH_MS
from ottla.coordinators.group.offsets import PartitionCommit
from ottla.coordinators.group.records import (
    ConsumerGroupSaved,
    ConsumerMemberSaved,
    CurrentAssignmentSaved,
    TargetAssignmentSaved,
    TargetEpochSaved,
    decode,
    encode,
)
from ottla.errors import ErrorCode, PeerError
from tests.support.coordinators.consumer_clients import (
    GROUP,
    REBALANCE_TIMEOUT_MS,
    Client,
    Coordinator,
    FakeTopics,
    topic_id,
)

AT_ONCE = ConsumerRules(assignment_interval_ms=0)
SESSION_MS = AT_ONCE.session_timeout_ms


def coordinator(rules: ConsumerRules = AT_ONCE, **counts: int) -> Coordinator:
    return Coordinator(FakeTopics(**(counts or {"logs": 4})), rules)


def joined(group: Coordinator, member_id: str, *topics: str, **more: str) -> Client:
    client = Client(group, member_id, topics or ("logs",), **more)
    client.beat()
    client.reconcile()
    return client


def settle(*clients: Client) -> None:
    for _ in range(4):
        for client in clients:
            client.beat()
            client.reconcile()


def indexes(client: Client) -> list[int]:
    return sorted(index for _, index in client.owned)


def refusal(send: Callable[[], object]) -> ErrorCode:
    with pytest.raises(PeerError) as refused:
        send()
    return refused.value.code


# Joining


def test_the_first_member_gets_everything_at_epoch_2_and_is_saved_in_kafkas_order() -> None:
    group = coordinator()
    client = joined(group, "a")
    assert (client.epoch, indexes(client)) == (2, [0, 1, 2, 3])
    saved = [type(decode(key, value)) for key, value in group.log]
    assert saved == [
        ConsumerMemberSaved,
        ConsumerGroupSaved,
        TargetAssignmentSaved,
        TargetEpochSaved,
        CurrentAssignmentSaved,
    ]


def test_a_member_without_topics_joins_without_a_new_epoch() -> None:
    group = coordinator()
    client = Client(group, "a", ())
    response = client.beat()
    assert response is not None
    assert response.assignment is not None
    assert (response.member_epoch, response.assignment.topic_partitions) == (1, ())


def test_a_heartbeat_without_changes_writes_nothing_and_has_no_assignment() -> None:
    group = coordinator()
    client = joined(group, "a")
    client.beat()
    written = len(group.log)
    response = client.beat()
    assert response is not None
    assert (response.member_epoch, response.assignment) == (2, None)
    assert response.heartbeat_interval_ms == 5_000
    assert len(group.log) == written


def test_a_full_heartbeat_is_answered_with_the_assignment() -> None:
    client = joined(coordinator(), "a")
    client.must_say_all = True
    response = client.beat()
    assert response is not None
    assert response.assignment is not None


def test_a_member_above_the_maximum_size_is_refused() -> None:
    group = coordinator(AT_ONCE._replace(size_max=1))
    joined(group, "a")
    assert refusal(Client(group, "b", ("logs",)).beat) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert list(group.group.saved.members) == ["a"]


# Reconciliation


def test_a_partition_moves_only_after_its_owner_revoked_it() -> None:
    group = coordinator()
    first, second = joined(group, "a"), joined(group, "b")
    assert (second.epoch, indexes(second)) == (3, [])
    assert group.group.saved.current("b").state == MemberState.UNRELEASED_PARTITIONS
    first.beat()
    assert (first.epoch, first.told) == (2, {(topic_id(1), 0), (topic_id(1), 1)})
    assert group.group.saved.current("a").state == MemberState.UNREVOKED_PARTITIONS
    second.beat()
    assert second.told is None
    first.reconcile()
    first.beat()
    assert first.epoch == 3
    second.beat()
    second.reconcile()
    assert (indexes(first), indexes(second)) == ([0, 1], [2, 3])
    assert group.group.state_name == "Stable"


def test_a_member_that_does_not_revoke_in_time_is_removed_and_its_partitions_are_free() -> None:
    group = coordinator()
    first, second = joined(group, "a"), joined(group, "b")
    first.beat()
    group.pass_time(REBALANCE_TIMEOUT_MS - 1)
    assert "a" in group.group.saved.members
    group.pass_time(1)
    assert "a" not in group.group.saved.members
    second.beat()
    second.reconcile()
    assert indexes(second) == [0, 1, 2, 3]
    assert first.beat() is None  # UNKNOWN_MEMBER_ID: it abandons its partitions and rejoins


def test_the_rebalance_timer_is_cancelled_by_the_revocation() -> None:
    group = coordinator()
    first, second = joined(group, "a"), joined(group, "b")
    settle(first, second)
    for _ in range(4):
        group.pass_time(REBALANCE_TIMEOUT_MS // 2)
        settle(first, second)
    assert sorted(group.group.saved.members) == ["a", "b"]


def test_members_that_join_within_one_interval_share_one_assignment() -> None:
    group = coordinator(ConsumerRules(assignment_interval_ms=1_000))
    first, second = joined(group, "a"), joined(group, "b")
    third = joined(group, "c")
    assert (second.epoch, third.epoch) == (2, 2)
    assert group.group.state_name == "Assigning"
    assert (group.group.saved.epoch, group.group.saved.target_epoch) == (4, 2)
    group.pass_time(1_000)
    settle(first, second, third)
    assert [len(client.owned) for client in (first, second, third)] == [2, 1, 1]
    assert group.group.saved.target_epoch == 4


def test_members_added_before_the_first_answer_share_one_target() -> None:
    group = coordinator()
    clients = [Client(group, name, ("logs",)) for name in ("a", "b", "c", "d")]
    for client in clients:
        client.add_member()
    assert group.group.state_name == "Assigning"
    for client in clients:
        client.beat()
        client.reconcile()
    # Each member has its share at once, and no partition had to be revoked.
    assert [indexes(client) for client in clients] == [[0], [1], [2], [3]]
    assert {client.epoch for client in clients} == {5}
    saved = [decode(key, value) for key, value in group.log]
    assert sum(isinstance(record, TargetEpochSaved) for record in saved) == 1


def test_an_added_member_without_a_heartbeat_is_removed_after_its_session() -> None:
    group = coordinator()
    first = joined(group, "first")
    Client(group, "gone", ("logs",)).add_member()
    first.beat()
    first.reconcile()
    assert len(indexes(first)) == 2
    group.pass_time(SESSION_MS - 1)
    first.beat()
    group.pass_time(1)
    settle(first)
    assert indexes(first) == [0, 1, 2, 3]


def test_adding_a_known_member_changes_nothing() -> None:
    group = coordinator()
    member = joined(group, "m")
    before = len(group.log)
    member.give_up()
    member.add_member()
    assert len(group.log) == before


def test_a_member_above_the_maximum_size_is_not_added() -> None:
    group = coordinator(AT_ONCE._replace(size_max=1))
    joined(group, "first")
    one_more = Client(group, "second", ("logs",))
    assert refusal(one_more.add_member) is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_clock_that_was_set_back_does_not_delay_the_assignment() -> None:
    group = coordinator(ConsumerRules(assignment_interval_ms=1_000))
    joined(group, "a")
    group.now_ms -= 3_600_000
    assert joined(group, "b").epoch == 3


def test_partitions_of_an_unsubscribed_topic_are_revoked_before_the_next_assignment() -> None:
    group = coordinator(ConsumerRules(assignment_interval_ms=1_000), logs=2, orders=2)
    client = joined(group, "a", "logs", "orders")
    client.subscribe("logs")
    client.beat()
    client.reconcile()
    assert client.owned == {(topic_id(1), 0), (topic_id(1), 1)}


# Epochs


def test_an_unknown_epoch_is_fenced() -> None:
    client = joined(coordinator(), "a")
    for epoch in (1, 3, 9):
        client.epoch = epoch
        assert refusal(lambda: client.coordinator.send(client.request())) is (
            ErrorCode.FENCED_MEMBER_EPOCH
        )


def test_the_previous_epoch_is_accepted_if_the_answer_with_the_new_one_was_lost() -> None:
    group = coordinator()
    client = joined(group, "a")
    group.topics.grow("logs", 5)
    client.beat(is_lost=True)
    assert client.epoch == 2
    response = client.beat()
    assert response is not None
    assert response.member_epoch == 3
    client.reconcile()
    assert indexes(client) == [0, 1, 2, 3, 4]


def test_the_previous_epoch_is_fenced_if_the_member_owns_unassigned_partitions() -> None:
    group = coordinator()
    client = joined(group, "a")
    group.topics.grow("logs", 5)
    client.beat(is_lost=True)
    client.owned.add((topic_id(9), 0))
    assert refusal(lambda: group.send(client.request())) is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_may_always_join_again() -> None:
    group = coordinator()
    client = joined(group, "a")
    group.topics.grow("logs", 5)
    settle(client)
    client.give_up()
    client.beat()
    client.reconcile()
    assert (client.epoch, indexes(client)) == (3, [0, 1, 2, 3, 4])


def test_an_unknown_member_is_refused() -> None:
    group = coordinator()
    joined(group, "a")
    stranger = Client(group, "b", ("logs",), epoch=2)
    assert refusal(lambda: group.send(stranger.request())) is ErrorCode.UNKNOWN_MEMBER_ID


# Leaving


def test_a_member_that_leaves_is_removed_and_the_others_get_its_partitions() -> None:
    group = coordinator()
    first, second = joined(group, "a"), joined(group, "b")
    settle(first, second)
    first.leave()
    settle(second)
    assert indexes(second) == [0, 1, 2, 3]
    assert not [key for key in group.timers if key.endswith("/a")]


def test_a_member_is_removed_after_its_session_timeout() -> None:
    group = coordinator()
    joined(group, "a")
    group.pass_time(SESSION_MS - 1)
    assert not group.group.is_empty
    group.pass_time(1)
    assert group.group.is_empty
    assert group.group.state_name == "Empty"
    assert group.group.saved.epoch == 3


def test_after_a_restart_every_session_starts_again() -> None:
    group = coordinator()
    client = joined(group, "a")
    group.pass_time(SESSION_MS - 1)
    group.restart()
    group.pass_time(SESSION_MS - 1)
    client.beat()
    assert client.epoch == 2


def test_after_a_restart_a_member_has_its_whole_rebalance_timeout_again() -> None:
    group = coordinator()
    first, _ = joined(group, "a"), joined(group, "b")
    first.beat()
    group.pass_time(REBALANCE_TIMEOUT_MS - 1)
    group.restart()
    group.pass_time(REBALANCE_TIMEOUT_MS - 1)
    assert "a" in group.group.saved.members
    group.pass_time(1)
    assert "a" not in group.group.saved.members


# Static members


def test_a_static_member_rejoins_with_another_id_and_keeps_its_partitions() -> None:
    group = coordinator()
    first, second = joined(group, "a", instance_id="i"), joined(group, "b")
    settle(first, second)
    before, epoch = indexes(first), group.group.saved.epoch
    first.leave(SpecialEpoch.LEAVE_STATIC)
    settle(second)
    assert group.group.saved.current("a").epoch == SpecialEpoch.LEAVE_STATIC
    back = joined(group, "c", instance_id="i")
    settle(back, second)
    assert indexes(back) == before
    assert group.group.saved.epoch == epoch
    assert sorted(group.group.saved.members) == ["b", "c"]
    group.restart()


def test_a_static_member_that_does_not_rejoin_is_removed_after_its_session() -> None:
    group = coordinator()
    joined(group, "a", instance_id="i").leave(SpecialEpoch.LEAVE_STATIC)
    group.pass_time(SESSION_MS)
    assert group.group.is_empty


def test_an_instance_id_in_use_cannot_be_taken() -> None:
    group = coordinator()
    joined(group, "a", instance_id="i")
    second = Client(group, "b", ("logs",), instance_id="i")
    assert refusal(second.beat) is ErrorCode.UNRELEASED_INSTANCE_ID


def test_the_old_member_id_of_an_instance_is_fenced() -> None:
    group = coordinator()
    first = joined(group, "a", instance_id="i")
    first.leave(SpecialEpoch.LEAVE_STATIC)
    joined(group, "b", instance_id="i")
    for epoch in (2, SpecialEpoch.LEAVE, SpecialEpoch.LEAVE_STATIC):
        first.epoch = epoch
        assert refusal(lambda: group.send(first.request())) is ErrorCode.FENCED_INSTANCE_ID


# Topics that change


@pytest.mark.parametrize(
    "change",
    [
        lambda topics: topics.grow("logs", 6),
        lambda topics: topics.create("orders", 2),
    ],
    ids=["a topic grows", "a topic is made"],
)
def test_a_change_of_subscribed_topics_raises_the_epoch_at_the_next_heartbeat(
    change: Callable[[FakeTopics], None],
) -> None:
    group = coordinator()
    client = joined(group, "a", "logs", "orders")
    change(group.topics)
    settle(client)
    assert client.epoch == 3
    assert len(client.owned) == 6


def test_partitions_of_a_deleted_topic_are_revoked() -> None:
    group = coordinator(logs=2, orders=2)
    client = joined(group, "a", "logs", "orders")
    group.topics.delete("logs")
    settle(client)
    assert client.owned == {(topic_id(2), 0), (topic_id(2), 1)}


def test_an_unsubscribed_topic_changes_nothing() -> None:
    group = coordinator()
    client = joined(group, "a")
    client.beat()
    written = len(group.log)
    group.topics.create("other", 3)
    settle(client)
    assert len(group.log) == written


# Patterns


def test_a_pattern_subscribes_to_all_matching_topics_and_to_new_ones() -> None:
    group = coordinator(orders=1, orders_eu=1, logs=1)
    client = Client(group, "a", (), regex="orders.*")
    settle(client)
    assert client.owned == {(topic_id(1), 0), (topic_id(2), 0)}
    group.topics.create("orders_us", 1)
    settle(client)
    assert len(client.owned) == 2
    group.pass_time(REGEX_REFRESH_MS)
    settle(client)
    assert len(client.owned) == 3


def test_a_pattern_matches_new_topics_although_the_clock_was_set_back() -> None:
    group = coordinator(orders=1)
    client = Client(group, "a", (), regex="orders.*")
    settle(client)
    group.topics.create("orders_us", 1)
    group.now_ms -= 86_400_000
    settle(client)
    assert len(client.owned) == 2


def test_an_invalid_pattern_is_refused_and_leaves_nothing_behind() -> None:
    group = coordinator()
    client = Client(group, "a", (), regex="(")
    assert refusal(client.beat) is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert not group.log


def test_a_pattern_is_removed_with_the_last_member_that_uses_it() -> None:
    group = coordinator()
    clients = [Client(group, name, (), regex="logs.*") for name in ("a", "b")]
    settle(*clients)
    clients[0].subscribe("logs", regex="")
    settle(*clients)
    assert list(group.group.saved.regexes) == ["logs.*"]
    clients[1].leave()
    assert not group.group.saved.regexes


# Assignors


def test_the_assignor_that_most_members_ask_for_is_used() -> None:
    group = coordinator(logs=3, orders=3)
    topics = ("logs", "orders")
    clients = [
        joined(group, "a", *topics, assignor="range"),
        joined(group, "b", *topics, assignor="range"),
        joined(group, "c", *topics, assignor="uniform"),
    ]
    settle(*clients)
    assert describe(group.group, group.topics).assignor_name == "range"
    assert [indexes(client) for client in clients] == [[0, 0], [1, 1], [2, 2]]


# Offsets


def test_only_a_member_with_its_current_epoch_may_commit_and_fetch_offsets() -> None:
    group = coordinator()
    joined(group, "a")
    check = group.group.check_commit
    check("a", None, 2, 9)
    assert refusal(lambda: check("a", None, 3, 9)) is ErrorCode.STALE_MEMBER_EPOCH
    assert refusal(lambda: check("a", None, 2, 8)) is ErrorCode.UNSUPPORTED_VERSION
    assert refusal(lambda: check("b", None, 2, 9)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(lambda: check("", None, -1, 9)) is ErrorCode.UNKNOWN_MEMBER_ID
    fetch = group.group.check_fetch
    fetch(None, -1)
    fetch("a", 2)
    assert refusal(lambda: fetch("a", 1)) is ErrorCode.STALE_MEMBER_EPOCH
    assert refusal(lambda: fetch("b", 2)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_producer_that_names_no_member_may_commit_in_a_transaction() -> None:
    group = coordinator()
    joined(group, "a")
    check = partial(group.group.check_commit, version=3, is_transactional=True)
    check("", None, -1)
    check("a", None, 2)
    assert refusal(lambda: check("a", None, 3)) is ErrorCode.ILLEGAL_GENERATION
    unnamed = check("a", None, -1)
    assert unnamed(PartitionCommit("logs", topic_id(1), 0, 7, -1, None)) != ErrorCode.NONE
    assert refusal(lambda: check("", "i", -1)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(lambda: check("", None, 2)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_any_client_may_commit_offsets_of_an_empty_group() -> None:
    group = coordinator()
    joined(group, "a").leave()
    group.group.check_commit("", None, -1, 2)
    group.group.check_delete()
    assert not group.group.is_subscribed_to("logs")


def test_a_group_with_members_is_not_deleted() -> None:
    group = coordinator()
    joined(group, "a")
    assert refusal(group.group.check_delete) is ErrorCode.NON_EMPTY_GROUP
    assert group.group.is_subscribed_to("logs")


def test_a_deleted_group_gets_tombstones_for_all_its_records() -> None:
    group = coordinator()
    client = Client(group, "a", ("logs",), regex="lo.*")
    settle(client)
    keys = {key for key, value in group.log if value is not None}
    assert {encode(record)[0] for record in group.group.tombstones()} == keys


def test_a_description_shows_owners_and_targets_by_name() -> None:
    group = coordinator()
    first, second = joined(group, "a"), joined(group, "b")
    first.beat()
    shown = describe(group.group, group.topics)
    assert (shown.group_id, shown.group_state) == (GROUP, "Reconciling")
    assert (shown.group_epoch, shown.assignment_epoch) == (3, 3)
    rows = {
        member.member_id: [
            (each.topic_name, each.partitions)
            for part in (member.assignment, member.target_assignment)
            for each in part.topic_partitions
        ]
        for member in shown.members
    }
    assert rows == {"a": [("logs", (0, 1)), ("logs", (0, 1))], "b": [("logs", (2, 3))]}
    assert {member.member_type for member in shown.members} == {1}
    assert second.epoch == 3
