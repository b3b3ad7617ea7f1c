"""Guards of appends that wait for the verification of their transaction."""

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.replication.append import verification_guards
from ottla.replication.append.verification_guards import VerificationGuard, VerificationGuards


def begin(
    guards: VerificationGuards,
    producer_id: int = 7,
    *,
    epoch: int = 0,
    sequence: int = 0,
    leader_epoch: int = 0,
) -> VerificationGuard:
    return guards.begin(producer_id, epoch, sequence, leader_epoch)


def test_a_guard_is_valid_until_a_marker_and_a_later_one_until_the_next() -> None:
    guards = VerificationGuards()
    before = begin(guards)
    assert guards.is_valid(before)
    guards.invalidate(7)
    after = begin(guards)
    assert (guards.is_valid(before), guards.is_valid(after)) == (False, True)
    guards.end(before, is_retried=True)
    assert guards.is_valid(after), "the end of an invalid guard is not that of its successor"
    guards.end(after, is_retried=False)
    assert len(guards) == 0


def test_requests_of_one_producer_share_a_guard_until_the_last_has_ended() -> None:
    guards = VerificationGuards()
    first, second = begin(guards), begin(guards)
    guards.end(first, is_retried=False)
    assert guards.is_valid(second)
    guards.end(second, is_retried=False)
    assert len(guards) == 0


def test_a_guard_of_an_earlier_leader_epoch_is_not_shared() -> None:
    guards = VerificationGuards()
    before = begin(guards, leader_epoch=0)
    after = begin(guards, leader_epoch=1)
    assert (guards.is_valid(before), guards.is_valid(after)) == (False, True)
    assert (before.leader_epoch, after.leader_epoch) == (0, 1)
    guards.end(after, is_retried=True)
    guards.end(before, is_retried=True)
    assert begin(guards, leader_epoch=2).requests == 1


def test_markers_of_unknown_producers_leave_no_trace() -> None:
    guards = VerificationGuards()
    guards.invalidate(7)
    assert len(guards) == 0


def test_the_lowest_sequence_of_the_newest_epoch_is_kept() -> None:
    guards = VerificationGuards()
    guard = begin(guards, epoch=1, sequence=5)
    assert guard.lowest_sequence == 5
    for epoch, sequence, lowest in [(1, 9, 5), (1, 3, 3), (0, 0, 3), (2, 8, 8), (1, 1, 8)]:
        begin(guards, epoch=epoch, sequence=sequence)
        assert guard.lowest_sequence == lowest


def test_the_lowest_sequence_outlives_a_request_that_is_retried() -> None:
    guards = VerificationGuards()
    guards.end(begin(guards, sequence=3), is_retried=True)
    assert begin(guards, sequence=4).lowest_sequence == 3
    guards.invalidate(7)
    guards.end(begin(guards, sequence=3), is_retried=False)
    assert begin(guards, sequence=4).lowest_sequence == 4


def test_a_marker_forgets_what_was_retried() -> None:
    guards = VerificationGuards()
    guards.end(begin(guards, sequence=3), is_retried=True)
    guards.invalidate(7)
    assert len(guards) == 0


def test_forged_producer_ids_are_refused_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification_guards, "GUARDS_MAX", 3)
    guards = VerificationGuards()
    held = [begin(guards, producer_id) for producer_id in range(3)]
    with pytest.raises(PeerError) as caught:
        begin(guards, 9)
    assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert begin(guards, 2) is held[2]
    guards.end(held[0], is_retried=True)
    assert begin(guards, 9).producer_id == 9
    with pytest.raises(PeerError):
        begin(guards, 0, sequence=5)
    assert len(guards) == 4, "what was retried is still known"


def test_of_retried_producers_the_least_recent_one_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verification_guards, "RETRIED_MAX", 2)
    guards = VerificationGuards()
    for producer_id in (1, 2, 1, 3):
        guards.end(begin(guards, producer_id, sequence=5), is_retried=True)
    lowest = {number: begin(guards, number, sequence=9).lowest_sequence for number in (1, 2, 3)}
    assert lowest == {1: 5, 2: 9, 3: 5}
