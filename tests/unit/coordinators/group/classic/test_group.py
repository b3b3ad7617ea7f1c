"""Queries to a classic group: commits, deletion, description, expiry of offsets."""

import pytest

from ottla.coordinators.group.classic.group import ClassicGroup
from ottla.coordinators.group.classic.states import ClassicGroupState
from ottla.coordinators.group.records import ClassicGroupTombstone, OffsetTombstone
from ottla.errors import ErrorCode, PeerError
from tests.support.coordinators.classic_group import CLASSIC_RULES, DELAY_MS, GROUP, Bench

TWO_TOPICS = b"\x00\x01\x00\x00\x00\x02\x00\x01a\x00\x02bc\xff\xff\xff\xff"


def _code(group: ClassicGroup, member_id: str, generation: int, **more: object) -> ErrorCode:
    instance_id = more.pop("instance_id", None)
    try:
        group.check_commit(member_id, instance_id, generation, 9, **more)  # type: ignore[arg-type]
    except PeerError as error:
        return error.code
    return ErrorCode.NONE


def test_commits_are_accepted_from_members_of_this_generation() -> None:
    bench = Bench()
    (member,) = bench.stable("i")
    group = bench.group
    assert _code(group, member, 1) is ErrorCode.NONE
    assert _code(group, member, 1, instance_id="i") is ErrorCode.NONE
    assert _code(group, member, 0) is ErrorCode.ILLEGAL_GENERATION
    assert _code(group, "nobody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert _code(group, "old", 1, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert _code(group, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert _code(group, "", -1, is_transactional=True) is ErrorCode.NONE


def test_an_empty_group_accepts_commits_without_a_generation() -> None:
    bench = Bench()
    assert _code(bench.group, "", -1) is ErrorCode.NONE
    assert _code(bench.group, "x", 0) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_may_commit_while_others_join_but_not_once_all_have_joined() -> None:
    bench = Bench()
    leader, follower = bench.stable(None, None)
    bench.join(leader)
    assert _code(bench.group, follower, 1) is ErrorCode.NONE
    bench.join(follower)
    assert _code(bench.group, follower, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert _code(bench.group, follower, 2, is_transactional=True) is ErrorCode.NONE


def test_only_an_empty_group_may_be_deleted() -> None:
    bench = Bench()
    bench.group.check_delete()
    bench.stable(None)
    with pytest.raises(PeerError) as refused:
        bench.group.check_delete()
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP
    bench.group.check_offset_delete()
    assert bench.group.tombstones() == (ClassicGroupTombstone(GROUP),)


def test_offsets_of_a_group_of_another_protocol_type_are_not_deleted_while_it_has_members() -> None:
    bench = Bench()
    bench.join(protocol_type="connect")
    with pytest.raises(PeerError) as refused:
        bench.group.check_offset_delete()
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP


def test_a_deleted_group_is_dead() -> None:
    group = ClassicGroup(GROUP, CLASSIC_RULES)
    group.replay(ClassicGroupTombstone(GROUP))
    assert group.state_name == "Dead"
    assert _code(group, "m", 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    for check in (group.check_delete, group.check_offset_delete):
        with pytest.raises(PeerError) as refused:
            check()
        assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    with pytest.raises(PeerError) as refused:
        group.check_fetch(None, -1)
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_record_of_another_type_is_not_replayed() -> None:
    with pytest.raises(TypeError):
        ClassicGroup(GROUP, CLASSIC_RULES).replay(OffsetTombstone(GROUP, "t", 0))


def test_a_description_has_metadata_and_assignments_of_a_stable_group_only() -> None:
    bench = Bench()
    ticket = bench.join(instance_id="i")
    bench.pass_ms(DELAY_MS)
    member_id = bench.joined(ticket).member_id
    shown = bench.group.describe()
    assert (shown.group_state, shown.protocol_type, shown.protocol_data) == (
        "CompletingRebalance",
        "consumer",
        "",
    )
    assert (shown.members[0].member_metadata, shown.members[0].member_assignment) == (b"", b"")
    bench.sync(member_id, {member_id: b"1"})
    shown = bench.group.describe()
    assert (shown.group_state, shown.protocol_data) == ("Stable", "range")
    member = shown.members[0]
    assert (member.member_id, member.group_instance_id) == (member_id, "i")
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (b"m", b"1")


def test_offsets_expire_from_when_the_group_became_empty() -> None:
    bench = Bench()
    assert bench.group.offset_expiry_starts_ms(5) == 5
    (member,) = bench.stable(None)
    assert bench.group.offset_expiry_starts_ms(5) is None
    bench.leave((member, None))
    assert bench.group.offset_expiry_starts_ms(5) == bench.now_ms


def test_offsets_of_unsubscribed_topics_expire_from_their_commit() -> None:
    bench = Bench()
    ticket = bench.join(metadata=TWO_TOPICS)
    bench.pass_ms(DELAY_MS)
    assert bench.group.offset_expiry_starts_ms(5) is None
    bench.sync(bench.joined(ticket).member_id)
    assert bench.group.offset_expiry_starts_ms(5) == 5
    assert bench.group.is_subscribed_to("a")
    assert bench.group.is_subscribed_to("bc")
    assert not bench.group.is_subscribed_to("c")


def test_consumers_with_unreadable_metadata_may_be_subscribed_to_any_topic() -> None:
    bench = Bench()
    bench.stable(None)
    assert bench.group.subscribed_topics() is None
    assert bench.group.is_subscribed_to("a")


def test_a_state_changes_only_by_the_transitions() -> None:
    group = ClassicGroup(GROUP, CLASSIC_RULES)
    with pytest.raises(RuntimeError):
        group.move(ClassicGroupState.COMPLETING_REBALANCE, 0)
