"""Commits and fetches of a member, by the epoch in its request (KIP-1251)."""

from dataclasses import replace

import pytest

from ottla.coordinators.group.consumer.member import ConsumerGroupMember, new_member
from ottla.coordinators.group.consumer.offset_checks import check_fetch, commit_check
from ottla.coordinators.group.offsets import PartitionCommit, accept_any
from ottla.coordinators.group.records import ClassicMetadata
from ottla.errors import ErrorCode, PeerError
from tests.support.coordinators.consumer_clients import topic_id

LOGS = topic_id(1)
CLASSIC = ClassicMetadata(10_000, (("range", b""),))


def member(*, is_classic: bool = False) -> ConsumerGroupMember:
    """At epoch 5; partition 0 was assigned at epoch 3, partition 1 at 5, and 2 is to be revoked."""
    saved, current = new_member("g", "m")
    return ConsumerGroupMember(
        replace(saved, classic=CLASSIC if is_classic else None),
        replace(
            current,
            epoch=5,
            assigned={LOGS: (0, 1)},
            assigned_epochs={LOGS: (3, 5)},
            revoking={LOGS: (2,)},
            revoking_epochs={LOGS: (2,)},
        ),
    )


def commit(partition: int) -> PartitionCommit:
    return PartitionCommit("logs", LOGS, partition, 7, -1, None)


def test_a_commit_with_the_current_epoch_is_accepted() -> None:
    assert commit_check(member(), 5, 9) is accept_any


@pytest.mark.parametrize(
    ("is_classic", "code"),
    [(False, ErrorCode.STALE_MEMBER_EPOCH), (True, ErrorCode.ILLEGAL_GENERATION)],
)
def test_an_older_epoch_counts_for_partitions_that_were_assigned_by_then(
    is_classic: bool, code: ErrorCode
) -> None:
    check = commit_check(member(is_classic=is_classic), 3, 9)
    assert [check(commit(index)) for index in range(4)] == [
        ErrorCode.NONE,
        code,
        ErrorCode.NONE,
        code,
    ]


def test_a_later_epoch_is_refused() -> None:
    with pytest.raises(PeerError) as refused:
        commit_check(member(), 6, 9)
    assert refused.value.code is ErrorCode.STALE_MEMBER_EPOCH


def test_an_old_version_is_for_classic_members_only() -> None:
    assert commit_check(member(is_classic=True), 5, 8) is accept_any
    with pytest.raises(PeerError) as refused:
        commit_check(member(), 5, 8)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("is_classic", [False, True])
def test_an_outdated_epoch_in_a_transaction_is_an_illegal_generation(is_classic: bool) -> None:
    its = member(is_classic=is_classic)
    assert commit_check(its, 5, 3, is_transactional=True) is accept_any
    check = commit_check(its, 3, 3, is_transactional=True)
    assert [check(commit(index)) for index in (0, 1)] == [
        ErrorCode.NONE,
        ErrorCode.ILLEGAL_GENERATION,
    ]
    with pytest.raises(PeerError) as refused:
        commit_check(its, 6, 3, is_transactional=True)
    assert refused.value.code is ErrorCode.ILLEGAL_GENERATION


def test_a_fetch_needs_the_current_epoch() -> None:
    check_fetch(member(), 5)
    with pytest.raises(PeerError) as refused:
        check_fetch(member(), 4)
    assert refused.value.code is ErrorCode.STALE_MEMBER_EPOCH
