"""All groups of a shard: what is routed to which, and what becomes of them."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.group import GroupType
from ottla.coordinators.group.machine import (
    EXAMINED_AT_ONCE,
    EXPIRY_TIMER,
    FORGOTTEN_AT_ONCE,
    CommitWish,
    GroupMachine,
    GroupRules,
)
from ottla.coordinators.group.offsets import Commit, CommitCheck, anything
from ottla.coordinators.group.records import (
    ClassicGroupForgotten,
    ClassicGroupSaved,
    ConsumerGroupForgotten,
    ConsumerGroupSaved,
    ConsumerMemberForgotten,
    OffsetCommitted,
    Record,
    TargetEpochSaved,
)
from ottla.coordinators.runtime.decision import NOTHING, TimerSet
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.primitives import ZERO_UUID

NOW_MS = 1_000_000
RULES = GroupRules(
    offset_metadata_bytes_max=4096,
    commit_bytes_max=1 << 20,
    offsets_retention_ms=1_000,
    retention_check_interval_ms=100,
    groups_max=3,
)


class FakeGroup:
    """A group that does what the test says."""

    def __init__(self, group_id: str, group_type: GroupType) -> None:
        self.group_id = group_id
        self.group_type = group_type
        self.protocol_type = "consumer"
        self.state_name = "Stable"
        self.is_empty = False
        self.reads: set[str] = set()
        self.expiry_starts_ms: int | None = None
        self.refuses: ErrorCode | None = None
        self.replayed: list[Record] = []
        self.timers: set[str] = set()
        self.due: list[str] = []

    def _check(self, *_: object) -> None:
        if self.refuses is not None:
            raise PeerError(self.refuses, "as the test says")

    def check_commit(self, *asked: object) -> CommitCheck:
        self._check(*asked)
        return anything

    check_fetch = check_offset_delete = check_delete = _check

    def committed(self, member_id: str, now_ms: int) -> tuple[TimerSet, ...]:
        return (TimerSet(f"session/{self.group_id}/{member_id}", now_ms + 1),)

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.reads

    def offset_expiry_starts_ms(self, commit_ms: int) -> int | None:
        return self.expiry_starts_ms

    def forgotten(self) -> tuple[Record, ...]:
        kind = {
            GroupType.CLASSIC: ClassicGroupForgotten,
            GroupType.CONSUMER: ConsumerGroupForgotten,
        }[self.group_type]
        return (kind(self.group_id),)

    def replay(self, record: Record) -> None:
        self.replayed.append(record)

    def loaded(self, now_ms: int) -> Decision:
        return Decision(timers=(TimerSet(f"session/{self.group_id}/m", now_ms + 7),))

    def expired(self, timer_key: str, now_ms: int) -> Decision:
        if timer_key not in self.timers:
            return NOTHING
        self.due.append(timer_key)
        return Decision(timers=(TimerSet("done", now_ms),))


class Stage(GroupMachine):
    """A state whose groups are fakes."""

    def __init__(self, rules: GroupRules = RULES) -> None:
        super().__init__(
            rules,
            lambda group_id: FakeGroup(group_id, GroupType.CLASSIC),
            lambda group_id: FakeGroup(group_id, GroupType.CONSUMER),
        )

    def group(self, group_id: str, group_type: GroupType = GroupType.CLASSIC) -> Any:
        return self.created(group_id, group_type)

    def take(self, decision: Decision) -> Decision:
        for record in decision.records:
            self.replay(record)
        return decision

    def commits(
        self, group_id: str, *topics: str, now_ms: int = NOW_MS, partitions: int = 1
    ) -> None:
        commits = [
            Commit(topic, ZERO_UUID, partition, 5, -1, None)
            for topic in topics
            for partition in range(partitions)
        ]
        wish = CommitWish(group_id, "", None, -1, 9, -1, commits)
        for record in self.commit(wish, now_ms).records:
            self.replay(record)


def refusal(ask: Callable[[], object]) -> ErrorCode:
    with pytest.raises(PeerError) as caught:
        ask()
    return caught.value.code


def test_a_members_commit_renews_its_session() -> None:
    state = Stage()
    state.group("g")
    wish = CommitWish("g", "m", None, 1, 9, -1, [Commit("t", ZERO_UUID, 0, 5, -1, None)])
    committing = state.commit(wish, NOW_MS)
    assert committing.timers == (TimerSet("session/g/m", NOW_MS + 1),)
    assert committing.codes == [ErrorCode.NONE]


def test_a_group_that_refuses_commits_nothing() -> None:
    state = Stage()
    state.group("g").refuses = ErrorCode.ILLEGAL_GENERATION
    assert refusal(lambda: state.commits("g", "t")) == ErrorCode.ILLEGAL_GENERATION
    assert refusal(lambda: state.check_fetch("g", "m", 1)) == ErrorCode.ILLEGAL_GENERATION
    assert "g" not in state.offsets


def test_records_go_to_the_group_that_they_are_of() -> None:
    state = Stage()
    saved = ClassicGroupSaved("a", "consumer", 1, "range", "m", 5, ())
    for record in (
        saved,
        ConsumerGroupSaved("b", 3),
        TargetEpochSaved("b", 3),
        ConsumerMemberForgotten("b", "m"),
        ConsumerMemberForgotten("nobody", "m"),
        OffsetCommitted("c", "t", 0, 5),
    ):
        state.replay(record)
    listed = {(each.group_id, each.group_type) for each in state.listed()}
    assert listed == {
        ("a", GroupType.CLASSIC),
        ("b", GroupType.CONSUMER),
        ("c", GroupType.CLASSIC),
    }
    assert state.group("a").replayed == [saved]
    assert len(state.group("b").replayed) == 3


def test_an_empty_group_may_change_its_protocol() -> None:
    state = Stage()
    state.replay(ClassicGroupSaved("g", "consumer", 1, None, None, 5, ()))
    state.replay(ConsumerGroupSaved("g", 1))
    assert state.group("g").group_type is GroupType.CONSUMER
    # The tombstone of the one that it was says nothing about the one that it is.
    state.replay(ClassicGroupForgotten("g"))
    assert "g" in state
    state.replay(ConsumerGroupForgotten("g"))
    assert "g" not in state


def test_after_a_load_all_sessions_begin_and_expiry_is_due() -> None:
    state = Stage()
    state.group("a")
    state.group("b")
    assert {timer for decision in state.loaded(NOW_MS) for timer in decision.timers} == {
        TimerSet("session/a/m", NOW_MS + 7),
        TimerSet("session/b/m", NOW_MS + 7),
        TimerSet(EXPIRY_TIMER, NOW_MS + 100),
    }


@pytest.mark.parametrize("owner", ["a", "a/b", "a/b/c"])
def test_timers_find_their_group_whatever_slashes_are_in_its_name(owner: str) -> None:
    state = Stage()
    for group_id in ("a", "a/b", "a/b/c"):
        state.group(group_id)
    state.group(owner).timers.add("session/a/b/c")
    assert state.expired("session/a/b/c", NOW_MS) != NOTHING
    assert state.group(owner).due == ["session/a/b/c"]


def test_the_timer_of_a_group_that_is_gone_does_nothing() -> None:
    assert Stage().expired("session/gone/m", NOW_MS) == NOTHING


def test_there_is_room_for_so_many() -> None:
    state = Stage()
    state.group("a")
    state.commits("b", "t")
    state.commits("c", "t")
    assert refusal(lambda: state.group("d")) == ErrorCode.POLICY_VIOLATION
    assert refusal(lambda: state.commits("d", "t")) == ErrorCode.POLICY_VIOLATION
    # One that is known by its offsets may be joined.
    state.group("b")


def test_a_group_with_members_keeps_its_offsets_whatever_their_age() -> None:
    state = Stage()
    state.group("g")
    state.commits("g", "t")
    state.take(state.expired(EXPIRY_TIMER, NOW_MS * 2))
    assert "g" in state.offsets


def test_of_an_empty_group_the_offsets_go_and_then_the_group() -> None:
    state = Stage()
    group = state.group("g")
    group.is_empty, group.expiry_starts_ms = True, NOW_MS + 500
    state.commits("g", "t", "u")
    state.take(state.expired(EXPIRY_TIMER, NOW_MS + 1_499))
    assert "g" in state.offsets
    decision = state.take(state.expired(EXPIRY_TIMER, NOW_MS + 1_500))
    assert len(decision.records) == 3
    assert "g" not in state


def test_a_group_whose_last_offset_was_deleted_is_listed_until_offsets_are_looked_through() -> None:
    state = Stage()
    state.commits("g", "t")
    state.take(state.delete_offsets("g", [("t", 0)], "ticket"))
    assert list(state.offsets.of("g")) == []
    assert [(each.group_id, each.state_name) for each in state.listed()] == [("g", "Empty")]
    decision = state.take(state.expired(EXPIRY_TIMER, NOW_MS))
    assert decision.records == (ClassicGroupForgotten("g"),)
    assert "g" not in state


def test_a_simple_consumers_group_ends_with_its_last_offset_that_expires() -> None:
    state = Stage()
    state.commits("g", "t", "u")
    decision = state.take(state.expired(EXPIRY_TIMER, NOW_MS + 1_000))
    assert decision.records[-1] == ClassicGroupForgotten("g")
    assert "g" not in state


def test_a_group_that_was_deleted_during_a_round_of_expiry_is_not_ended_again() -> None:
    state = Stage(RULES._replace(groups_max=10_000))
    for number in range(3):
        state.commits(f"g{number}", "t", partitions=EXAMINED_AT_ONCE)
    state.take(state.expired(EXPIRY_TIMER, NOW_MS))
    for number in range(3):
        state.take(state.delete_group(f"g{number}"))
    assert [state.expired(EXPIRY_TIMER, NOW_MS).records for _ in range(3)] == [(), (), ()]


def test_offsets_outlive_the_members_groups_of_their_name() -> None:
    state = Stage()
    state.group("g")
    state.commits("g", "t")
    state.replay(ClassicGroupForgotten("g"))
    assert "g" in state.offsets
    assert "g" not in state.groups


def test_topics_that_are_read_keep_their_offsets_and_the_group() -> None:
    state = Stage()
    group = state.group("g")
    group.expiry_starts_ms, group.reads = NOW_MS, {"t"}
    state.commits("g", "t", "u")
    state.take(state.expired(EXPIRY_TIMER, NOW_MS * 2))
    assert {each.topic for each in state.offsets.of("g")} == {"t"}
    assert "g" in state.groups


def test_expiry_looks_at_some_groups_at_a_time_and_gets_round_to_all() -> None:
    state = Stage(RULES._replace(groups_max=10_000))
    for number in range(3):
        state.commits(f"g{number}", "t", partitions=EXAMINED_AT_ONCE)
    now_ms = NOW_MS * 2
    left = [3]
    while left[-1]:
        decision = state.take(state.expired(EXPIRY_TIMER, now_ms))
        left.append(len(state.offsets))
        due_ms = now_ms if left[-1] else now_ms + RULES.retention_check_interval_ms
        assert decision.timers == (TimerSet(EXPIRY_TIMER, due_ms),)
    assert left == [3, 2, 1, 0]


def test_what_a_group_has_too_much_of_for_one_batch_expires_in_parts() -> None:
    state = Stage()
    state.commits("g", "t", partitions=2 * FORGOTTEN_AT_ONCE + 10)
    sizes = []
    while "g" in state:
        decision = state.take(state.expired(EXPIRY_TIMER, NOW_MS * 2))
        sizes.append(len(decision.records))
    assert sizes == [FORGOTTEN_AT_ONCE, FORGOTTEN_AT_ONCE, 10 + len([ClassicGroupForgotten("g")])]


@pytest.mark.parametrize("left_over", [0, 10])
def test_what_a_group_has_too_much_of_for_one_batch_is_deleted_in_parts(left_over: int) -> None:
    state = Stage()
    state.commits("g", "t", partitions=2 * FORGOTTEN_AT_ONCE + left_over)
    for _ in range(state.deletions("g")):
        assert "g" in state
        decision = state.take(state.delete_group("g"))
        assert len(decision.records) <= FORGOTTEN_AT_ONCE + len([ClassicGroupForgotten("g")])
    assert "g" not in state


def test_a_deleted_topic_is_forgotten_in_parts() -> None:
    state = Stage()
    state.commits("g", "t", "u", partitions=FORGOTTEN_AT_ONCE + 10)
    sizes = []
    while decision := state.take(state.topic_deleted("t", ZERO_UUID)).records:
        sizes.append(len(decision))
    assert sizes == [FORGOTTEN_AT_ONCE, 10]
    assert {each.topic for each in state.offsets.of("g")} == {"u"}


def test_a_group_that_refuses_is_not_deleted() -> None:
    state = Stage()
    state.group("g").refuses = ErrorCode.NON_EMPTY_GROUP
    state.replay(OffsetCommitted("g", "t", 0, 5))
    assert refusal(lambda: state.delete_group("g")) == ErrorCode.NON_EMPTY_GROUP
    assert refusal(lambda: state.delete_offsets("g", [], 1)) == ErrorCode.NON_EMPTY_GROUP
    assert refusal(lambda: state.delete_group("h")) == ErrorCode.GROUP_ID_NOT_FOUND
    state.group("g").refuses = None
    state.take(state.delete_group("g"))
    assert "g" not in state
