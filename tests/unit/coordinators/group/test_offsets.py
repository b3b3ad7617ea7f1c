"""Committed offsets: commits, deletion, expiry."""

import pytest

from ottla.coordinators.group.offsets import NEVER_MS, Offsets, PartitionCommit
from ottla.coordinators.group.records import OffsetTombstone
from ottla.errors import ErrorCode
from ottla.protocol.primitives import ZERO_UUID, Uuid

FIRST, SECOND = Uuid(bytes(15) + b"\x01"), Uuid(bytes(15) + b"\x02")
NOW_MS = 1_000_000
RETENTION_MS = 1_000


def commit(partition: int = 0, offset: int = 5, metadata: str | None = "m") -> PartitionCommit:
    return PartitionCommit("events", FIRST, partition, offset, 3, metadata)


def with_commits(*commits: PartitionCommit, group: str = "g", expire_ms: int = NEVER_MS) -> Offsets:
    offsets = Offsets()
    for record in offsets.commit(group, commits, 4096, NOW_MS, expire_ms).records:
        offsets.replay(record)
    return offsets


def test_a_committed_offset_has_its_metadata_and_leader_epoch() -> None:
    found = with_commits(commit()).get("g", "events", 0)
    assert found is not None
    assert (found.offset, found.leader_epoch, found.metadata) == (5, 3, "m")
    assert found.commit_ms == NOW_MS


def test_nothing_is_committed_before_it_is_replayed() -> None:
    offsets = Offsets()
    assert offsets.commit("g", [commit()], 4096, NOW_MS, NEVER_MS).records
    assert "g" not in offsets


def test_a_later_commit_counts_even_if_it_goes_back() -> None:
    found = with_commits(commit(offset=50), commit(offset=7)).get("g", "events", 0)
    assert found is not None
    assert found.offset == 7


def test_null_metadata_is_stored_as_an_empty_string() -> None:
    found = with_commits(commit(metadata=None)).get("g", "events", 0)
    assert found is not None
    assert found.metadata == ""


def test_a_partition_with_too_long_metadata_is_refused_on_its_own() -> None:
    committed = Offsets().commit("g", [commit(0, metadata="12345"), commit(1)], 4, NOW_MS, NEVER_MS)
    assert committed.codes == [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]
    assert [record.partition for record in committed.records] == [1]


@pytest.mark.parametrize(
    ("topic_id", "is_forgotten"), [(FIRST, True), (ZERO_UUID, True), (SECOND, False)]
)
def test_a_deletion_removes_only_the_offsets_of_that_topic_id(
    topic_id: Uuid, is_forgotten: bool
) -> None:
    offsets = with_commits(commit())
    assert bool(list(offsets.topic_tombstones("events", topic_id))) is is_forgotten


def test_deleted_topics_are_recognised_by_name_and_id() -> None:
    offsets = with_commits(commit(0), commit(1), commit(2))
    asked = []

    def is_gone(topic: str, topic_id: Uuid) -> bool:
        asked.append((topic, topic_id))
        return len(asked) != 2

    forgotten = [each.partition for each in offsets.deleted_topic_tombstones("g", is_gone)]
    assert forgotten == [0, 2]
    assert asked == [("events", FIRST)] * 3
    assert list(offsets.deleted_topic_tombstones("h", is_gone)) == []


def test_a_deleted_topic_loses_the_offsets_of_all_groups() -> None:
    offsets = with_commits(commit(0), commit(1))
    for record in with_commits(commit(0), group="h").of("h"):
        offsets.replay(record)
    assert list(offsets.topic_tombstones("events", SECOND)) == []
    forgotten = list(offsets.topic_tombstones("events", FIRST))
    assert {(each.group, each.partition) for each in forgotten} == {("g", 0), ("g", 1), ("h", 0)}
    for record in forgotten:
        offsets.replay(record)
    assert [*offsets.of("g"), *offsets.of("h")] == []


def test_a_group_without_offsets_stays_until_it_is_dropped() -> None:
    offsets = with_commits(commit())
    offsets.drop("g")
    assert "g" in offsets, "something is committed for it"
    offsets.replay(OffsetTombstone("g", "events", 0))
    assert "g" in offsets
    offsets.drop("g")
    assert "g" not in offsets
    offsets.drop("g")
    assert len(offsets) == 0


@pytest.mark.parametrize(
    ("starts_ms", "now_ms", "has_expired"),
    [
        (NOW_MS, NOW_MS + RETENTION_MS - 1, False),
        (NOW_MS, NOW_MS + RETENTION_MS, True),
        (NOW_MS + 500, NOW_MS + RETENTION_MS, False),
        (None, NOW_MS * 2, False),
    ],
)
def test_offsets_expire_after_their_retention(
    starts_ms: int | None, now_ms: int, has_expired: bool
) -> None:
    offsets = with_commits(commit())
    expiry = offsets.expired("g", lambda _: starts_ms, lambda _: False, RETENTION_MS, now_ms)
    assert expiry.is_all is has_expired
    assert expiry.records == ([OffsetTombstone("g", "events", 0)] if has_expired else [])


def test_the_retention_of_an_old_clients_commit_counts() -> None:
    offsets = with_commits(commit(), expire_ms=NOW_MS + 10)
    expiry = offsets.expired("g", lambda at: at, lambda _: False, RETENTION_MS, NOW_MS + 10)
    assert expiry.is_all


def test_offsets_of_a_topic_in_use_do_not_expire() -> None:
    offsets = with_commits(commit())
    expiry = offsets.expired(
        "g", lambda at: at, lambda topic: topic == "events", RETENTION_MS, NOW_MS * 2
    )
    assert (expiry.records, expiry.is_all) == ([], False)
