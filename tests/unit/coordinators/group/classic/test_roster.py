"""The members of a classic group: leader, protocols, static members."""

import pytest

from ottla.coordinators.group.classic.member import ClassicGroupMember
from ottla.coordinators.group.classic.roster import Roster
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.join_group import Protocol


def member(
    member_id: str, *protocols: str, instance_id: str | None = None, timeout_ms: int = 1_000
) -> ClassicGroupMember:
    return ClassicGroupMember(
        member_id=member_id,
        instance_id=instance_id,
        client_id="client",
        client_host="/127.0.0.1",
        session_timeout_ms=1_000,
        rebalance_timeout_ms=timeout_ms,
        protocols=tuple(Protocol(name=name, metadata=b"") for name in protocols or ("range",)),
    )


def roster(*members: ClassicGroupMember) -> Roster:
    found = Roster()
    for each in members:
        found.add(each)
    return found


def test_the_first_member_leads_and_the_next_one_succeeds_it() -> None:
    members = roster(member("a"), member("b"), member("c"))
    assert members.leader == "a"
    members.remove("a")
    assert members.leader == "b"


def test_the_leader_is_elected_among_the_candidates() -> None:
    members = roster(member("a"), member("b"), member("c"))
    assert members.elect({"b", "c"})
    assert members.leader == "b"
    assert members.elect({"a", "b"})
    assert members.leader == "b"
    assert members.elect({"c"})
    assert members.leader == "c"
    assert not members.elect(())
    assert members.leader == "c"


def test_the_selected_protocol_has_most_votes_of_those_that_all_support() -> None:
    members = roster(member("a", "x", "y", "z"), member("b", "y", "z"), member("c", "z", "y"))
    assert members.chosen_protocol() == "y"
    assert members.all_support_one_of(["x", "z"])
    assert not members.all_support_one_of(["x"])


def test_a_tie_of_votes_goes_to_the_oldest_member() -> None:
    assert roster(member("a", "y", "z"), member("b", "z", "y")).chosen_protocol() == "y"


def test_a_member_that_leaves_or_changes_no_longer_limits_the_protocols() -> None:
    narrow = member("b", "y")
    members = roster(member("a", "x", "y"), narrow)
    assert not members.all_support_one_of(["x"])
    before = narrow.protocol_names
    narrow.protocols = (Protocol(name="x", metadata=b""),)
    members.recount(narrow, before)
    assert members.all_support_one_of(["x"])
    members.remove("b")
    assert members.all_support_one_of(["y"])


def test_a_renamed_static_member_keeps_its_place_and_leadership() -> None:
    static = member("old", instance_id="i")
    members = roster(static, member("b"))
    members.rename(static, "new")
    assert [each.member_id for each in members] == ["new", "b"]
    assert members.leader == "new"
    assert members.instance("i") is static
    assert members.check("new", "i") is static


@pytest.mark.parametrize(
    ("member_id", "instance_id", "code"),
    [
        ("x", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", "unknown", ErrorCode.UNKNOWN_MEMBER_ID),
        ("old", "i", ErrorCode.FENCED_INSTANCE_ID),
    ],
)
def test_unknown_and_fenced_members_are_refused(
    member_id: str, instance_id: str | None, code: ErrorCode
) -> None:
    members = roster(member("a"), member("b", instance_id="i"))
    with pytest.raises(PeerError) as refused:
        members.check(member_id, instance_id)
    assert refused.value.code is code


def test_the_rebalance_timeout_is_the_longest_of_all_members() -> None:
    assert roster(member("a", timeout_ms=5), member("b", timeout_ms=9)).rebalance_timeout_ms == 9
    assert Roster().rebalance_timeout_ms == 0
