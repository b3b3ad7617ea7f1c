"""Joins to a consumer group wait for each other, for a short time."""

from collections.abc import Hashable
from typing import Any

import pytest

from ottla.coordinators.group.classic.group import ClassicGroup
from ottla.coordinators.group.consumer.group import ConsumerGroup
from ottla.coordinators.group.consumer.heartbeat_request import Heartbeat
from ottla.coordinators.group.consumer.parked_joins import JOIN_WAIT_MS, JOIN_WAIT_MS_MAX
from ottla.coordinators.group.consumer.routing import consumer_group, handle_heartbeat, handle_join
from ottla.coordinators.group.consumer.rules import ConsumerRules
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.machine import GroupMachine, GroupRules
from ottla.coordinators.group.records import TargetEpochSaved
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.support.coordinators.classic_group import CLASSIC_RULES
from tests.support.coordinators.consumer_clients import FakeTopics, match_by_prefix

RULES = ConsumerRules()
GROUP_RULES = GroupRules(
    offset_metadata_bytes_max=4096,
    commit_bytes_max=1 << 20,
    offsets_retention_ms=1 << 40,
    retention_check_interval_ms=1 << 40,
    groups_max=100,
)


class Stage:
    """A group machine whose timers expire when the test advances the time."""

    def __init__(self, rules: ConsumerRules = RULES) -> None:
        self.machine = GroupMachine(
            GROUP_RULES, lambda group_id: ClassicGroup(group_id, CLASSIC_RULES), ConsumerGroup
        )
        self.rules = rules
        self.topics = FakeTopics(logs=4)
        self.now_ms = 1_000_000
        self.timers: dict[str, int] = {}
        self.answers: dict[Hashable, Any] = {}
        self.targets = 0

    def join(self, member_id: str, group_id: str = "g", **said: Any) -> None:
        """Sends a join; its ticket is the member id."""
        beat = self._beat(member_id, group_id, 0, topic_partitions=(), **said)
        self._carry_out(handle_join(self.machine, self.rules, beat))

    def leave(self, member_id: str) -> None:
        beat = self._beat(member_id, "g", -1)._replace(ticket="leave")
        self._carry_out(handle_heartbeat(self.machine, self.rules, beat))

    def pass_time(self, passed_ms: int) -> None:
        end_ms = self.now_ms + passed_ms
        while True:
            due = [(due_ms, key) for key, due_ms in self.timers.items() if due_ms <= end_ms]
            if not due:
                break
            due_ms, key = min(due)
            del self.timers[key]
            self.now_ms = max(self.now_ms, due_ms)
            self._carry_out(self.machine.timer_expired(key, self.now_ms))
        self.now_ms = end_ms

    def shares(self) -> dict[Hashable, int]:
        """How many partitions each member's answer assigned."""
        return {
            member_id: sum(len(topic.partitions) for topic in answer.assignment.topic_partitions)
            for member_id, answer in self.answers.items()
        }

    def _beat(self, member_id: str, group_id: str, epoch: int, **said: Any) -> Heartbeat:
        said = {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": ("logs",)} | said
        request = ConsumerGroupHeartbeatRequest(
            group_id=group_id, member_id=member_id, member_epoch=epoch, **said
        )
        return Heartbeat(
            request,
            member_id,
            "test",
            "/",
            ticket=member_id,
            now_ms=self.now_ms,
            topics=self.topics,
            match_topics=match_by_prefix,
        )

    def _carry_out(self, decision: Decision) -> None:
        for record in decision.records:
            self.targets += isinstance(record, TargetEpochSaved)
            self.machine.replay(record)
        for key, due_ms in decision.timers:
            self.timers.pop(key, None)
            if due_ms is not None:
                self.timers[key] = due_ms
        for ticket, response in decision.answers:
            assert ticket not in self.answers
            self.answers[ticket] = response


def test_a_single_join_is_answered_after_a_short_wait() -> None:
    stage = Stage()
    stage.join("a")
    assert consumer_group(stage.machine, "g").state_name == "Assigning"
    stage.pass_time(JOIN_WAIT_MS - 1)
    assert stage.answers == {}
    stage.pass_time(1)
    assert stage.shares() == {"a": 4}
    assert list(stage.timers) == ["session/g/a"]


def test_joins_of_many_members_are_answered_with_one_target() -> None:
    stage = Stage()
    for member_id in "abcd":
        stage.join(member_id)
        stage.pass_time(JOIN_WAIT_MS - 1)
        assert stage.answers == {}
    stage.pass_time(1)
    assert stage.shares() == {"a": 1, "b": 1, "c": 1, "d": 1}
    assert list(stage.answers) == ["a", "b", "c", "d"]
    assert stage.targets == 1


def test_later_joins_do_not_extend_the_wait_for_ever() -> None:
    stage = Stage(RULES._replace(assignment_interval_ms=0))
    began_ms = stage.now_ms
    for number in range(1_000):
        stage.join(f"m-{number:03}")
        stage.pass_time(3)
        if stage.answers:
            break
    assert stage.now_ms - began_ms in range(JOIN_WAIT_MS_MAX, JOIN_WAIT_MS_MAX + 3)
    assert len(stage.answers) == number + 1


def test_a_repeated_join_does_not_postpone_the_timer() -> None:
    stage = Stage()
    stage.join("a")
    stage.pass_time(JOIN_WAIT_MS)
    stage.answers.clear()
    stage.join("b")
    stage.pass_time(JOIN_WAIT_MS - 1)
    stage.join("a")
    stage.pass_time(1)
    assert set(stage.answers) == {"a", "b"}


def test_a_join_while_others_are_decided_does_not_postpone_the_timer() -> None:
    stage = Stage()
    for member_id in "ab":
        stage.join(member_id)
    stage.now_ms += JOIN_WAIT_MS
    key = "assignment/g"
    del stage.timers[key]
    stage._carry_out(stage.machine.timer_expired(key, stage.now_ms))
    assert list(stage.answers) == ["a"]
    stage.join("c")
    assert stage.timers[key] == stage.now_ms
    stage.pass_time(0)
    assert list(stage.answers) == ["a", "b", "c"]


def test_a_clock_that_is_set_back_does_not_extend_the_wait() -> None:
    stage = Stage()
    stage.join("a")
    stage.now_ms -= 3_600_000
    stage.join("b")
    stage.join("a", subscribed_topic_names=("logs", "more"))
    assert stage.timers["assignment/g"] == stage.now_ms + JOIN_WAIT_MS


def test_a_join_that_is_refused_at_once_is_not_parked() -> None:
    stage = Stage(RULES._replace(size_max=1))
    stage.join("a")
    with pytest.raises(PeerError) as refused:
        stage.join("b")
    assert refused.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    stage.pass_time(JOIN_WAIT_MS)
    assert list(stage.answers) == ["a"]


def test_a_join_refused_by_its_decision_does_not_affect_the_others() -> None:
    stage = Stage(RULES._replace(size_max=2))
    stage.join("a")
    stage.leave("a")
    for member_id in "bc":
        stage.join(member_id)
    stage.pass_time(JOIN_WAIT_MS)
    refused = stage.answers.pop("a")
    assert isinstance(refused, PeerError)
    assert refused.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    del stage.answers["leave"]
    assert stage.shares() == {"b": 2, "c": 2}


def test_groups_with_slashes_in_their_ids_wait_separately() -> None:
    stage = Stage()
    for group_id in ("g", "g/a", "session/g"):
        stage.join(f"in {group_id}", group_id)
        stage.pass_time(5)
    assert list(stage.answers) == ["in g", "in g/a"]
    stage.pass_time(5)
    assert list(stage.answers) == ["in g", "in g/a", "in session/g"]


def test_no_join_waits_after_a_load() -> None:
    stage = Stage()
    stage.join("a")
    stage.machine = Stage().machine
    stage.pass_time(JOIN_WAIT_MS)
    assert stage.answers == {}
