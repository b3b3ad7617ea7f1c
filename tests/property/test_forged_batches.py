"""A leader refuses forged batches, or every reader can skip them.

Runs for a minute in `make test`, and for an hour in `make soak`: OTTLA_FORGERIES is the number of
logs of forged batches for each kind of topic.
"""

import json
import os
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from ottla.cli.log.verify.damage import Remedy, ShutdownState
from ottla.cli.log.verify.partition import check_partition
from ottla.client.arrow.columns import ColumnLimits, fetched_columns
from ottla.client.reading.fetch import Fetched
from ottla.client.reading.visible_records import UnreadableBatch, visible, whole_batches
from ottla.errors import PeerError
from ottla.protocol.batch import Record, read_header
from ottla.protocol.compression import Codec, compress
from ottla.replication.housekeeping.cleanable_part import CleanerRules, cleaning_job, find_cleanable
from ottla.storage.admission.leader_checks import admit, admits_unchanged
from ottla.storage.admission.rules import AdmissionRules
from ottla.storage.compaction.cleaner_worker import CleanerWorker
from ottla.storage.log.config import LogConfig
from ottla.storage.log.log import Log
from tests.sim.seams.clock import SimClock
from tests.sim.seams.disk import SimDisk
from tests.sim.seams.entropy import SimEntropy
from tests.support.forged_batches import NOW_MS, forged, forged_batches, readable
from tests.support.storage.workbench import Workbench
from tests.support.time_searches import largest_timestamp, offset_for_time
from tests.unit.native.test_columns import ALL, END, rows_of
from tests.unit.storage.compaction.test_cleaning import TOPIC

FORGERIES = int(os.environ.get("OTTLA_FORGERIES", "40"))
# Not explained: tracing every line would take longer than all the rest.
many = settings(
    deadline=None, max_examples=FORGERIES, phases=(Phase.explicit, Phase.generate, Phase.shrink)
)
CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100)
RULES = {
    "plain": AdmissionRules(),
    "compacted": AdmissionRules(compacted=True),
    "no old ones": AdmissionRules(timestamp_before_max_ms=1000),
    "stamped": AdmissionRules(log_append_time=True),
    "zstd": AdmissionRules(codec=Codec.ZSTD),
    "uncompressed and compacted": AdmissionRules(codec=Codec.NONE, compacted=True),
}


# Found by a longer run: compaction did not look at times, and took it for sound.
TIME_PAST_64_BITS = forged(
    compress(Codec.GZIP, bytes.fromhex("0c001000010100")),
    Codec.GZIP,
    count=1,
    base_timestamp=2**63 - 8,
)


class Stored:
    """A log of what a leader took of forged batches, and what of it can be read."""

    def __init__(self, sent: list[bytearray], rules: AdmissionRules) -> None:
        self.disk = SimDisk(0)
        self.bench = Workbench(self.disk.process(), "/topic-0")
        self.log = self.bench.open(CONFIG)
        self.records: list[Record] = []
        self.unreadable: list[int] = []
        # Of the batches whose headers do not hide later times than they claim.
        self.times: dict[int, int] = {}
        for batch in sent:
            self._send(batch, rules)

    def _send(self, batch: bytearray, rules: AdmissionRules) -> None:
        before = bytes(batch)
        try:
            taken = admit(memoryview(batch), rules, transactional_id_given=False, now_ms=NOW_MS)
            appended = self.log.append(taken.batch, taken.header, leader_epoch=0)
        except PeerError:
            check_twin_agrees(before, rules, is_taken=False)
            return
        check_twin_agrees(before, rules, is_taken=True)
        if appended.duplicate_timestamp_ms is not None:
            return
        stored = readable(taken.batch)
        if stored is None:
            assert taken.header.codec != Codec.NONE, "what is not compressed is read by the leader"
            self.unreadable.append(appended.first_offset)
        claimed_ms = taken.header.max_timestamp
        is_honest = all(record.timestamp <= claimed_ms for record in stored or ())
        for record in stored or ():
            moved = record._replace(offset=record.offset + appended.first_offset)
            self.records.append(moved)
            if is_honest:
                self.times[moved.offset] = moved.timestamp

    def reopened(self) -> Log:
        """As after a crash: nothing but the files is left."""
        self.bench.recovery_point = 0
        return self.bench.open(CONFIG)

    def content(self) -> bytes:
        files = self.disk.files()
        return b"".join(files[path] for path in sorted(files) if path.endswith(".log"))


def check_twin_agrees(batch: bytes, rules: AdmissionRules, *, is_taken: bool) -> None:
    """The native checks accept nothing that the rule refuses."""
    header, view = read_header(batch), memoryview(batch)
    # A producer's sequence is the log's to check, and it alone may refuse such a batch.
    if header.producer_id < 0 and admits_unchanged(view, header, rules, False, NOW_MS):
        assert is_taken


def fetched(stored: Stored) -> tuple[list[Record], list[int]]:
    """What our consumer sees, and the batches that it steps over."""
    seen = visible(memoryview(stored.content()), (), 0)
    return seen.records, [each.first_offset for each in seen.unreadable]


def as_columns(stored: Stored) -> tuple[list[tuple[Any, ...]], list[int]]:
    """The same for Arrow and Spark."""
    found = Fetched(memoryview(stored.content()), ())
    batches = list(whole_batches(found.records))
    told: list[UnreadableBatch] = []
    columns = list(fetched_columns(found, batches, 0, END, ALL, ColumnLimits(7), told.append))
    return [row for each in columns for row in rows_of(each)], [each.first_offset for each in told]


def check_by_time(log: Log, stored: Stored) -> None:
    """Every search ends, at a record with such a time or at a batch that cannot be read."""
    times = {record.offset: record.timestamp for record in stored.records}
    for asked in (0, NOW_MS - 10, NOW_MS, NOW_MS + 10, 2**62):
        found = offset_for_time(log, asked)
        later = [offset for offset, time in stored.times.items() if time >= asked]
        if found is None:
            assert not later
        else:
            assert all(found.offset <= offset for offset in later)
            if found.offset in times:
                assert found.timestamp_ms == times[found.offset] >= asked
    largest_timestamp(log)


def compacted(log: Log, stored: Stored) -> dict[str, Any]:
    log.roll()
    log.flush()
    found = find_cleanable(log, TOPIC.compaction, log.end_offset, NOW_MS)
    worker = CleanerWorker(stored.bench.files, SimEntropy(1), SimClock(), sleeps=False)
    job = cleaning_job(log, found, TOPIC, CleanerRules(), NOW_MS)
    sources = {segment.base_offset: segment for segment in log.segments}
    question: dict[str, Any] = {"clean": job.as_json()}
    while "output" in (answer := json.loads(worker.answer(json.dumps(question).encode()))):
        used = [sources[base] for base in answer["output"]["sources"]]
        for path in log.replace_segments(used, log.truncations):
            stored.bench.files.remove(path)
        question = {"go_on": True}
    return answer


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@many
@given(sent=st.lists(forged_batches(), min_size=1, max_size=6))
@example(sent=[TIME_PAST_64_BITS])
def test_every_reader_gets_past_what_a_client_forges(
    sent: list[bytearray], rules: AdmissionRules
) -> None:
    stored = Stored(sent, rules)
    log = stored.log
    sound = [record.offset for record in stored.records]
    seen, stepped_over = fetched(stored)
    # Of those that cannot be read whole, some records before the fault may be seen, too.
    assert [record for record in seen if record.offset in sound] == stored.records
    assert stepped_over == stored.unreadable
    rows, told = as_columns(stored)
    assert [row[0] for row in rows if row[0] in sound] == sound
    assert told == stored.unreadable
    check_by_time(log, stored)

    log = stored.reopened()
    assert stored.bench.recovery.cut_because is None
    check_by_time(log, stored)

    log.flush()
    report = check_partition(stored.bench.files, "/topic-0", ShutdownState(), lambda _: None)
    damaged = [each for each in report.damages if each.remedy is not Remedy.REBUILD_INDEXES]
    assert {each.remedy for each in damaged} <= {Remedy.KEEP}
    assert [each.offset for each in damaged] == stored.unreadable

    if log.end_offset == 0:
        return
    answer = compacted(log, stored)
    assert "done" in answer, answer
    assert log.offline is None
    after, still_unreadable = fetched(stored)
    assert still_unreadable == stored.unreadable
    latest = {record.key: record.offset for record in stored.records if record.key is not None}
    kept = {record.offset for record in after}
    tombstones = {record.offset for record in stored.records if record.value is None}
    assert {offset for offset in latest.values() if offset not in tombstones} <= kept
