"""Joins to a classic group: new members, delays, protocols, limits."""

import pytest

from ottla.coordinators.group.classic import join
from ottla.coordinators.group.classic.rules import NEW_MEMBER_TIMEOUT_MS, PENDING_MEMBER_WAIT_MS
from ottla.coordinators.group.classic.states import ClassicGroupState
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.join_group import JoinGroupRequest, Protocol
from tests.support.coordinators.classic_group import (
    CLASSIC_RULES,
    DELAY_MS,
    GROUP,
    SESSION_MS,
    Bench,
)


def test_the_first_member_waits_for_others_and_then_leads() -> None:
    bench = Bench()
    ticket = bench.join(protocols=("range", "sticky"))
    bench.pass_ms(DELAY_MS - 1)
    assert bench.is_parked(ticket)
    assert bench.group.state is ClassicGroupState.PREPARING_REBALANCE
    bench.pass_ms(1)
    answer = bench.joined(ticket)
    assert answer.generation_id == 1
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert answer.leader == answer.member_id == "client-1"
    assert [member.member_id for member in answer.members] == ["client-1"]
    assert not answer.skip_assignment
    assert bench.group.state is ClassicGroupState.COMPLETING_REBALANCE


def test_each_new_member_extends_the_first_rebalance_up_to_its_timeout() -> None:
    bench = Bench()
    tickets = [bench.join(rebalance_ms=7_000)]
    for _ in range(2):
        bench.pass_ms(DELAY_MS - 500)
        tickets.append(bench.join())
    bench.pass_ms(1_999)
    assert all(map(bench.is_parked, tickets))
    bench.pass_ms(1)
    answers = [bench.joined(ticket) for ticket in tickets]
    assert {answer.generation_id for answer in answers} == {1}
    assert {answer.leader for answer in answers} == {answers[0].member_id}
    assert [len(answer.members) for answer in answers] == [3, 0, 0]


def test_a_new_member_has_to_join_again_with_the_id_it_is_given() -> None:
    bench = Bench()
    asked = bench.joined(bench.join(version=4))
    assert asked.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert (asked.member_id, asked.generation_id, asked.leader) == ("client-1", -1, "")
    ticket = bench.join(asked.member_id, version=4)
    bench.pass_ms(DELAY_MS)
    assert bench.joined(ticket).member_id == asked.member_id


def test_a_first_generation_waits_for_pending_members() -> None:
    bench = Bench(CLASSIC_RULES._replace(initial_rebalance_delay_ms=0))
    ids = [bench.joined(bench.join(version=4)).member_id for _ in range(3)]
    tickets = [bench.join(member_id, version=4) for member_id in ids[:2]]
    bench.pass_ms(0)
    assert all(map(bench.is_parked, tickets))
    tickets.append(bench.join(ids[2], version=4))
    answers = [bench.joined(ticket) for ticket in tickets]
    assert [answer.generation_id for answer in answers] == [1, 1, 1]
    assert [len(answer.members) for answer in answers] == [3, 0, 0]


def test_a_first_generation_does_not_wait_long_for_a_pending_member() -> None:
    bench = Bench(CLASSIC_RULES._replace(initial_rebalance_delay_ms=0))
    first, _ = (bench.joined(bench.join(version=4)).member_id for _ in range(2))
    ticket = bench.join(first, version=4)
    bench.pass_ms(PENDING_MEMBER_WAIT_MS - 1)
    assert bench.is_parked(ticket)
    # A join meanwhile does not extend the wait.
    bench.join(version=4)
    bench.pass_ms(1)
    assert bench.joined(ticket).generation_id == 1
    assert [member.member_id for member in bench.joined(ticket).members] == [first]


def test_a_pending_member_that_does_not_join_is_removed() -> None:
    bench = Bench()
    asked = bench.joined(bench.join(version=4))
    bench.pass_ms(SESSION_MS)
    assert bench.code(bench.join(asked.member_id, version=4)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert not bench.timers


def test_a_rebalance_waits_for_a_pending_member() -> None:
    bench = Bench()
    (first,) = bench.stable(None)
    pending = bench.joined(bench.join(version=4)).member_id
    rejoin = bench.join(first)
    assert bench.is_parked(rejoin)
    second = bench.join(pending, version=4)
    assert bench.joined(rejoin).generation_id == bench.joined(second).generation_id == 2


def test_pending_members_are_limited() -> None:
    bench = Bench(CLASSIC_RULES._replace(pending_ids_max=1))
    assert bench.code(bench.join(version=4)) is ErrorCode.MEMBER_ID_REQUIRED
    assert bench.code(bench.join(version=4)) is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_unknown_ids_are_refused() -> None:
    bench = Bench()
    assert bench.code(bench.join("nobody")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.code(bench.join("nobody", instance_id="i")) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("protocols", "protocol_type"), [(("other",), "consumer"), (("range",), "connect")]
)
def test_a_member_without_a_common_protocol_is_refused(
    protocols: tuple[str, ...], protocol_type: str
) -> None:
    bench = Bench()
    bench.stable(None)
    ticket = bench.join(protocols=protocols, protocol_type=protocol_type)
    assert bench.code(ticket) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.group.state is ClassicGroupState.STABLE


def test_the_protocol_with_most_votes_that_all_members_support_is_selected() -> None:
    bench = Bench()
    tickets = [
        bench.join(protocols=("mine", "sticky", "range")),
        bench.join(protocols=("range", "sticky")),
        bench.join(protocols=("range", "sticky")),
    ]
    bench.gather()
    assert {bench.joined(ticket).protocol_name for ticket in tickets} == {"range"}


def test_any_protocol_type_is_accepted() -> None:
    bench = Bench()
    ticket = bench.join(protocol_type="connect", protocols=("v1",), metadata=b"\xff\x00")
    bench.pass_ms(DELAY_MS)
    answer = bench.joined(ticket)
    assert (answer.protocol_type, answer.protocol_name) == ("connect", "v1")
    assert answer.members[0].metadata == b"\xff\x00"
    assert bench.group.subscribed_topics() is None


def test_a_full_group_refuses_new_members() -> None:
    bench = Bench(CLASSIC_RULES._replace(members_max=2))
    bench.stable(None, "i")
    refused = bench.joined(bench.join())
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refused.member_id == ""
    # A static member that rejoins is not a new member.
    assert bench.code(bench.join(instance_id="i")) is ErrorCode.NONE


def test_above_the_maximum_size_the_last_members_to_rejoin_are_refused() -> None:
    bench = Bench()
    ids = bench.stable(None, None, None)
    bench.rules = CLASSIC_RULES._replace(members_max=2)
    bench.restart()
    assert bench.group.state is ClassicGroupState.PREPARING_REBALANCE
    tickets = [bench.join(member_id) for member_id in ids]
    assert [bench.code(ticket) for ticket in tickets] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    ]


def test_a_follower_that_rejoins_unchanged_gets_the_current_generation() -> None:
    bench = Bench()
    leader, follower = bench.stable(None, None)
    answer = bench.joined(bench.join(follower))
    assert (answer.generation_id, answer.leader, answer.members) == (1, leader, ())
    assert bench.group.state is ClassicGroupState.STABLE


def test_a_leader_that_rejoins_starts_a_rebalance() -> None:
    bench = Bench()
    leader, follower = bench.stable(None, None)
    ticket = bench.join(leader)
    assert bench.is_parked(ticket)
    assert bench.beat(follower) is ErrorCode.REBALANCE_IN_PROGRESS
    again = bench.join(follower)
    assert bench.joined(ticket).generation_id == bench.joined(again).generation_id == 2


def test_a_member_with_new_metadata_starts_a_rebalance() -> None:
    bench = Bench()
    leader, follower = bench.stable(None, None)
    assert bench.is_parked(bench.join(follower, metadata=b"other"))
    answer = bench.joined(bench.join(leader))
    assert [member.metadata for member in answer.members] == [b"m", b"other"]


def test_a_join_whose_answer_was_lost_is_answered_again() -> None:
    bench = Bench()
    ticket = bench.join()
    bench.pass_ms(DELAY_MS)
    first = bench.joined(ticket)
    assert bench.joined(bench.join(first.member_id)) == first


def test_a_second_join_of_a_member_replaces_the_first() -> None:
    bench = Bench()
    leader, _ = bench.stable(None, None)
    first, second = bench.join(leader), bench.join(leader)
    assert bench.code(first) is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.is_parked(second)


def test_a_member_that_does_not_rejoin_in_time_is_removed() -> None:
    bench = Bench()
    leader, follower = bench.stable(None, None)
    ticket = bench.join(follower, metadata=b"other")
    while bench.is_parked(ticket):
        bench.pass_ms(SESSION_MS // 2)
        bench.beat(leader)
    answer = bench.joined(ticket)
    assert (answer.leader, answer.generation_id) == (follower, 2)
    assert bench.beat(leader) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_member_that_waits_too_long_is_removed() -> None:
    bench = Bench()
    (leader,) = bench.stable(None)
    newest = bench.join(rebalance_ms=NEW_MEMBER_TIMEOUT_MS * 2)
    for _ in range(NEW_MEMBER_TIMEOUT_MS // 5_000):
        assert bench.is_parked(newest)
        bench.pass_ms(5_000)
        bench.beat(leader)
    refused = bench.joined(newest)
    assert (refused.error_code, refused.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")


def test_version_0_has_one_timeout_for_session_and_rebalance() -> None:
    bench = Bench()
    bench.join(version=0, rebalance_ms=-1)
    assert bench.group.roster.rebalance_timeout_ms == SESSION_MS


def _request(**changed: object) -> JoinGroupRequest:
    fields: dict[str, object] = {
        "group_id": GROUP,
        "session_timeout_ms": SESSION_MS,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": (Protocol(name="range", metadata=b""),),
    }
    return JoinGroupRequest(**(fields | changed))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (
            {"protocols": (Protocol(name="range", metadata=bytes(1_000_001)),)},
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ),
    ],
)
def test_a_join_that_no_group_could_accept_is_refused(
    changed: dict[str, object], code: ErrorCode
) -> None:
    with pytest.raises(PeerError) as refused:
        join.check(_request(**changed), CLASSIC_RULES)
    assert refused.value.code is code
