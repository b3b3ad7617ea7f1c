"""The migration of a group between the protocols: answers to both kinds of members, and records."""

from collections.abc import Callable

import pytest

from ottla.coordinators.group.classic.states import ClassicGroupState
from ottla.coordinators.group.consumer.heartbeat_request import SpecialEpoch
from ottla.coordinators.group.consumer.rules import ConsumerRules
from ottla.coordinators.group.offsets import PartitionCommit
from ottla.coordinators.group.records import ClassicGroupSaved, ConsumerMemberSaved, decode
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.consumer_protocol import TopicPartitions
from ottla.protocol.messages import leave_group
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, Protocol
from ottla.settings.table.consumer_groups import MigrationPolicy
from tests.support.coordinators.consumer_clients import GROUP, Client, FakeTopics
from tests.support.coordinators.mixed_clients import (
    COOPERATIVE,
    EAGER,
    REBALANCE_MS,
    SESSION_MS,
    ClassicClient,
    MixedCoordinator,
    assignment_bytes,
    subscription_bytes,
)

AT_ONCE = ConsumerRules(assignment_interval_ms=0)


def coordinator(**rules: object) -> MixedCoordinator:
    return MixedCoordinator(FakeTopics(logs=4), AT_ONCE._replace(**rules))


def classic(group: MixedCoordinator, name: str, **said: str) -> ClassicClient:
    """A classic member that has joined and synced."""
    client = ClassicClient(group, name, ("logs",), **said)  # type: ignore[arg-type]
    for _ in range(4):
        client.act()
        group.pass_time(1)
    assert client.generation >= 0
    return client


def two_classic(group: MixedCoordinator) -> list[ClassicClient]:
    both = [classic(group, "one"), ClassicClient(group, "two", ("logs",))]
    settle(group, *both)
    return both


def new(group: MixedCoordinator, name: str, instance_id: str | None = None) -> Client:
    """A member of the consumer protocol that has joined."""
    client = Client(group, name, ("logs",), instance_id=instance_id)  # type: ignore[arg-type]
    client.beat()
    client.reconcile()
    return client


def settle(group: MixedCoordinator, *clients: ClassicClient | Client) -> None:
    for _ in range(6):
        for client in clients:
            if isinstance(client, ClassicClient):
                client.act()
            else:
                client.beat()
                client.reconcile()
        group.pass_time(1_000)
        group.check_replayed()


def shares(*clients: ClassicClient | Client) -> list[int]:
    owned = [index for client in clients for _, index in client.owned]
    assert sorted(owned) == [0, 1, 2, 3]
    return sorted(len(client.owned) for client in clients)


def refusal(ask: Callable[[], object]) -> ErrorCode:
    with pytest.raises(PeerError) as refused:
        ask()
    return refused.value.code


def saved_now(group: MixedCoordinator, kind: type) -> list[object]:
    found = [decode(key, value) for key, value in group.log]
    return [record for record in found if isinstance(record, kind)]


# Upgrade


@pytest.mark.parametrize("protocol", [EAGER, COOPERATIVE])
def test_the_first_consumer_member_upgrades_the_group(protocol: str) -> None:
    group = coordinator()
    old = classic(group, "old", protocol=protocol)
    generation = old.generation
    assert group.classic.state is ClassicGroupState.STABLE
    first = new(group, "new")
    assert group.consumer.saved.epoch == generation + 1
    assert group.consumer.saved.members[old.member_id].is_classic
    settle(group, old, first)
    assert shares(old, first) == [2, 2]
    assert group.consumer.state_name == "Stable"


def test_a_classic_member_keeps_its_partitions_until_it_has_revoked_them() -> None:
    group = coordinator()
    old = classic(group, "old", protocol=COOPERATIVE)
    first = new(group, "new")
    assert (len(old.owned), len(first.owned)) == (4, 0)
    first.beat()
    first.reconcile()
    assert not first.owned
    settle(group, old, first)
    assert shares(old, first) == [2, 2]


def test_the_records_of_a_classic_member_are_kafkas() -> None:
    group = coordinator()
    old = classic(group, "old", protocol=EAGER, instance_id="i")
    new(group, "new")
    (member,) = [
        each
        for each in saved_now(group, ConsumerMemberSaved)
        if isinstance(each, ConsumerMemberSaved) and each.member_id == old.member_id
    ]
    assert (member.instance_id, member.topics, member.regex) == ("i", ("logs",), "")
    assert member.rebalance_timeout_ms == REBALANCE_MS
    assert member.classic is not None
    assert member.classic.session_timeout_ms == SESSION_MS
    assert [name for name, _ in member.classic.protocols] == [EAGER]


def test_an_upgrade_answers_waiting_joins() -> None:
    group = coordinator()
    old = classic(group, "old")
    late = ClassicClient(group, "late", ("logs",))
    late.act()
    late.act()
    assert late.waits_for == "join"
    first = new(group, "new")
    assert (late.waits_for, late.generation) == ("", 1)
    settle(group, old, late, first)
    assert shares(old, late, first) == [1, 1, 2]


def test_partitions_that_are_not_revoked_yet_are_not_assigned_by_an_upgrade() -> None:
    """In a cooperative rebalance a partition has no assignment until it was revoked."""
    group = coordinator()
    old = classic(group, "old")
    second = ClassicClient(group, "second", ("logs",))
    second.act()
    second.act()
    # The first member rejoins and assigns half of its partitions to no member. It has not received
    # its own assignment yet.
    old.act()
    old._synced = lambda answer: None  # type: ignore[method-assign]
    old.act()
    still_owned = set(old.owned)
    assert len(still_owned) == 4
    first = new(group, "new")
    assert first.owned.isdisjoint(still_owned)


@pytest.mark.parametrize("policy", [MigrationPolicy.DOWNGRADE, MigrationPolicy.DISABLED])
def test_a_group_stays_classic_if_the_policy_forbids_an_upgrade(policy: MigrationPolicy) -> None:
    group = coordinator(migration=policy)
    old = classic(group, "old")
    assert refusal(lambda: new(group, "new")) is ErrorCode.GROUP_ID_NOT_FOUND
    assert group.classic.state is ClassicGroupState.STABLE
    old.act()
    assert old.errors == []


def test_a_group_that_is_too_large_stays_classic() -> None:
    group = coordinator(size_max=1)
    two_classic(group)
    assert refusal(lambda: new(group, "new")) is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("assignment", "metadata", "protocol_type"),
    [
        (assignment_bytes([], b"of an assignor of its own"), subscription_bytes(["logs"]), None),
        (b"\x00\x00\x00", subscription_bytes(["logs"]), None),
        (b"", b"opaque", None),
        (b"", subscription_bytes(["logs"]), "connect"),
    ],
)
def test_a_group_of_other_members_than_consumers_stays_classic(
    assignment: bytes, metadata: bytes, protocol_type: str | None
) -> None:
    group = coordinator()
    old = classic(group, "old")
    member = group.classic.roster[old.member_id]
    member.assignment = assignment
    member.protocols = (Protocol(name=COOPERATIVE, metadata=metadata),)
    group.classic.protocol_type = protocol_type or "consumer"
    assert refusal(lambda: new(group, "new")) is ErrorCode.GROUP_ID_NOT_FOUND
    assert group.classic.state is ClassicGroupState.STABLE


def test_a_partition_assigned_to_two_members_goes_to_the_first() -> None:
    group = coordinator()
    both = two_classic(group)
    for member in group.classic.roster:
        every = TopicPartitions(topic="logs", partitions=(0, 1, 2, 3, 3))
        member.assignment = assignment_bytes([every])
    new(group, "new")
    (topic,) = [
        shape.topic_id for name in group.topics.names if (shape := group.topics.shape(name))
    ]
    assert {group.consumer.saved.owner(topic, index) for index in range(4)} == {both[0].member_id}


def test_a_static_member_that_rejoins_by_the_other_protocol_is_the_same_member() -> None:
    group = coordinator()
    old = classic(group, "old", instance_id="i")
    again = new(group, "new", instance_id="i")
    assert set(group.consumer.saved.members) == {"new"}
    settle(group, again)
    assert shares(again) == [4]
    asked = HeartbeatRequest(
        group_id=GROUP,
        generation_id=old.generation,
        member_id=old.member_id,
        group_instance_id="i",
    )
    assert refusal(lambda: group.beat(asked)) is ErrorCode.FENCED_INSTANCE_ID


# Classic members of a consumer group


def join_request(member_id: str = "", **said: object) -> JoinGroupRequest:
    given: dict[str, object] = {
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": (Protocol(name=EAGER, metadata=subscription_bytes(["logs"])),),
        **said,
    }
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        member_id=member_id,
        **given,  # type: ignore[arg-type]
    )


def test_the_join_of_a_classic_member_is_answered_at_once() -> None:
    group = coordinator()
    new(group, "new")
    answers: list[JoinGroupResponse] = []
    group.join(join_request(), answers.append, "fresh")
    group.join(join_request("fresh"), answers.append, "other")
    required, joined = answers
    assert (required.error_code, required.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "fresh")
    assert (joined.error_code, joined.leader, joined.members) == (ErrorCode.NONE, "", ())
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", EAGER)
    assert joined.generation_id == group.consumer.saved.epoch == 3


@pytest.mark.parametrize(
    "said",
    [
        {"protocol_type": "connect"},
        {"protocols": (Protocol(name=EAGER, metadata=b"opaque"),)},
        {"protocols": (Protocol(name="unheard of", metadata=subscription_bytes(["logs"])),)},
    ],
)
def test_a_classic_member_without_a_common_protocol_is_refused(said: dict[str, object]) -> None:
    group = coordinator()
    settle(group, new(group, "new"), classic(group, "old", protocol=EAGER))
    before = len(group.log)
    request = join_request("one more", **said)
    code = refusal(lambda: group.join(request, lambda _: None, "fresh"))
    assert code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert len(group.log) == before


def test_classic_members_are_refused_if_migration_is_disabled() -> None:
    group = coordinator(migration=MigrationPolicy.DISABLED)
    new(group, "new")
    code = refusal(lambda: group.join(join_request(), lambda _: None, "fresh"))
    assert code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_refuses_classic_members() -> None:
    group = coordinator(size_max=1)
    new(group, "new")
    request = join_request("one more")
    code = refusal(lambda: group.join(request, lambda _: None, "fresh"))
    assert code is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_requests_of_unknown_members_are_refused_as_in_kafka() -> None:
    group = coordinator()
    first, old = new(group, "new"), classic(group, "old", instance_id="i")
    settle(group, first, old)

    def beat(member_id: str, generation: int, instance_id: str | None = None) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
        )
        return refusal(lambda: group.beat(request))

    assert beat("nobody", old.generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert beat("nobody", old.generation, "nothing") is ErrorCode.UNKNOWN_MEMBER_ID
    assert beat("nobody", old.generation, "i") is ErrorCode.FENCED_INSTANCE_ID
    assert beat("new", first.epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    assert beat(old.member_id, old.generation - 1, "i") is ErrorCode.ILLEGAL_GENERATION


def test_a_classic_member_is_removed_after_its_own_session_timeout() -> None:
    group = coordinator()
    first, old = new(group, "new"), classic(group, "old")
    settle(group, first, old)
    group.pass_time(SESSION_MS)
    assert old.member_id not in group.consumer.saved.members
    settle(group, first)
    assert shares(first) == [4]


def test_a_member_that_only_sends_heartbeats_instead_of_rejoining_is_removed() -> None:
    group = coordinator()
    first, old = new(group, "new"), classic(group, "old")
    settle(group, first, old)
    other = new(group, "other")
    for _ in range(REBALANCE_MS // 5_000 + 1):
        first.beat()
        other.beat()
        if old.member_id in group.consumer.saved.members:
            old.beat()
        group.pass_time(5_000)
    assert old.member_id not in group.consumer.saved.members


def test_a_member_that_joined_and_does_not_sync_is_removed() -> None:
    group = coordinator()
    first = new(group, "new")
    group.join(join_request("silent"), lambda _: None, "fresh")
    beat = HeartbeatRequest(group_id=GROUP, generation_id=3, member_id="silent")
    for _ in range(REBALANCE_MS // 5_000):
        assert "silent" in group.consumer.saved.members
        group.beat(beat)
        first.beat()
        first.reconcile()
        group.pass_time(5_000)
    assert "silent" not in group.consumer.saved.members


def test_a_commit_with_an_older_epoch_counts_for_partitions_owned_since_then() -> None:
    """KIP-1251: the epoch at which a partition was assigned decides; codes by protocol."""
    group = coordinator()
    first, old = new(group, "new"), classic(group, "old", protocol=COOPERATIVE)
    settle(group, first, old)
    generation, epoch = old.generation, first.epoch
    new(group, "other")
    settle(group, first, old)
    shape = group.topics.shape("logs")
    assert shape is not None

    def codes(member_id: str, at: int, version: int) -> list[ErrorCode]:
        check = group.consumer.check_commit(member_id, None, at, version)
        return [
            check(PartitionCommit("logs", shape.topic_id, index, 5, -1, None)) for index in range(4)
        ]

    old_codes, new_codes = codes(old.member_id, generation, 2), codes("new", epoch, 9)
    kept = {index for _, index in old.owned}
    assert {index for index, code in enumerate(old_codes) if not code} == kept
    assert set(old_codes) == {ErrorCode.NONE, ErrorCode.ILLEGAL_GENERATION}
    assert set(new_codes) == {ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH}
    ahead = group.consumer.check_commit
    code = refusal(lambda: ahead(old.member_id, None, old.generation + 1, 2))
    assert code is ErrorCode.ILLEGAL_GENERATION
    fetch = group.consumer.check_fetch
    assert refusal(lambda: fetch(old.member_id, generation)) is ErrorCode.ILLEGAL_GENERATION


def test_an_admin_tool_removes_members_of_both_protocols() -> None:
    group = coordinator()
    first, old = new(group, "new", "j"), classic(group, "old", instance_id="i")
    third = new(group, "third")
    settle(group, first, old, third)
    gone = group.leave(
        leave_group.Member(member_id="", group_instance_id="i"),
        leave_group.Member(member_id="", group_instance_id="j"),
        leave_group.Member(member_id="", group_instance_id="unknown"),
        leave_group.Member(member_id="wrong", group_instance_id="i"),
    )
    assert [each.error_code for each in gone.members] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ]
    assert set(group.consumer.saved.members) == {"third"}


# Downgrade


def test_when_the_last_consumer_member_leaves_the_group_is_downgraded() -> None:
    group = coordinator()
    both = two_classic(group)
    first = new(group, "new")
    settle(group, *both, first)
    epoch = group.consumer.saved.epoch
    first.leave()
    assert (group.classic.state, group.classic.generation) == (
        ClassicGroupState.PREPARING_REBALANCE,
        epoch,
    )
    settle(group, *both)
    assert shares(*both) == [2, 2]
    assert (group.classic.state, group.classic.generation) == (ClassicGroupState.STABLE, epoch + 1)


def test_an_expired_session_downgrades_a_group_as_well() -> None:
    group = coordinator(session_timeout_ms=5_000)
    old = classic(group, "old")
    settle(group, old, new(group, "new"))
    for _ in range(3):
        old.act()
        group.pass_time(2_000)
    assert group.classic.state is ClassicGroupState.PREPARING_REBALANCE
    settle(group, old)
    assert shares(old) == [4]


def test_a_downgraded_group_rebalances_after_a_load_too() -> None:
    """The partitions of the member that left have no owner, so the members have to rebalance."""
    group = coordinator()
    old = classic(group, "old")
    first = new(group, "new")
    settle(group, old, first)
    first.leave()
    group.restart(cleaned=len(group.log))
    assert group.classic.state is ClassicGroupState.PREPARING_REBALANCE
    settle(group, old)
    assert shares(old) == [4]
    (*_, last) = saved_now(group, ClassicGroupSaved)
    assert isinstance(last, ClassicGroupSaved)
    assert last.leader == old.member_id


def test_a_member_that_does_not_rejoin_after_a_downgrade_is_removed() -> None:
    group = coordinator()
    both = two_classic(group)
    first = new(group, "new")
    settle(group, *both, first)
    first.leave()
    both[0].act()
    both[0].act()
    group.pass_time(REBALANCE_MS)
    assert len(group.classic.roster) == 1


@pytest.mark.parametrize(
    "rules",
    [{"migration": MigrationPolicy.UPGRADE}, {"classic_size_max": 1}],
)
def test_a_group_that_may_not_be_downgraded_assigns_the_free_partitions(
    rules: dict[str, object],
) -> None:
    group = coordinator()
    both = two_classic(group)
    first = new(group, "new")
    settle(group, *both, first)
    group.rules = group.consumer.rules = AT_ONCE._replace(**rules)
    first.leave()
    settle(group, *both)
    assert group.consumer.state_name == "Stable"
    assert shares(*both) == [2, 2]


def test_a_group_that_does_not_fit_one_record_is_not_downgraded() -> None:
    group = coordinator()
    both = two_classic(group)
    settle(group, *both, new(group, "new"))
    group.consumer.rules = AT_ONCE._replace(saved_bytes_max=200)
    decision = group.consumer.left(("new",), group.now_ms)
    assert ClassicGroupSaved not in map(type, decision.records)


def test_the_last_consumer_member_that_rejoins_as_a_classic_one_downgrades_the_group() -> None:
    group = coordinator()
    old = classic(group, "old")
    first = new(group, "new", instance_id="i")
    settle(group, old, first)
    epoch, before = group.consumer.saved.epoch, set(first.owned)
    first.leave(SpecialEpoch.LEAVE_STATIC)
    again = ClassicClient(group, "again", ("logs",), instance_id="i")
    again.act()
    assert (group.classic.state, group.classic.generation) == (ClassicGroupState.STABLE, epoch)
    assert again.owned == before
    old.act()
    assert old.errors == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert shares(old, again) == [2, 2]


def test_a_downgraded_group_with_a_target_due_has_to_rejoin() -> None:
    group = coordinator()
    old = classic(group, "old")
    first = new(group, "new", instance_id="i")
    settle(group, old, first)
    first.leave(SpecialEpoch.LEAVE_STATIC)
    group.topics.grow("logs", 6)
    again = ClassicClient(group, "again", ("logs",), instance_id="i")
    again.act()
    assert group.classic.state is ClassicGroupState.PREPARING_REBALANCE
    settle(group, old, again)
    assert len(old.owned | again.owned) == 6
