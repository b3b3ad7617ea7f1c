"""Offsets of open transactions: which of them take effect, and when they are gone."""

import pytest

from ottla.coordinators.group.offsets import Offsets
from ottla.coordinators.group.records import OffsetCommitted, OffsetTombstone
from ottla.protocol.batch import MarkerKind
from ottla.protocol.primitives import ZERO_UUID, Uuid

COMMIT, ABORT = MarkerKind.COMMIT, MarkerKind.ABORT
FIRST, SECOND = Uuid(bytes(15) + b"\x01"), Uuid(bytes(15) + b"\x02")
A, B = 7, 8
RETENTION_MS = 1_000
LATE_MS = 5_000


def committed(offset: int, *, partition: int = 0, topic_id: Uuid = ZERO_UUID) -> OffsetCommitted:
    return OffsetCommitted("g", "events", partition, offset, commit_ms=0, topic_id=topic_id)


def tombstone(partition: int = 0) -> OffsetTombstone:
    return OffsetTombstone("g", "events", partition)


class Replayed(Offsets):
    """Offsets of one group, with short names for the events of one partition."""

    def plain(self, offset: int) -> None:
        self.replay(committed(offset))

    def within(self, producer_id: int, offset: int, partition: int = 0) -> None:
        self.replay_pending(committed(offset, partition=partition), producer_id)

    @property
    def current(self) -> int | None:
        found = self.get("g", "events", 0)
        return None if found is None else found.offset

    @property
    def is_stable(self) -> bool:
        return not self.pending.has("g", "events", 0)


@pytest.mark.parametrize(("kind", "current"), [(COMMIT, 2), (ABORT, 1)])
def test_a_pending_offset_takes_effect_with_its_marker(kind: MarkerKind, current: int) -> None:
    offsets = Replayed()
    offsets.plain(1)
    offsets.within(A, 2)
    assert (offsets.current, offsets.is_stable, len(offsets.pending)) == (1, False, 1)
    offsets.replay_marker(A, kind)
    assert (offsets.current, offsets.is_stable, len(offsets.pending)) == (current, True, 0)


def test_an_offset_is_unstable_also_where_nothing_is_committed() -> None:
    offsets = Replayed()
    offsets.within(A, 2)
    assert (offsets.current, offsets.is_stable) == (None, False)
    assert "g" in offsets


def test_the_last_offset_of_a_transaction_counts() -> None:
    offsets = Replayed()
    offsets.within(A, 2)
    offsets.within(A, 3)
    assert len(offsets.pending) == 1
    offsets.replay_marker(A, COMMIT)
    assert offsets.current == 3


def test_a_plain_commit_that_was_written_after_a_pending_one_wins() -> None:
    offsets = Replayed()
    offsets.within(A, 2)
    offsets.plain(1)
    assert not offsets.is_stable
    offsets.replay_marker(A, COMMIT)
    assert (offsets.current, offsets.is_stable) == (1, True)


def test_an_offset_that_the_transaction_writes_after_the_plain_one_wins() -> None:
    offsets = Replayed()
    offsets.within(A, 2)
    offsets.plain(1)
    offsets.within(A, 3)
    offsets.replay_marker(A, COMMIT)
    assert offsets.current == 3


@pytest.mark.parametrize("first_to_end", [A, B])
def test_of_two_committed_transactions_the_later_record_wins(first_to_end: int) -> None:
    offsets = Replayed()
    offsets.within(A, 1)
    offsets.within(B, 2)
    for producer_id in (first_to_end, A + B - first_to_end):
        offsets.replay_marker(producer_id, COMMIT)
    assert offsets.current == 2


def test_an_aborted_later_record_does_not_overtake() -> None:
    offsets = Replayed()
    offsets.within(A, 1)
    offsets.within(B, 2)
    offsets.replay_marker(B, ABORT)
    offsets.replay_marker(A, COMMIT)
    assert offsets.current == 1


def test_a_tombstone_removes_the_pending_offsets_before_it_and_not_those_after_it() -> None:
    offsets = Replayed()
    offsets.plain(1)
    offsets.within(A, 2)
    offsets.replay(tombstone())
    assert (offsets.current, offsets.is_stable, len(offsets.pending)) == (None, True, 0)
    offsets.within(B, 3)
    offsets.replay_marker(A, COMMIT)
    assert offsets.current is None
    offsets.replay_marker(B, COMMIT)
    assert offsets.current == 3


def test_a_transaction_keeps_its_other_offsets_if_one_is_removed() -> None:
    offsets = Replayed()
    offsets.within(A, 1)
    offsets.within(A, 2, partition=1)
    offsets.replay(tombstone())
    assert offsets.pending.partitions("g") == [("events", 1)]
    offsets.replay_marker(A, COMMIT)
    assert [each.partition for each in offsets.of("g")] == [1]


def test_a_marker_of_an_unknown_producer_changes_nothing() -> None:
    offsets = Replayed()
    offsets.within(A, 1)
    assert offsets.replay_marker(B, COMMIT) == 0
    assert len(offsets.pending) == 1


def test_a_marker_tells_how_many_offsets_were_committed_with_it() -> None:
    offsets = Replayed()
    offsets.within(A, 1)
    offsets.within(A, 1, partition=1)
    offsets.within(B, 1)
    assert (offsets.replay_marker(A, COMMIT), offsets.replay_marker(B, ABORT)) == (2, 0)


# Expiry and deletion


def expired(offsets: Offsets) -> tuple[list[int], bool]:
    expiry = offsets.expired("g", lambda at: at, lambda _: False, RETENTION_MS, LATE_MS)
    return [each.partition for each in expiry.records], expiry.is_all


def test_a_pending_offset_stops_the_expiry_of_its_partition_and_of_the_group() -> None:
    offsets = Replayed()
    offsets.plain(1)
    offsets.replay(committed(1, partition=1))
    offsets.within(A, 2)
    assert expired(offsets) == ([1], False)
    offsets.replay_marker(A, ABORT)
    assert expired(offsets) == ([0, 1], True)


def test_a_group_with_nothing_but_pending_offsets_is_not_over() -> None:
    offsets = Replayed()
    offsets.within(A, 2)
    assert expired(offsets) == ([], False)
    offsets.drop("g")
    assert "g" in offsets
    offsets.replay_marker(A, ABORT)
    assert expired(offsets) == ([], True)
    assert "g" in offsets
    offsets.drop("g")
    assert "g" not in offsets


def test_the_tombstones_of_a_group_name_each_partition_once() -> None:
    offsets = Replayed()
    offsets.plain(1)
    offsets.within(A, 2)
    offsets.within(A, 2, partition=1)
    offsets.within(B, 3, partition=1)
    assert offsets.partition_count("g") == 2
    assert offsets.group_tombstones("g") == [tombstone(0), tombstone(1)]


def of_topics(first: Uuid | None, *pending: Uuid) -> Offsets:
    """A partition with a committed offset of a topic, and pending ones of others of its name."""
    offsets = Offsets()
    if first is not None:
        offsets.replay(committed(1, topic_id=first))
    for producer_id, topic_id in enumerate(pending):
        offsets.replay_pending(committed(2, topic_id=topic_id), producer_id)
    return offsets


@pytest.mark.parametrize(
    ("offsets", "is_removed"),
    [
        (of_topics(None, FIRST), True),
        (of_topics(None, FIRST, FIRST), True),
        (of_topics(FIRST, FIRST), True),
        (of_topics(None, SECOND), False),
        # The tombstone would remove the offsets of the new topic as well.
        (of_topics(FIRST, SECOND), False),
        (of_topics(None, FIRST, SECOND), False),
    ],
)
def test_a_deleted_topic_loses_its_pending_offsets(offsets: Offsets, is_removed: bool) -> None:
    expected = [tombstone()] if is_removed else []
    assert list(offsets.topic_tombstones("events", FIRST)) == expected
    compared = offsets.deleted_topic_tombstones("g", lambda _, topic_id: topic_id == FIRST)
    assert list(compared) == expected
    assert list(offsets.topic_tombstones("others", FIRST)) == []


def test_an_overtaken_offset_of_a_deleted_topic_does_not_cost_the_new_topic_its_offset() -> None:
    offsets = of_topics(None, FIRST)
    offsets.replay(committed(5, topic_id=SECOND))
    assert list(offsets.topic_tombstones("events", FIRST)) == []
    assert list(offsets.topic_tombstones("events", SECOND)) == [tombstone()]
