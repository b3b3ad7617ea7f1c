"""Syncs, heartbeats, and the saved generation of a classic group."""

import pytest

from ottla.coordinators.group.classic.group import ClassicGroup
from ottla.coordinators.group.classic.states import ClassicGroupState
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.records import ClassicGroupSaved
from ottla.errors import ErrorCode
from tests.support.coordinators.classic_group import (
    CLASSIC_RULES,
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    Bench,
)


def _completing(bench: Bench, members: int = 2) -> list[str]:
    tickets = [bench.join() for _ in range(members)]
    bench.gather()
    return [bench.joined(ticket).member_id for ticket in tickets]


def test_syncs_wait_for_the_leaders_assignment() -> None:
    bench = Bench()
    leader, follower = _completing(bench)
    waiting = bench.sync(follower)
    assert bench.is_parked(waiting)
    ticket = bench.sync(leader, {leader: b"1", follower: b"2", "stranger": b"3"})
    assert bench.synced(ticket).assignment == b"1"
    answer = bench.synced(waiting)
    assert (answer.assignment, answer.protocol_type, answer.protocol_name) == (
        b"2",
        "consumer",
        "range",
    )
    assert bench.group.state is ClassicGroupState.STABLE


def test_a_late_member_gets_its_assignment_from_the_stable_group() -> None:
    bench = Bench()
    leader, follower = _completing(bench)
    bench.sync(leader, {follower: b"2"})
    assert bench.synced(bench.sync(follower)).assignment == b"2"
    assert bench.synced(bench.sync(leader)).assignment == b""


def test_a_generation_is_saved_before_syncs_are_answered() -> None:
    bench = Bench()
    leader, follower = _completing(bench)
    bench.sync(leader, {leader: b"1", follower: b"2"})
    saved = bench.log[-1]
    assert isinstance(saved, ClassicGroupSaved)
    assert (saved.group, saved.protocol_type, saved.generation, saved.protocol, saved.leader) == (
        GROUP,
        "consumer",
        1,
        "range",
        leader,
    )
    assert saved.state_ms == bench.now_ms
    first = saved.members[0]
    assert (first.client_id, first.client_host, first.subscription, first.assignment) == (
        "client",
        "/127.0.0.1",
        b"m",
        b"1",
    )


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation": 4}, ErrorCode.ILLEGAL_GENERATION),
        ({"instance_id": "no-inst"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_an_inconsistent_sync_is_refused(wrong: dict[str, object], code: ErrorCode) -> None:
    bench = Bench()
    leader, _ = _completing(bench)
    ticket = bench.sync(**({"member_id": leader} | wrong))  # type: ignore[arg-type]
    assert bench.code(ticket) is code


def test_a_sync_during_the_next_rebalance_is_refused() -> None:
    bench = Bench()
    leader, follower = bench.stable(None, None)
    bench.join(leader)
    assert bench.code(bench.sync(follower)) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_waiting_sync_is_answered_when_the_next_rebalance_starts() -> None:
    bench = Bench()
    leader, follower = _completing(bench)
    waiting = bench.sync(follower)
    assert bench.leave((leader, None)) == [ErrorCode.NONE]
    assert bench.code(waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.group.state is ClassicGroupState.PREPARING_REBALANCE
    assert bench.joined(bench.join(follower)).generation_id == 2


def test_a_member_that_never_syncs_is_removed() -> None:
    bench = Bench()
    leader, follower = _completing(bench)
    bench.sync(leader, {leader: b"1", follower: b"2"})
    for _ in range(REBALANCE_MS // 5_000):
        assert bench.beat(follower) is ErrorCode.NONE
        bench.beat(leader)
        bench.pass_ms(5_000)
    assert bench.beat(follower) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.beat(leader) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leader_that_never_assigns_is_replaced() -> None:
    bench = Bench()
    leader, follower = _completing(bench)
    waiting = bench.sync(follower)
    bench.pass_ms(SESSION_MS)
    assert bench.code(waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.joined(bench.join(follower)).leader == follower
    assert leader not in bench.group.roster


def test_an_assignment_that_cannot_be_saved_fails_the_generation() -> None:
    bench = Bench(CLASSIC_RULES._replace(saved_bytes_max=1_000))
    leader, follower = _completing(bench)
    waiting = bench.sync(follower)
    ticket = bench.sync(leader, {leader: bytes(1_000)})
    assert bench.code(ticket) is bench.code(waiting) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert bench.group.state is ClassicGroupState.PREPARING_REBALANCE


def test_a_member_without_heartbeats_is_removed() -> None:
    bench = Bench()
    leader, follower = bench.stable(None, None)
    bench.pass_ms(SESSION_MS - 1)
    assert bench.beat(leader) is ErrorCode.NONE
    bench.pass_ms(1)
    assert bench.beat(follower) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.beat(leader) is ErrorCode.REBALANCE_IN_PROGRESS


def test_commits_renew_the_session() -> None:
    bench = Bench()
    (member,) = bench.stable(None)
    for _ in range(4):
        bench.pass_ms(SESSION_MS - 1)
        bench.ask(lambda _: Decision(timers=bench.group.committed(member, bench.now_ms)))
    assert bench.beat(member) is ErrorCode.NONE


def test_a_heartbeat_is_refused_for_the_wrong_generation_and_the_wrong_member() -> None:
    bench = Bench()
    (member,) = bench.stable(None)
    assert bench.beat(member, generation=6) is ErrorCode.ILLEGAL_GENERATION
    assert bench.beat("x") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_whose_last_member_fails_is_saved_as_empty() -> None:
    bench = Bench()
    bench.stable(None)
    bench.pass_ms(SESSION_MS)
    saved = bench.log[-1]
    assert isinstance(saved, ClassicGroupSaved)
    assert bench.group.is_empty
    assert (saved.protocol_type, saved.generation, saved.protocol, saved.leader) == (
        "consumer",
        2,
        None,
        None,
    )
    assert saved.members == ()
    assert not bench.timers


def test_members_have_new_sessions_after_a_load() -> None:
    bench = Bench()
    leader, follower = bench.stable(None, None)
    bench.pass_ms(SESSION_MS - 1)
    bench.restart()
    bench.pass_ms(SESSION_MS - 1)
    assert bench.beat(leader) is bench.beat(follower) is ErrorCode.NONE
    assert bench.synced(bench.sync(follower)).assignment == follower.encode()
    bench.pass_ms(SESSION_MS)
    assert bench.group.is_empty


def test_a_rebalance_interrupted_by_a_restart_starts_again() -> None:
    bench = Bench()
    leader, follower = bench.stable(None, None)
    bench.join(leader)
    bench.join(follower)
    bench.restart()
    assert bench.beat(leader, generation=2) is ErrorCode.ILLEGAL_GENERATION
    tickets = bench.join(leader), bench.join(follower)
    assert {bench.joined(ticket).generation_id for ticket in tickets} == {2}


def test_a_group_loaded_from_old_records_expires_offsets_by_their_commits() -> None:
    group = ClassicGroup(GROUP, CLASSIC_RULES)
    group.replay(ClassicGroupSaved(GROUP, "consumer", 3, None, None, -1, ()))
    assert group.offset_expiry_starts_ms(7) == 7
