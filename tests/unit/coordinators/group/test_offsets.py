"""Committed offsets, as a thing of its own."""

import pytest

from ottla.coordinators.group.offsets import NEVER_MS, Commit, Offsets
from ottla.coordinators.group.records import OffsetForgotten
from ottla.errors import ErrorCode
from ottla.protocol.primitives import ZERO_UUID, Uuid

FIRST, SECOND = Uuid(bytes(15) + b"\x01"), Uuid(bytes(15) + b"\x02")
NOW_MS = 1_000_000
RETENTION_MS = 1_000


def wish(partition: int = 0, offset: int = 5, metadata: str | None = "m") -> Commit:
    return Commit("events", FIRST, partition, offset, 3, metadata)


def with_commits(*commits: Commit, group: str = "g", expire_ms: int = NEVER_MS) -> Offsets:
    offsets = Offsets()
    for record in offsets.commit(group, commits, 4096, NOW_MS, expire_ms).records:
        offsets.replay(record)
    return offsets


def test_what_was_committed_is_found_with_its_note_and_epoch() -> None:
    found = with_commits(wish()).get("g", "events", 0)
    assert found is not None
    assert (found.offset, found.leader_epoch, found.metadata) == (5, 3, "m")
    assert found.commit_ms == NOW_MS


def test_nothing_is_committed_before_it_is_replayed() -> None:
    offsets = Offsets()
    assert offsets.commit("g", [wish()], 4096, NOW_MS, NEVER_MS).records
    assert "g" not in offsets


def test_a_later_commit_counts_even_if_it_goes_back() -> None:
    found = with_commits(wish(offset=50), wish(offset=7)).get("g", "events", 0)
    assert found is not None
    assert found.offset == 7


def test_no_note_comes_back_as_an_empty_one() -> None:
    found = with_commits(wish(metadata=None)).get("g", "events", 0)
    assert found is not None
    assert found.metadata == ""


def test_a_note_that_is_too_long_is_refused_by_itself() -> None:
    committed = Offsets().commit("g", [wish(0, metadata="12345"), wish(1)], 4, NOW_MS, NEVER_MS)
    assert committed.codes == [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]
    assert [record.partition for record in committed.records] == [1]


@pytest.mark.parametrize(
    ("topic_id", "is_forgotten"), [(FIRST, True), (ZERO_UUID, True), (SECOND, False)]
)
def test_a_deletion_forgets_what_was_committed_of_that_topic_alone(
    topic_id: Uuid, is_forgotten: bool
) -> None:
    offsets = with_commits(wish())
    assert bool(list(offsets.forget_topic("events", topic_id))) is is_forgotten


def test_what_is_gone_is_decided_by_name_and_id() -> None:
    offsets = with_commits(wish(0), wish(1), wish(2))
    asked = []

    def is_gone(topic: str, topic_id: Uuid) -> bool:
        asked.append((topic, topic_id))
        return len(asked) != 2

    forgotten = [each.partition for each in offsets.forget_gone("g", is_gone)]
    assert forgotten == [0, 2]
    assert asked == [("events", FIRST)] * 3
    assert list(offsets.forget_gone("h", is_gone)) == []


def test_a_deleted_topic_takes_the_offsets_of_all_groups_along() -> None:
    offsets = with_commits(wish(0), wish(1))
    for record in with_commits(wish(0), group="h").of("h"):
        offsets.replay(record)
    assert list(offsets.forget_topic("events", SECOND)) == []
    forgotten = list(offsets.forget_topic("events", FIRST))
    assert {(each.group, each.partition) for each in forgotten} == {("g", 0), ("g", 1), ("h", 0)}
    for record in forgotten:
        offsets.replay(record)
    assert [*offsets.of("g"), *offsets.of("h")] == []


def test_a_group_without_offsets_is_one_until_it_is_dropped() -> None:
    offsets = with_commits(wish())
    offsets.drop("g")
    assert "g" in offsets, "something is committed for it"
    offsets.replay(OffsetForgotten("g", "events", 0))
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
def test_offsets_expire_when_their_time_is_over(
    starts_ms: int | None, now_ms: int, has_expired: bool
) -> None:
    offsets = with_commits(wish())
    expiry = offsets.expired("g", lambda _: starts_ms, lambda _: False, RETENTION_MS, now_ms)
    assert expiry.is_all is has_expired
    assert expiry.records == ([OffsetForgotten("g", "events", 0)] if has_expired else [])


def test_what_a_client_said_itself_about_its_offsets_time_counts() -> None:
    offsets = with_commits(wish(), expire_ms=NOW_MS + 10)
    expiry = offsets.expired("g", lambda at: at, lambda _: False, RETENTION_MS, NOW_MS + 10)
    assert expiry.is_all


def test_offsets_of_a_topic_that_is_read_do_not_expire() -> None:
    offsets = with_commits(wish())
    expiry = offsets.expired(
        "g", lambda at: at, lambda topic: topic == "events", RETENTION_MS, NOW_MS * 2
    )
    assert (expiry.records, expiry.is_all) == ([], False)
