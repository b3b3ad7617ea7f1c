"""A compaction of a log on disk: what is left, at which offsets, and what everybody still finds."""

import json
from dataclasses import replace
from typing import Any

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.protocol.batch import (
    Marker,
    MarkerKind,
    Record,
    build,
    build_marker,
    read_header,
    records,
)
from ottla.protocol.compression import Codec
from ottla.replication.housekeeping.cleanable_part import CleanerRules, cleaning_job, find_cleanable
from ottla.replication.replica import RetentionRules, TopicRules
from ottla.storage.admission.rules import AdmissionRules
from ottla.storage.compaction.cleaner_worker import CleanerWorker
from ottla.storage.compaction.rules import CompactionRules
from ottla.storage.compaction.segment_swap import CLEANED, OutputIsUseless
from ottla.storage.log.batch_scan import Placed
from ottla.storage.log.config import LogConfig
from ottla.storage.log.log import Log
from tests.sim.seams.clock import SimClock
from tests.sim.seams.entropy import SimEntropy
from tests.support.forged_batches import forged
from tests.support.storage.workbench import (
    NOW_MS,
    Workbench,
    append,
    batch_from,
    batch_of,
    content,
    end_transaction,
    offsets,
)
from tests.support.time_searches import largest_timestamp, offset_for_time

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100)
DAY_MS = 86_400_000
TOPIC = TopicRules(
    admission=AdmissionRules(),
    log=CONFIG,
    retention=RetentionRules(
        retention_ms=-1, retention_bytes=-1, deletes=False, file_delete_delay_ms=0
    ),
    compaction=CompactionRules(compacts=True),
)


class Compaction:
    """One compaction of a bench's log, output by output."""

    def __init__(
        self, bench: Workbench, log: Log, *, now_ms: int = NOW_MS, rules: CleanerRules | None = None
    ) -> None:
        self.log = log
        stable_offset = log.producers.last_stable_offset(log.end_offset)
        log.flush()
        found = find_cleanable(log, TOPIC.compaction, stable_offset, now_ms)
        self.job = cleaning_job(log, found, TOPIC, rules or CleanerRules(), now_ms)
        self._sources = {segment.base_offset: segment for segment in log.segments}
        self._truncations = log.truncations
        self._worker = CleanerWorker(bench.files, SimEntropy(1), SimClock(), sleeps=False)
        self._question: dict[str, Any] = {"clean": self.job.as_json()}

    def step(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(
            self._worker.answer(json.dumps(self._question).encode())
        )
        self._question = {"go_on": True}
        return answer

    def put(self, answer: dict[str, Any]) -> list[str]:
        sources = [self._sources[base] for base in answer["output"]["sources"]]
        return self.log.replace_segments(sources, self._truncations)

    def run(self) -> dict[str, Any]:
        while "output" in (answer := self.step()):
            self.put(answer)
        report: dict[str, Any] = answer["done"]
        self.log.cleaned_offset = report["end_offset"]
        return report


def keyed(*rows: tuple[bytes, bytes | None], codec: Codec = Codec.NONE, **fields: Any) -> bytearray:
    return build(
        [Record(index, NOW_MS + index, key, value) for index, (key, value) in enumerate(rows)],
        codec=codec,
        **fields,
    )


def left(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of every data record."""
    return [
        (record.offset, record.key, record.value)
        for segment in log.segments
        for placed in segment.walk()
        if not placed.header.is_control
        for record in records(segment.walk().batch(placed))
    ]


def batches(log: Log) -> list[Placed]:
    return [placed for segment in log.segments for placed in segment.walk()]


def closed(bench: Workbench, *all_batches: bytearray) -> Log:
    """A log of these, none of which is in the active segment."""
    log = bench.open(CONFIG)
    for batch in all_batches:
        append(log, batch)
    log.roll()
    return log


@pytest.mark.parametrize("codec", Codec)
def test_the_last_record_of_each_key_is_left_at_its_offset(bench: Workbench, codec: Codec) -> None:
    rows = [[(b"k%d" % (n % 3), b"%d" % n), (b"same", b"%d" % n)] for n in range(30)]
    log = closed(bench, *(keyed(*each, codec=codec) for each in rows))
    end_offset = log.end_offset
    report = Compaction(bench, log).run()
    expected = [(54, b"k0", b"27"), (56, b"k1", b"28"), (58, b"k2", b"29"), (59, b"same", b"29")]
    assert left(log) == expected
    assert (log.start_offset, log.end_offset) == (0, end_offset)
    assert report["keys"] == 4
    assert report["records_dropped"] == 56
    assert {placed.header.codec for placed in batches(log) if placed.header.count} == {codec}


@pytest.mark.parametrize("is_clean", [True, False])
def test_what_is_left_is_found_after_a_restart(bench: Workbench, is_clean: bool) -> None:
    log = closed(bench, *(keyed((b"k%d" % (n % 3), b"%d" % n)) for n in range(30)))
    Compaction(bench, log).run()
    served, found = content(log), left(log)
    log.close()
    bench.checkpoint(log)
    again = bench.open(CONFIG, is_clean=is_clean)
    assert (content(again), left(again)) == (served, found)
    assert again.end_offset == 30


def test_a_reader_in_a_gap_gets_what_comes_next(bench: Workbench) -> None:
    log = closed(bench, *(keyed((b"same", b"%d" % n)) for n in range(20)), keyed((b"x", b"y")))
    Compaction(bench, log).run()
    log.cleaned_offset = 0
    # What was left empty at the end of each output goes when they are joined.
    Compaction(bench, log).run()
    for offset in (0, 7, 19):
        found = log.read(offset, bytes_max=1)
        assert found is not None
        assert read_header(found.read()).base_offset == 19


def test_segments_that_became_small_are_joined(bench: Workbench) -> None:
    log = closed(bench, *(keyed((b"k%d" % n, b"v" * 60)) for n in range(40)))
    assert len(log.segments) > 6
    log.config = replace(CONFIG, segment_bytes=100_000)
    Compaction(bench, log).run()
    assert [segment.base_offset for segment in log.segments] == [0, 40]
    assert bench.names(".deleted") != []
    assert len(left(log)) == 40


def test_a_tombstone_stays_for_its_time_and_the_second_compaction_after_it_takes_it(
    bench: Workbench,
) -> None:
    log = closed(bench, keyed((b"k", b"1")), keyed((b"k", None), (b"other", b"2")))
    Compaction(bench, log).run()
    assert left(log) == [(1, b"k", None), (2, b"other", b"2")]
    horizon_ms = NOW_MS + TOPIC.compaction.delete_retention_ms
    assert [placed.header.delete_horizon_ms for placed in batches(log)] == [horizon_ms]
    for later_ms, expected in ((DAY_MS - 1, 2), (DAY_MS, 1)):
        log.cleaned_offset = 0
        Compaction(bench, log, now_ms=NOW_MS + later_ms).run()
        assert len(left(log)) == expected
        times = [record.timestamp for record in records(content(log))]
        assert times == [NOW_MS, NOW_MS + 1][-expected:]


def test_what_was_aborted_goes_at_once_and_its_marker_later(bench: Workbench) -> None:
    log = bench.open(CONFIG)
    append(log, keyed((b"k", b"before")))
    append(log, batch_from(7, 0, count=2, transactional=True))
    end_transaction(log, 7, MarkerKind.ABORT)
    append(log, keyed((b"x", b"y")))
    log.producers.expire(NOW_MS + 1, 0)
    log.roll()
    Compaction(bench, log).run()
    assert left(log) == [(0, b"k", b"before"), (4, b"x", b"y")]
    assert offsets(log) == [0, 3, 4]
    assert log.aborted_transactions(0, 10) != []
    for later_ms, expected in ((0, [0, 3, 4]), (DAY_MS, [0, 4])):
        log.cleaned_offset = 0
        Compaction(bench, log, now_ms=NOW_MS + later_ms).run()
        assert offsets(log) == expected


def test_an_open_transaction_is_not_touched_nor_what_follows_it(bench: Workbench) -> None:
    log = closed(
        bench,
        keyed((b"k", b"1")),
        batch_from(7, 0, transactional=True),
        keyed((b"k", b"2")),
    )
    log.roll()
    assert Compaction(bench, log).job.segments == []


def transactional(producer_id: int, sequence: int, *rows: tuple[bytes, bytes | None]) -> bytearray:
    return keyed(
        *rows,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )


def test_an_aborted_record_replaces_nothing_and_a_committed_one_does(bench: Workbench) -> None:
    log = bench.open(CONFIG)
    append(log, keyed((b"a", b"old"), (b"b", b"old")))
    append(log, transactional(7, 0, (b"a", b"aborted")))
    append(log, transactional(8, 0, (b"b", b"committed")))
    end_transaction(log, 8, MarkerKind.COMMIT)
    end_transaction(log, 7, MarkerKind.ABORT)
    log.roll()
    Compaction(bench, log).run()
    assert left(log) == [(0, b"a", b"old"), (3, b"b", b"committed")]


def test_aborted_records_go_although_their_marker_is_in_the_active_segment(
    bench: Workbench,
) -> None:
    log = bench.open(CONFIG)
    append(log, transactional(8, 0, (b"k", b"committed")))
    append(log, transactional(7, 0, (b"k", b"aborted"), (b"other", b"aborted")))
    log.roll()
    end_transaction(log, 7, MarkerKind.ABORT)
    end_transaction(log, 8, MarkerKind.COMMIT)
    Compaction(bench, log).run()
    assert left(log) == [(0, b"k", b"committed")]
    reopened = bench.open(CONFIG)
    assert committed(reopened) == {b"k": b"committed"}
    assert reopened.producers.last_stable_offset(reopened.end_offset) == reopened.end_offset


@pytest.mark.parametrize("keeps_snapshots", [True, False])
def test_a_marker_stays_as_long_as_its_transaction_has_a_record(
    bench: Workbench, keeps_snapshots: bool
) -> None:
    log = bench.open(CONFIG)
    append(log, transactional(7, 0, (b"a", b"1"), (b"b", b"1")))
    end_transaction(log, 7, MarkerKind.COMMIT)
    append(log, keyed((b"x", b"y")))
    for number, expected in enumerate([[0, 2, 3], [0, 2, 3], [2, 3], [2, 3], [3]]):
        if number == 2:
            append(log, keyed((b"a", b"2"), (b"b", b"2")))
        log.producers.expire(NOW_MS + 1, 0)
        log.roll()
        # Each compaction is later than the delete horizons of those before it.
        Compaction(bench, log, now_ms=NOW_MS + number * 2 * DAY_MS).run()
        found = [placed.header.base_offset for placed in batches(log)]
        assert found[: len(expected)] == expected, number
        bench.checkpoint(log)
        if not keeps_snapshots:
            bench.remove_all(".snapshot")
        log = bench.open(CONFIG)
        assert log.producers.last_stable_offset(log.end_offset) == log.end_offset
        log.cleaned_offset = 0


def test_the_marker_that_bumped_the_epoch_of_a_producer_fences_after_compaction_and_restart(
    bench: Workbench,
) -> None:
    log = bench.open(CONFIG)
    append(log, transactional(7, 0, (b"k", b"1")))
    marker = Marker(MarkerKind.ABORT, 0)
    batch = build_marker(marker, producer_id=7, producer_epoch=1, timestamp_ms=NOW_MS)
    log.append_marker(batch, read_header(batch), marker, leader_epoch=0, transaction_version=2)
    append(log, keyed((b"k", b"2")))
    log.roll()
    for later_ms in (0, DAY_MS, 2 * DAY_MS):
        log.cleaned_offset = 0
        Compaction(bench, log, now_ms=NOW_MS + later_ms).run()
    bench.checkpoint(log)
    bench.remove_all(".snapshot")
    log = bench.open(CONFIG)
    assert left(log) == [(2, b"k", b"2")]
    with pytest.raises(PeerError) as caught:
        append(log, transactional(7, 1, (b"k", b"late")))
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_what_is_left_of_interleaved_transactions_is_read_as_before(bench: Workbench) -> None:
    log = bench.open(CONFIG)
    for number in range(10):
        for producer_id in (7, 8, 9):
            rows = (b"%d-%d" % (producer_id, number), b"v"), (b"all", b"%d" % number)
            append(log, transactional(producer_id, 2 * number, *rows))
        end_transaction(log, 7, MarkerKind.ABORT)
        end_transaction(log, 8, MarkerKind.COMMIT)
        if number % 3 == 0:
            end_transaction(log, 9, MarkerKind.ABORT)
    end_transaction(log, 9, MarkerKind.COMMIT)
    before = committed(log)
    log.roll()
    Compaction(bench, log).run()
    assert committed(log) == before
    assert committed(bench.open(CONFIG)) == before


def committed(log: Log) -> dict[bytes | None, bytes | None]:
    """The latest committed value of each key, as a read_committed consumer has it in the end."""
    aborted = log.aborted_transactions(log.start_offset, log.end_offset)
    found = {}
    for segment in log.segments:
        for placed in segment.walk():
            header = placed.header
            is_aborted = header.is_transactional and any(
                each.producer_id == header.producer_id
                and each.first_offset <= header.base_offset < each.last_offset
                for each in aborted
            )
            if not header.is_control and not is_aborted:
                for record in records(segment.walk().batch(placed)):
                    found[record.key] = record.value
    return found


@pytest.mark.parametrize("keeps_snapshots", [True, False])
def test_an_idempotent_producer_may_repeat_what_compaction_took(
    bench: Workbench, keeps_snapshots: bool
) -> None:
    log = closed(bench, *(batch_from(7, n) for n in range(12)), keyed((b"k", b"newest")))
    Compaction(bench, log).run()
    assert left(log) == [(12, b"k", b"newest")]
    log.close()
    bench.checkpoint(log)
    if not keeps_snapshots:
        bench.remove_all(".snapshot")
    again = bench.open(CONFIG, is_clean=True)
    for sequence in range(7, 12):
        repeated = append(again, batch_from(7, sequence))
        assert (repeated.first_offset, again.end_offset) == (sequence, 13)
    with pytest.raises(PeerError):
        append(again, batch_from(7, 20))
    assert append(again, batch_from(7, 12)).first_offset == 13


def test_a_map_that_is_full_leaves_the_rest_for_the_next_compaction(bench: Workbench) -> None:
    log = closed(bench, *(keyed((b"k%d" % (n % 8), b"%d" % n)) for n in range(32)))
    small = CleanerRules(key_map_bytes_max=120)
    ends = []
    while not ends or ends[-1] < 32:
        ends.append(Compaction(bench, log, rules=small).run()["end_offset"])
    assert len(ends) > 3
    assert ends == sorted(set(ends)), "each goes further than the one before"
    assert [offset for offset, _, _ in left(log)] == list(range(24, 32))


def test_times_are_found_among_what_is_left(bench: Workbench) -> None:
    log = closed(bench, *(batch_of(NOW_MS + n) for n in range(10)), keyed((b"k", b"old")))
    Compaction(bench, log).run()
    found = offset_for_time(log, NOW_MS - 5)
    assert found is not None
    assert found.offset == 10
    largest = largest_timestamp(log)
    assert largest is not None
    assert (largest.offset, largest.timestamp_ms) == (10, NOW_MS)
    assert offset_for_time(log, NOW_MS + 9) is None


def test_an_output_is_useless_once_its_log_was_cut_or_trimmed(bench: Workbench) -> None:
    log = closed(bench, *(keyed((b"k%d" % n, b"v" * 60)) for n in range(20)))
    for change in (lambda: log.truncate(18), lambda: log.drop_segments(1)):
        log.roll()
        under_way = Compaction(bench, log)
        output = under_way.step()
        change()
        served = content(log)
        with pytest.raises(OutputIsUseless):
            under_way.put(output)
        assert content(log) == served
        assert log.offline is None


def test_an_output_beside_another_or_without_one_changes_nothing(bench: Workbench) -> None:
    log = closed(bench, *(keyed((b"k%d" % n, b"v" * 60)) for n in range(20)))
    under_way = Compaction(bench, log)
    output = under_way.step()
    bench.files.create(bench.path(f"00000000000000000099.log{CLEANED}")).close()
    with pytest.raises(OutputIsUseless):
        under_way.put(output)
    bench.remove_all(CLEANED)
    with pytest.raises(OutputIsUseless):
        under_way.put(output)
    assert log.offline is None
    assert len(left(log)) == 20


def test_what_an_earlier_worker_left_is_removed_first(bench: Workbench) -> None:
    log = closed(bench, *(keyed((b"k", b"%d" % n)) for n in range(20)))
    bench.files.create(bench.path(f"00000000000000000099.log{CLEANED}")).close()
    Compaction(bench, log).run()
    assert left(log) == [(19, b"k", b"19")]


def test_a_damaged_batch_ends_a_compaction_before_it_changes_anything(bench: Workbench) -> None:
    log = closed(bench, *(keyed((b"k%d" % n, b"v" * 60)) for n in range(20)))
    under_way = Compaction(bench, log)
    second = f"{log.segments[1].base_offset:020d}.log"
    bench.overwrite(second, 70, b"\xff")
    answer = under_way.step()
    assert answer["failed"]["kind"] == "corrupt"
    assert second in answer["failed"]["why"]
    assert "checksum" in answer["failed"]["why"]


def test_a_log_that_is_gone_is_nobodys_fault(bench: Workbench) -> None:
    log = closed(bench, *(keyed((b"k", b"%d" % n)) for n in range(20)))
    under_way = Compaction(bench, log)
    bench.remove_all(".log")
    assert under_way.step()["failed"]["kind"] == "gone"
    assert under_way.step()["failed"]["kind"] == "gone"


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_that_cannot_be_read_stays_and_everything_else_is_compacted(
    bench: Workbench, codec: Codec
) -> None:
    """Those in plain are of an earlier version, which took them as they came."""
    rows = [keyed((b"k%d" % (n % 2), b"%d" % n)) for n in range(6)]
    garbage = forged(b"garbage", codec, count=3)
    log = closed(bench, rows[0], rows[1], garbage, rows[2], garbage, *rows[3:])
    report = Compaction(bench, log).run()
    assert report["unreadable_batches"] == 2
    assert ".log, byte " in report["unreadable"]
    assert log.offline is None
    found = batches(log)
    assert [each.header.count for each in found].count(3) == 2
    sound = [
        record.value
        for segment in log.segments
        for placed in segment.walk()
        if placed.header.count == 1
        for record in records(segment.walk().batch(placed))
    ]
    assert sound[-2:] == [b"4", b"5"]
    assert {b"0", b"1", b"2", b"3"}.isdisjoint(sound)


def test_a_batch_that_unfolds_to_more_than_the_limit_stays_as_it_is(bench: Workbench) -> None:
    bomb = keyed((b"k", bytes(200_000)), codec=Codec.ZSTD)
    log = closed(bench, keyed((b"k", b"old")), bomb, keyed((b"k", b"new")))
    job = Compaction(bench, log)
    job.job = replace(job.job, decompressed_bytes_max=100_000)
    job._question = {"clean": job.job.as_json()}
    assert job.run()["unreadable_batches"] == 1
    assert [value for _, _, value in left(log)] == [bytes(200_000), b"new"]
