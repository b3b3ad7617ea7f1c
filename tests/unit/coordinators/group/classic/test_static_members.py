"""Static members (KIP-345, KIP-814) and leaving."""

import pytest

from ottla.coordinators.group.classic.states import ClassicGroupState
from ottla.coordinators.group.records import ClassicGroupSaved
from ottla.errors import ErrorCode
from tests.support.coordinators.classic_group import DELAY_MS, SESSION_MS, Bench


def test_static_members_join_at_once_and_their_id_starts_with_the_instance_id() -> None:
    bench = Bench()
    ticket = bench.join(instance_id="i", version=9)
    bench.pass_ms(DELAY_MS)
    assert bench.joined(ticket).member_id == "i-1"


def test_a_static_member_rejoins_without_a_rebalance() -> None:
    bench = Bench()
    leader, old = bench.stable("a", "b", version=9)
    answer = bench.joined(bench.join(instance_id="b", version=9))
    assert answer.error_code == ErrorCode.NONE
    assert answer.member_id != old
    assert (answer.leader, answer.generation_id, answer.members) == (leader, 1, ())
    assert not answer.skip_assignment
    assert bench.group.state is ClassicGroupState.STABLE
    assert bench.beat(leader, instance_id="a") is ErrorCode.NONE
    assert bench.synced(bench.sync(answer.member_id, instance_id="b")).assignment == old.encode()
    saved = bench.log[-1]
    assert isinstance(saved, ClassicGroupSaved)
    assert [member.member_id for member in saved.members] == [leader, answer.member_id]


def test_the_old_id_of_a_static_member_is_fenced() -> None:
    bench = Bench()
    (old,) = bench.stable("a")
    bench.join(instance_id="a")
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert bench.beat(old, instance_id="a") is fenced
    assert bench.code(bench.sync(old, instance_id="a")) is fenced
    assert bench.code(bench.join(old, instance_id="a")) is fenced
    assert bench.leave((old, "a")) == [fenced]
    assert bench.beat(old) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_leader_that_rejoins_is_told_to_skip_the_assignment() -> None:
    bench = Bench()
    old, follower = bench.stable("a", "b", version=9)
    answer = bench.joined(bench.join(instance_id="a", version=9))
    assert answer.skip_assignment
    assert answer.leader == answer.member_id != old
    assert [member.member_id for member in answer.members] == [answer.member_id, follower]


def test_an_older_static_leader_that_rejoins_is_not_named_as_the_leader() -> None:
    bench = Bench()
    old, _ = bench.stable("a", "b", version=5)
    answer = bench.joined(bench.join(instance_id="a", version=5))
    assert answer.leader == old
    assert (answer.members, answer.skip_assignment) == ((), False)
    # It is the leader nonetheless: its next join starts a rebalance.
    assert bench.group.roster.leader == answer.member_id


def test_a_static_member_that_changes_the_protocol_causes_a_rebalance() -> None:
    bench = Bench()
    tickets = [
        bench.join(instance_id=name, protocols=("range", "sticky"), version=9) for name in "ab"
    ]
    bench.gather()
    leader, _ = [bench.joined(ticket).member_id for ticket in tickets]
    bench.sync(leader)
    ticket = bench.join(instance_id="b", protocols=("sticky",), version=9)
    assert bench.is_parked(ticket)
    assert bench.group.state is ClassicGroupState.PREPARING_REBALANCE
    bench.join(leader, instance_id="a", protocols=("range", "sticky"))
    assert bench.joined(ticket).protocol_name == "sticky"


def test_a_static_member_that_rejoins_while_others_sync_causes_a_rebalance() -> None:
    bench = Bench()
    tickets = [bench.join(instance_id=name) for name in "ab"]
    bench.gather()
    leader, old = [bench.joined(ticket).member_id for ticket in tickets]
    waiting = bench.sync(old, instance_id="b")
    back = bench.join(instance_id="b")
    assert bench.code(waiting) is ErrorCode.FENCED_INSTANCE_ID
    assert bench.is_parked(back)
    bench.join(leader, instance_id="a")
    assert bench.joined(back).generation_id == 2


def test_a_waiting_join_of_the_old_id_is_fenced() -> None:
    bench = Bench()
    waiting = bench.join(instance_id="a")
    back = bench.join(instance_id="a")
    assert bench.code(waiting) is ErrorCode.FENCED_INSTANCE_ID
    bench.gather()
    assert bench.joined(back).generation_id == 1
    assert len(bench.group.roster) == 1


def test_a_static_member_keeps_its_place_in_a_rebalance_that_it_misses() -> None:
    bench = Bench()
    leader, missing = bench.stable("a", "b")
    bench.join(leader, instance_id="a")
    while bench.group.state is ClassicGroupState.PREPARING_REBALANCE:
        assert bench.beat(missing, instance_id="b") is ErrorCode.REBALANCE_IN_PROGRESS
        bench.pass_ms(SESSION_MS // 2)
    assert bench.group.generation == 2
    assert missing in bench.group.roster


def test_a_static_member_is_removed_when_its_session_expires() -> None:
    bench = Bench()
    leader, _ = bench.stable("a", "b")
    bench.pass_ms(SESSION_MS - 1)
    bench.beat(leader, instance_id="a")
    bench.pass_ms(1)
    assert bench.group.roster.instance("b") is None


def test_members_leave_one_by_one_and_the_others_rebalance_once() -> None:
    bench = Bench()
    _, dynamic, stays, static = bench.stable(None, None, None, "i")
    codes = bench.leave((dynamic, None), ("nobody", None), ("", "no-inst"), ("", "i"), ("", None))
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert codes == [ErrorCode.NONE, unknown, unknown, ErrorCode.NONE, unknown]
    assert bench.beat(stays) is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.beat(static) is unknown


def test_the_group_is_empty_when_the_last_member_leaves() -> None:
    bench = Bench()
    (member,) = bench.stable(None)
    assert bench.leave((member, None), (member, None)) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert bench.group.is_empty
    assert not bench.timers


def test_a_pending_member_can_leave_without_a_rebalance() -> None:
    bench = Bench()
    (member,) = bench.stable(None)
    pending = bench.joined(bench.join(version=4)).member_id
    assert bench.leave((pending, None)) == [ErrorCode.NONE]
    assert bench.beat(member) is ErrorCode.NONE


def test_a_member_that_leaves_while_its_join_waits_is_answered() -> None:
    bench = Bench()
    leader, follower = bench.stable(None, None)
    waiting = bench.join(leader)
    bench.leave((leader, None))
    refused = bench.joined(waiting)
    assert (refused.error_code, refused.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert bench.joined(bench.join(follower)).leader == follower


@pytest.mark.parametrize("name", ["a", None])
def test_a_stable_group_is_loaded_as_it_was(name: str | None) -> None:
    bench = Bench()
    bench.stable(name, None)
    before = bench.group.describe()
    bench.restart()
    assert bench.group.describe() == before


def test_a_member_that_leaves_while_its_sync_waits_is_answered() -> None:
    bench = Bench()
    tickets = [bench.join() for _ in range(2)]
    bench.gather()
    leader, follower = [bench.joined(ticket).member_id for ticket in tickets]
    waiting = bench.sync(follower)
    bench.leave((follower, None))
    assert bench.code(waiting) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.joined(bench.join(leader)).generation_id == 2
