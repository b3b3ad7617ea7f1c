"""Guards of appends that wait for the verification of their transaction."""

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.replication.append import verification_guards
from ottla.replication.append.verification_guards import VerificationGuards


def test_a_guard_is_valid_until_a_marker_and_a_later_one_until_the_next() -> None:
    guards = VerificationGuards()
    before = guards.begin(7, 0)
    assert guards.is_valid(before)
    guards.invalidate(7)
    after = guards.begin(7, 0)
    assert (guards.is_valid(before), guards.is_valid(after)) == (False, True)
    guards.end(before)
    assert guards.is_valid(after), "the end of an invalid guard is not that of its successor"
    guards.end(after)
    assert len(guards) == 0


def test_requests_of_one_producer_share_a_guard_until_the_last_has_ended() -> None:
    guards = VerificationGuards()
    first, second = guards.begin(7, 0), guards.begin(7, 0)
    guards.end(first)
    assert guards.is_valid(second)
    guards.end(second)
    assert len(guards) == 0


def test_a_guard_of_an_earlier_leader_epoch_is_not_shared() -> None:
    guards = VerificationGuards()
    before = guards.begin(7, 0)
    after = guards.begin(7, 1)
    assert (guards.is_valid(before), guards.is_valid(after)) == (False, True)
    assert (before.leader_epoch, after.leader_epoch) == (0, 1)


def test_markers_of_unknown_producers_leave_no_trace() -> None:
    guards = VerificationGuards()
    guards.invalidate(7)
    assert len(guards) == 0


def test_forged_producer_ids_are_refused_beyond_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verification_guards, "GUARDS_MAX", 3)
    guards = VerificationGuards()
    held = [guards.begin(producer_id, 0) for producer_id in range(3)]
    with pytest.raises(PeerError) as caught:
        guards.begin(9, 0)
    assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert guards.begin(2, 0) is held[2]
    guards.end(held[0])
    assert guards.begin(9, 0).producer_id == 9
