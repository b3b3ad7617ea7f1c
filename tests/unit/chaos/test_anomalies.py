"""Each anomaly is planted in a small history, and is the only one that the checker finds."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from tests.cluster.chaos.anomalies import Expectations, check, longest_gap_s
from tests.cluster.chaos.anomaly import Anomaly, FinalRead, Kind
from tests.cluster.chaos.history import (
    NO_OFFSET,
    Acknowledged,
    Assigned,
    Event,
    Failed,
    OffsetsCommitted,
    Partition,
    Polled,
    Record,
    Revoked,
    Sent,
    Step,
    Transaction,
)

HERE, THERE = Partition("records", 0), Partition("records", 1)
GROUP = "group"


class Story:
    """Events in their order, a second apart."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def _add(self, kind: type[Event], client: str, **fields: Any) -> "Story":
        time_s = float(len(self.events))
        self.events.append(kind(client=client, time_s=time_s, **fields))
        return self

    def sent(
        self, *values: str, at: Partition = HERE, transaction: str | None = None, producer: int = 1
    ) -> "Story":
        for value in values:
            self._add(
                Sent,
                "producer",
                producer=producer,
                partition=at,
                value=value,
                transaction=transaction,
            )
        return self

    def acknowledged(self, at: Partition = HERE, **offsets: int) -> "Story":
        for value, offset in offsets.items():
            self._add(Acknowledged, "producer", partition=at, offset=offset, value=value)
        return self

    def written(self, at: Partition = HERE, **offsets: int) -> "Story":
        return self.sent(*offsets, at=at).acknowledged(at, **offsets)

    def failed(self, value: str, *, is_definite: bool) -> "Story":
        return self._add(Failed, "producer", value=value, is_definite=is_definite, reason="why")

    def transaction(self, name: str, *steps: Step) -> "Story":
        for step in steps:
            self._add(Transaction, "producer", transaction=name, step=step)
        return self

    def polled(self, client: str = "member", at: Partition = HERE, **offsets: int) -> "Story":
        records = tuple(Record(*at, offset, value) for value, offset in offsets.items())
        return self._add(Polled, client, group=GROUP, records=records)

    def assigned(self, client: str = "member", at: Partition = HERE) -> "Story":
        return self._add(Assigned, client, group=GROUP, partitions=(at,))

    def revoked(self, client: str = "member", at: Partition = HERE) -> "Story":
        return self._add(Revoked, client, group=GROUP, partitions=(at,))

    def committed(self, offset: int, client: str = "member", at: Partition = HERE) -> "Story":
        return self._add(OffsetsCommitted, client, group=GROUP, offsets=((at, offset),))


def log(at: Partition = HERE, **offsets: int) -> list[Record]:
    return [Record(*at, offset, value) for value, offset in offsets.items()]


def read(committed: Iterable[Record], *aborted: Record) -> FinalRead:
    found = [*committed]
    return FinalRead(found, sorted([*found, *aborted]))


def kinds(found: Iterable[Anomaly]) -> list[Kind]:
    return [each.kind for each in found]


def only(story: Story, final: FinalRead) -> Anomaly:
    (found,) = check(story.events, final)
    return found


BEGUN, COMMITTING = Step.BEGUN, Step.COMMITTING


def test_a_clean_history_with_retries_unknown_outcomes_aborts_and_rebalances_has_none() -> None:
    story = Story().written(a=0, b=1)
    # The broker had it already and did not say where.
    story.sent("c").acknowledged(c=NO_OFFSET)
    # One unknown outcome is in the log, one is not; a definite failure is not.
    story.sent("there", "nowhere", "refused", "d")
    story.failed("there", is_definite=False).failed("nowhere", is_definite=False)
    story.failed("refused", is_definite=True).acknowledged(d=4)
    story.transaction("yes", BEGUN).sent("e", transaction="yes").sent(
        "f", at=THERE, transaction="yes"
    )
    story.acknowledged(e=5).acknowledged(THERE, f=0)
    story.transaction("yes", COMMITTING, Step.COMMITTED)
    story.transaction("no", BEGUN).sent("g", transaction="no").acknowledged(g=7)
    story.transaction("no", Step.ABORTED)
    # A producer that was killed before, and one that was killed after it asked for the commit.
    story.transaction("killed", BEGUN).sent("h", transaction="killed").acknowledged(h=9)
    story.transaction("asked", BEGUN).sent("i", "j", transaction="asked")
    story.transaction("asked", COMMITTING)
    story.transaction("doubt", BEGUN).sent("k", transaction="doubt")
    story.transaction("doubt", COMMITTING, Step.UNKNOWN)
    # Two members: the second reads again what the first had not committed.
    story.assigned().polled(a=0, b=1).committed(2).polled(c=2, there=3).revoked()
    story.assigned("other").polled("other", c=2, there=3).polled("other", d=4, e=5, k=14)
    story.committed(15, "other")
    story.assigned("member", THERE).polled(at=THERE, f=0)
    final = read(
        [*log(a=0, b=1, c=2, there=3, d=4, e=5, k=14), *log(THERE, f=0)],
        *log(g=7, h=9, i=11, j=12),
    )
    expected = Expectations(groups={GROUP: {"records"}})
    assert check(story.events, final, expected) == []
    assert len(story.events) > 30


def test_lost_write() -> None:
    found = only(Story().written(a=0, b=1), read(log(b=1)))
    assert found == Anomaly(
        Kind.LOST_WRITE, ("a",), HERE, (0,), ("producer",), detail="acknowledged"
    )


def test_a_polled_record_with_an_unknown_outcome_is_lost_if_it_is_gone() -> None:
    found = only(Story().sent("a").polled(a=0), read([]))
    assert (found.kind, found.detail) == (Kind.LOST_WRITE, "polled")
    assert found.clients == ("member", "producer")


def test_an_acknowledged_record_of_an_aborted_transaction_is_in_the_log() -> None:
    story = Story().transaction("no", BEGUN).sent("a", transaction="no").acknowledged(a=0)
    story.transaction("no", Step.ABORTED)
    assert check(story.events, read([], *log(a=0))) == []
    assert only(story, read([])).kind is Kind.LOST_WRITE


def test_a_record_that_read_committed_cannot_reach_is_lost() -> None:
    assert only(Story().written(a=0), read([], *log(a=0))).kind is Kind.LOST_WRITE


def test_a_record_of_a_committed_transaction_is_lost_even_without_an_acknowledgement() -> None:
    story = Story().transaction("yes", BEGUN).sent("a", transaction="yes")
    story.transaction("yes", COMMITTING, Step.COMMITTED)
    assert only(story, read([])).detail == "committed in yes"


def test_duplicate() -> None:
    found = only(Story().sent("a").written(b=1), read([*log(a=0), *log(b=1), *log(a=2)]))
    assert (found.kind, found.values, found.offsets) == (Kind.DUPLICATE, ("a",), (0, 2))


def test_a_record_in_two_partitions_is_a_duplicate() -> None:
    found = only(Story().written(a=0), read([*log(a=0), *log(THERE, a=0)]))
    assert (found.kind, found.detail) == (Kind.DUPLICATE, "records-0, records-1")


def test_inconsistent_offsets_of_an_acknowledgement_and_a_read() -> None:
    found = only(Story().written(a=5), read(log(a=7)))
    assert (found.kind, found.values, found.offsets) == (Kind.INCONSISTENT_OFFSETS, ("a",), (5,))


def test_inconsistent_offsets_of_two_records_at_one_offset() -> None:
    # Both were acknowledged at offset 0; one of them was overwritten.
    found = check(Story().written(a=0).written(b=0).events, read(log(b=0)))
    assert kinds(found) == [Kind.LOST_WRITE, Kind.INCONSISTENT_OFFSETS]
    assert found[1].values == ("a", "b")


@pytest.mark.parametrize(
    ("steps", "is_found"),
    [
        ((BEGUN, Step.ABORTED), True),
        ((BEGUN,), True),
        ((BEGUN, COMMITTING), False),
        ((BEGUN, COMMITTING, Step.ABORTED), True),
        ((BEGUN, COMMITTING, Step.UNKNOWN), False),
    ],
)
def test_aborted_read(steps: tuple[Step, ...], is_found: bool) -> None:
    story = Story().transaction("t", BEGUN).sent("a", transaction="t").transaction("t", *steps[1:])
    found = check(story.events, read(log(a=0)))
    assert kinds(found) == ([Kind.ABORTED_READ] if is_found else [])


def test_a_poll_with_read_committed_before_the_abort_is_an_aborted_read() -> None:
    story = Story().transaction("t", BEGUN).sent("a", transaction="t").polled(a=0)
    story.transaction("t", COMMITTING, Step.UNKNOWN)
    found = only(story, read([], *log(a=0)))
    assert (found.kind, found.detail) == (Kind.ABORTED_READ, "t was aborted in the end")


def test_a_definite_failure_that_is_in_the_log_is_an_aborted_read() -> None:
    story = Story().sent("a").failed("a", is_definite=True)
    assert only(story, read(log(a=0))).kind is Kind.ABORTED_READ


def test_nonmonotonic_send() -> None:
    story = Story().sent("a", "b").acknowledged(b=0, a=1)
    found = only(story, read(log(b=0, a=1)))
    assert (found.kind, found.values, found.offsets) == (
        Kind.NONMONOTONIC_SEND,
        ("a", "b"),
        (1, 0),
    )


def test_two_producers_of_a_client_have_no_common_order() -> None:
    story = Story().sent("a").sent("b", producer=2)
    assert check(story.events, read(log(b=0, a=1))) == []


@pytest.mark.parametrize("end", [(Step.COMMITTED,), (Step.UNKNOWN,), ()])
def test_torn_transaction(end: tuple[Step, ...]) -> None:
    story = Story().transaction("t", BEGUN).sent("a", transaction="t")
    story.sent("b", at=THERE, transaction="t").transaction("t", COMMITTING, *end)
    found = only(story, read(log(a=0), *log(THERE, b=0)))
    assert (found.kind, found.values, found.partition) == (Kind.TORN_TRANSACTION, ("b",), THERE)
    if end != (Step.COMMITTED,):
        assert only(story, read(log(a=0))).kind is Kind.TORN_TRANSACTION
        assert check(story.events, read([], *log(a=0))) == []


def test_a_committed_transaction_that_is_not_visible_is_torn() -> None:
    story = Story().transaction("t", BEGUN).sent("a", transaction="t")
    story.transaction("t", COMMITTING, Step.COMMITTED)
    assert only(story, read([], *log(a=0))).kind is Kind.TORN_TRANSACTION


def test_phantom() -> None:
    found = only(Story().written(a=0), read(log(a=0, b=1)))
    assert (found.kind, found.values, found.partition) == (Kind.PHANTOM, ("b",), HERE)


def test_unseen() -> None:
    story = Story().written(a=0, b=1, c=2).assigned().polled(a=0)
    # Nobody skipped within an assignment.
    story.revoked().assigned("other").polled("other", c=2)
    groups: Mapping[str, set[str]] = {GROUP: {"records"}, "of nothing": set()}
    (found,) = check(story.events, read(log(a=0, b=1, c=2)), Expectations(groups=groups))
    assert found == Anomaly(Kind.UNSEEN, ("b",), HERE, (1,), (GROUP,))


def test_poll_skip_between_polls_and_within_one() -> None:
    final = read(log(a=0, b=1, c=2), *log(d=3))
    story = Story().written(a=0, b=1, c=2).transaction("no", BEGUN).sent("d", transaction="no")
    between = Story()
    between.events = [*story.events]
    assert only(between.assigned().polled(a=0).polled(c=2), final).kind is Kind.POLL_SKIP
    found = only(story.assigned().polled(a=0, c=2), final)
    assert (found.kind, found.values, found.offsets) == (Kind.INT_POLL_SKIP, ("b",), (0, 2))


def test_nonmonotonic_poll_between_polls_and_within_one() -> None:
    final = read(log(a=0, b=1))
    between = Story().written(a=0, b=1).assigned().polled(a=0, b=1).polled(b=1)
    assert only(between, final).kind is Kind.NONMONOTONIC_POLL
    within = Story().written(a=0, b=1).assigned().polled(b=1, a=0)
    assert only(within, final).kind is Kind.INT_NONMONOTONIC_POLL


def test_lost_commit() -> None:
    story = Story().written(a=0, b=1).assigned().polled(a=0, b=1).committed(2).revoked()
    story.assigned("other").polled("other", b=1)
    found = only(story, read(log(a=0, b=1)))
    assert (found.kind, found.offsets, found.clients) == (Kind.LOST_COMMIT, (2, 1), ("other",))


def test_a_commit_after_the_assignment_binds_nobody() -> None:
    story = Story().written(a=0).assigned().polled(a=0).assigned("other").committed(1)
    assert check(story.polled("other", a=0).events, read(log(a=0))) == []


COPIED = Expectations(copies=[("records", "copies")])


@pytest.mark.parametrize(
    ("payloads", "expected"),
    [
        (["a", "b"], []),
        (["a", "b", "a"], [Kind.COPIED_TWICE]),
        (["b"], [Kind.NOT_COPIED]),
        (["a", "b", "c"], [Kind.ABORTED_READ]),
    ],
)
def test_copies(payloads: list[str], expected: list[Kind]) -> None:
    at = Partition("copies", 0)
    story = Story().written(a=0, b=1).transaction("no", BEGUN).sent("c", transaction="no")
    copies = [Record(*at, n, f"copy-{n}", payload) for n, payload in enumerate(payloads)]
    for copy in copies:
        story.sent(copy.value, at=at)
    final = read([*log(a=0, b=1), *copies], *log(c=2))
    assert kinds(check(story.events, final, COPIED)) == expected


@pytest.mark.parametrize(
    ("counts", "is_found"),
    [([1, 2], False), ([1], True), ([1, 1, 2], True), ([1, 2, 3], True), ([2, 1], True)],
)
def test_counts(counts: list[int], is_found: bool) -> None:
    words = [Record("words", 0, n, f"w-{n}", "word") for n in range(2)]
    counted = [Record("counts", 0, n, "word", str(count)) for n, count in enumerate(counts)]
    story = Story().sent("w-0", "w-1", at=Partition("words", 0))
    expected = Expectations(counts=[("words", "counts")])
    found = check(story.events, read([*words, *counted]), expected)
    assert kinds(found) == ([Kind.MISCOUNTED] if is_found else [])


def test_the_longest_gap_is_within_one_partition() -> None:
    story = Story().acknowledged(a=0).acknowledged(THERE, b=0, c=1, d=2).acknowledged(e=1)
    assert longest_gap_s(story.events, {"records"}) == 4.0
    assert longest_gap_s(story.events, {"others"}) == 0.0
    # The gap of HERE is the longest one, and the last one to end.
    end_s = story.events[-1].time_s
    assert longest_gap_s(story.events, {"records"}, since_s=end_s - 0.5) == 4.0
    assert longest_gap_s(story.events, {"records"}, since_s=end_s) == 0.0


def test_an_anomaly_is_a_line_with_all_that_is_known() -> None:
    values = tuple(f"v-{n}" for n in range(10))
    found = Anomaly(Kind.UNSEEN, values, HERE, (1, 2), ("me",), "why")
    assert str(found) == (
        "unseen: v-0, v-1, v-2, v-3, v-4, v-5, v-6, v-7 and 2 more in records-0 at 1, 2 by me (why)"
    )
