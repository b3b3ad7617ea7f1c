"""All groups of a shard: routing, commits, expiry, deletion."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.group import GroupType
from ottla.coordinators.group.machine import (
    EXPIRY_TIMER,
    MAX_EXAMINED_PER_DECISION,
    MAX_TOMBSTONES_PER_DECISION,
    CommitRequest,
    GroupMachine,
    GroupRules,
)
from ottla.coordinators.group.offsets import CommitCheck, PartitionCommit
from ottla.coordinators.group.records import (
    ClassicGroupSaved,
    ClassicGroupTombstone,
    ConsumerGroupSaved,
    ConsumerGroupTombstone,
    ConsumerMemberTombstone,
    OffsetCommitted,
    OffsetTombstone,
    Record,
    TargetEpochSaved,
)
from ottla.coordinators.runtime.decision import NOTHING, TimerSet
from ottla.errors import ErrorCode, PeerError
from ottla.metrics.meters import GroupMeter
from ottla.protocol.batch import MarkerKind
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
    """A group with fixed answers."""

    def __init__(self, group_id: str, group_type: GroupType) -> None:
        self.group_id = group_id
        self.group_type = group_type
        self.protocol_type = "consumer"
        self.state_name = "Stable"
        self.is_empty = False
        self.reads: set[str] = set()
        self.expiry_starts_ms: int | None = None
        self.refuses: ErrorCode | None = None
        self.refuses_partitions: dict[int, ErrorCode] = {}
        self.has_transactional_commits = False
        self.replayed: list[Record] = []
        self.timers: set[str] = set()
        self.due: list[str] = []

    def _check(self, *_: object) -> None:
        if self.refuses is not None:
            raise PeerError(self.refuses, "as the test says")

    def check_commit(self, *asked: object, is_transactional: bool = False) -> CommitCheck:
        self._check(*asked)
        self.has_transactional_commits |= is_transactional
        return lambda commit: self.refuses_partitions.get(commit.partition, ErrorCode.NONE)

    check_fetch = check_offset_delete = check_delete = _check

    def committed(self, member_id: str, now_ms: int) -> tuple[TimerSet, ...]:
        return (TimerSet(f"session/{self.group_id}/{member_id}", now_ms + 1),)

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.reads

    def offset_expiry_starts_ms(self, commit_ms: int) -> int | None:
        return self.expiry_starts_ms

    def tombstones(self) -> tuple[Record, ...]:
        kind = {
            GroupType.CLASSIC: ClassicGroupTombstone,
            GroupType.CONSUMER: ConsumerGroupTombstone,
        }[self.group_type]
        return (kind(self.group_id),)

    def replay(self, record: Record) -> None:
        self.replayed.append(record)

    def loaded(self, now_ms: int) -> Decision:
        return Decision(timers=(TimerSet(f"session/{self.group_id}/m", now_ms + 7),))

    def timer_expired(self, timer_key: str, now_ms: int) -> Decision:
        if timer_key not in self.timers:
            return NOTHING
        self.due.append(timer_key)
        return Decision(timers=(TimerSet("done", now_ms),))


class Stage(GroupMachine):
    """A group machine with fake groups."""

    def __init__(self, rules: GroupRules = RULES) -> None:
        self.meter = GroupMeter()
        super().__init__(
            rules,
            lambda group_id: FakeGroup(group_id, GroupType.CLASSIC),
            lambda group_id: FakeGroup(group_id, GroupType.CONSUMER),
            self.meter,
        )

    def group(self, group_id: str, group_type: GroupType = GroupType.CLASSIC) -> Any:
        return self.get_or_create(group_id, group_type)

    def take(self, decision: Decision) -> Decision:
        for record in decision.records:
            self.replay(record)
        return decision

    def commits(
        self, group_id: str, *topics: str, now_ms: int = NOW_MS, partitions: int = 1
    ) -> None:
        commits = [
            PartitionCommit(topic, ZERO_UUID, partition, 5, -1, None)
            for topic in topics
            for partition in range(partitions)
        ]
        request = CommitRequest(group_id, "", None, -1, 9, -1, commits)
        for record in self.commit(request, now_ms).records:
            self.replay(record)


def refusal(ask: Callable[[], object]) -> ErrorCode:
    with pytest.raises(PeerError) as caught:
        ask()
    return caught.value.code


def test_a_members_commit_renews_its_session() -> None:
    state = Stage()
    state.group("g")
    request = CommitRequest(
        "g", "m", None, 1, 9, -1, [PartitionCommit("t", ZERO_UUID, 0, 5, -1, None)]
    )
    committing = state.commit(request, NOW_MS)
    assert committing.timers == (TimerSet("session/g/m", NOW_MS + 1),)
    assert committing.codes == [ErrorCode.NONE]


def test_a_group_that_refuses_commits_nothing() -> None:
    state = Stage()
    state.group("g").refuses = ErrorCode.ILLEGAL_GENERATION
    assert refusal(lambda: state.commits("g", "t")) == ErrorCode.ILLEGAL_GENERATION
    assert refusal(lambda: state.check_fetch("g", "m", 1)) == ErrorCode.ILLEGAL_GENERATION
    assert "g" not in state.offsets


def test_records_are_replayed_by_their_group() -> None:
    state = Stage()
    saved = ClassicGroupSaved("a", "consumer", 1, "range", "m", 5, ())
    for record in (
        saved,
        ConsumerGroupSaved("b", 3),
        TargetEpochSaved("b", 3),
        ConsumerMemberTombstone("b", "m"),
        ConsumerMemberTombstone("nobody", "m"),
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
    # The tombstone of the old group does not apply to the new one.
    state.replay(ClassicGroupTombstone("g"))
    assert "g" in state
    state.replay(ConsumerGroupTombstone("g"))
    assert "g" not in state


def test_after_a_load_all_sessions_start_and_the_expiry_timer_is_set() -> None:
    state = Stage()
    state.group("a")
    state.group("b")
    assert {timer for decision in state.loaded(NOW_MS) for timer in decision.timers} == {
        TimerSet("session/a/m", NOW_MS + 7),
        TimerSet("session/b/m", NOW_MS + 7),
        TimerSet(EXPIRY_TIMER, NOW_MS + 100),
    }


@pytest.mark.parametrize("owner", ["a", "a/b", "a/b/c"])
def test_timers_find_a_group_with_slashes_in_its_id(owner: str) -> None:
    state = Stage()
    for group_id in ("a", "a/b", "a/b/c"):
        state.group(group_id)
    state.group(owner).timers.add("session/a/b/c")
    assert state.timer_expired("session/a/b/c", NOW_MS) != NOTHING
    assert state.group(owner).due == ["session/a/b/c"]


def test_the_timer_of_a_removed_group_does_nothing() -> None:
    assert Stage().timer_expired("session/gone/m", NOW_MS) == NOTHING


def test_the_number_of_groups_is_limited() -> None:
    state = Stage()
    state.group("a")
    state.commits("b", "t")
    state.commits("c", "t")
    assert refusal(lambda: state.group("d")) == ErrorCode.POLICY_VIOLATION
    assert refusal(lambda: state.commits("d", "t")) == ErrorCode.POLICY_VIOLATION
    # A group that already has offsets may be joined.
    state.group("b")


def test_a_group_with_members_keeps_its_offsets_whatever_their_age() -> None:
    state = Stage()
    state.group("g")
    state.commits("g", "t")
    state.take(state.timer_expired(EXPIRY_TIMER, NOW_MS * 2))
    assert "g" in state.offsets


def test_an_empty_group_expires_with_its_last_offset() -> None:
    state = Stage()
    group = state.group("g")
    group.is_empty, group.expiry_starts_ms = True, NOW_MS + 500
    state.commits("g", "t", "u")
    state.take(state.timer_expired(EXPIRY_TIMER, NOW_MS + 1_499))
    assert "g" in state.offsets
    decision = state.take(state.timer_expired(EXPIRY_TIMER, NOW_MS + 1_500))
    assert len(decision.records) == 3
    assert "g" not in state


def test_a_group_without_offsets_is_listed_until_the_next_round_of_expiry() -> None:
    state = Stage()
    state.commits("g", "t")
    state.take(state.delete_offsets("g", [("t", 0)], "ticket"))
    assert list(state.offsets.of("g")) == []
    assert [(each.group_id, each.state_name) for each in state.listed()] == [("g", "Empty")]
    decision = state.take(state.timer_expired(EXPIRY_TIMER, NOW_MS))
    assert decision.records == (ClassicGroupTombstone("g"),)
    assert "g" not in state


def test_a_simple_consumers_group_expires_with_its_last_offset() -> None:
    state = Stage()
    state.commits("g", "t", "u")
    decision = state.take(state.timer_expired(EXPIRY_TIMER, NOW_MS + 1_000))
    assert decision.records[-1] == ClassicGroupTombstone("g")
    assert "g" not in state


def test_a_group_deleted_during_a_round_of_expiry_gets_no_second_tombstone() -> None:
    state = Stage(RULES._replace(groups_max=10_000))
    for number in range(3):
        state.commits(f"g{number}", "t", partitions=MAX_EXAMINED_PER_DECISION)
    state.take(state.timer_expired(EXPIRY_TIMER, NOW_MS))
    for number in range(3):
        state.take(state.delete_group(f"g{number}"))
    assert [state.timer_expired(EXPIRY_TIMER, NOW_MS).records for _ in range(3)] == [(), (), ()]


def test_offsets_survive_the_tombstone_of_their_group() -> None:
    state = Stage()
    state.group("g")
    state.commits("g", "t")
    state.replay(ClassicGroupTombstone("g"))
    assert "g" in state.offsets
    assert "g" not in state.groups


def test_offsets_of_subscribed_topics_do_not_expire() -> None:
    state = Stage()
    group = state.group("g")
    group.expiry_starts_ms, group.reads = NOW_MS, {"t"}
    state.commits("g", "t", "u")
    state.take(state.timer_expired(EXPIRY_TIMER, NOW_MS * 2))
    assert {each.topic for each in state.offsets.of("g")} == {"t"}
    assert "g" in state.groups


def test_expiry_examines_all_groups_in_several_decisions() -> None:
    state = Stage(RULES._replace(groups_max=10_000))
    for number in range(3):
        state.commits(f"g{number}", "t", partitions=MAX_EXAMINED_PER_DECISION)
    now_ms = NOW_MS * 2
    left = [3]
    while left[-1]:
        decision = state.take(state.timer_expired(EXPIRY_TIMER, now_ms))
        left.append(len(state.offsets))
        due_ms = now_ms if left[-1] else now_ms + RULES.retention_check_interval_ms
        assert decision.timers == (TimerSet(EXPIRY_TIMER, due_ms),)
    assert left == [3, 2, 1, 0]


def test_offsets_that_do_not_fit_one_batch_expire_in_parts() -> None:
    state = Stage()
    state.commits("g", "t", partitions=2 * MAX_TOMBSTONES_PER_DECISION + 10)
    sizes = []
    while "g" in state:
        decision = state.take(state.timer_expired(EXPIRY_TIMER, NOW_MS * 2))
        sizes.append(len(decision.records))
    assert sizes == [
        MAX_TOMBSTONES_PER_DECISION,
        MAX_TOMBSTONES_PER_DECISION,
        10 + len([ClassicGroupTombstone("g")]),
    ]


@pytest.mark.parametrize("left_over", [0, 10])
def test_a_group_whose_offsets_do_not_fit_one_batch_is_deleted_in_parts(left_over: int) -> None:
    state = Stage()
    state.commits("g", "t", partitions=2 * MAX_TOMBSTONES_PER_DECISION + left_over)
    for _ in range(state.deletion_steps("g")):
        assert "g" in state
        decision = state.take(state.delete_group("g"))
        assert len(decision.records) <= MAX_TOMBSTONES_PER_DECISION + len(
            [ClassicGroupTombstone("g")]
        )
    assert "g" not in state


def test_offsets_of_a_deleted_topic_are_removed_in_parts() -> None:
    state = Stage()
    state.commits("g", "t", "u", partitions=MAX_TOMBSTONES_PER_DECISION + 10)
    sizes = []
    while decision := state.take(state.topic_deleted("t", ZERO_UUID)).records:
        sizes.append(len(decision))
    assert sizes == [MAX_TOMBSTONES_PER_DECISION, 10]
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


# Commits in transactions

PRODUCER_ID = 7


def transactional(
    group_id: str = "g",
    *metadata: str,
    generation: int = -1,
    version: int = 5,
    partitions: int = 1,
) -> CommitRequest:
    texts = metadata or ("",) * partitions
    commits = [
        PartitionCommit("t", ZERO_UUID, index, 5, -1, text) for index, text in enumerate(texts)
    ]
    return CommitRequest(group_id, "", None, generation, version, -1, commits)


def commit_pending(state: Stage, request: CommitRequest, producer_id: int = PRODUCER_ID) -> None:
    for record in state.commit_in_transaction(request, NOW_MS).records:
        state.replay_pending(record, producer_id)


def test_a_transactional_commit_does_not_renew_the_session_and_is_counted_by_its_marker() -> None:
    state = Stage()
    group = state.group("g")
    decided = state.commit_in_transaction(transactional(partitions=2), NOW_MS)
    assert (decided.timers, decided.codes) == ((), [ErrorCode.NONE] * 2)
    assert group.has_transactional_commits
    commit_pending(state, transactional(partitions=2))
    assert (list(state.offsets.of("g")), state.meter.offset_commits) == ([], 0)
    state.replay_marker(PRODUCER_ID, MarkerKind.COMMIT)
    assert (len(list(state.offsets.of("g"))), state.meter.offset_commits) == (2, 2)


def test_an_aborted_transaction_counts_no_commits() -> None:
    state = Stage()
    commit_pending(state, transactional())
    state.replay_marker(PRODUCER_ID, MarkerKind.ABORT)
    assert state.meter.offset_commits == 0


def test_too_long_metadata_is_refused_alone_in_a_transaction() -> None:
    decided = Stage().commit_in_transaction(transactional("g", "x" * 4097, "x"), NOW_MS)
    assert decided.codes == [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]
    assert [record.partition for record in decided.records] == [1]


def test_one_partition_with_an_outdated_epoch_refuses_the_whole_transactional_commit() -> None:
    state = Stage()
    state.group("g").refuses_partitions = {1: ErrorCode.ILLEGAL_GENERATION}
    request = transactional(partitions=2)
    refused = refusal(lambda: state.commit_in_transaction(request, NOW_MS))
    assert refused == ErrorCode.ILLEGAL_GENERATION
    # Its metadata is refused before its epoch is looked at.
    decided = state.commit_in_transaction(transactional("g", "", "x" * 4097), NOW_MS)
    assert decided.codes == [ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE]


@pytest.mark.parametrize("version", [5, 9])
def test_a_generation_of_a_group_that_does_not_exist_is_illegal(version: int) -> None:
    state = Stage()
    request = transactional(generation=3, version=version)
    refused = refusal(lambda: state.commit_in_transaction(request, NOW_MS))
    assert refused == ErrorCode.ILLEGAL_GENERATION
    commit_pending(state, transactional())
    # Now the group exists, without members.
    assert [each.group_id for each in state.listed()] == ["g"]
    refused = refusal(lambda: state.commit_in_transaction(request, NOW_MS))
    assert refused == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_transactional_commit_makes_no_group_beyond_the_limit() -> None:
    state = Stage(RULES._replace(groups_max=1))
    state.commits("other", "t")
    refused = refusal(lambda: state.commit_in_transaction(transactional(), NOW_MS))
    assert refused == ErrorCode.POLICY_VIOLATION


def test_a_transactional_commit_must_fit_one_batch() -> None:
    state = Stage(RULES._replace(commit_bytes_max=1_000))
    request = transactional(partitions=100)
    refused = refusal(lambda: state.commit_in_transaction(request, NOW_MS))
    assert refused == ErrorCode.INVALID_COMMIT_OFFSET_SIZE


def test_the_number_of_pending_offsets_is_limited_until_a_transaction_ends() -> None:
    state = Stage(RULES._replace(pending_offsets_max=3))
    commit_pending(state, transactional(partitions=2))
    refused = refusal(lambda: commit_pending(state, transactional(partitions=2)))
    assert refused == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    commit_pending(state, transactional(), producer_id=8)
    assert len(state.offsets.pending) == 3
    state.replay_marker(PRODUCER_ID, MarkerKind.ABORT)
    commit_pending(state, transactional(partitions=2))


def test_a_pending_offset_keeps_its_group_from_expiry() -> None:
    state = Stage()
    state.commits("g", "t")
    commit_pending(state, transactional())
    state.take(state.timer_expired(EXPIRY_TIMER, NOW_MS * 2))
    assert [each.offset for each in state.offsets.of("g")] == [5]
    state.replay_marker(PRODUCER_ID, MarkerKind.ABORT)
    decision = state.take(state.timer_expired(EXPIRY_TIMER, NOW_MS * 2))
    assert decision.records == (OffsetTombstone("g", "t", 0), ClassicGroupTombstone("g"))
    assert "g" not in state


def test_a_group_is_deleted_with_its_pending_offsets() -> None:
    state = Stage()
    commit_pending(state, transactional(partitions=MAX_TOMBSTONES_PER_DECISION + 1))
    assert state.deletion_steps("g") == 2
    for _ in range(2):
        state.take(state.delete_group("g"))
    assert "g" not in state
    state.replay_marker(PRODUCER_ID, MarkerKind.COMMIT)
    assert "g" not in state


def test_a_pending_offset_is_deleted_where_nothing_is_committed() -> None:
    state = Stage()
    commit_pending(state, transactional())
    decision = state.take(state.delete_offsets("g", [("t", 0), ("t", 1)], "ticket"))
    assert decision.records == (OffsetTombstone("g", "t", 0),)
    assert len(state.offsets.pending) == 0


def test_only_offsets_are_pending() -> None:
    state = Stage()
    state.replay_pending(ClassicGroupSaved("a", "consumer", 1, "range", "m", 5, ()), PRODUCER_ID)
    assert "a" not in state
