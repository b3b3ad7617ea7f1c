"""What happens to one compacted log under one seed, each step checked against the model.

The worker is called in this process: between two of its outputs anything may happen, and it may be
killed at any of its operations, or with it the whole machine.
"""

import json
from collections.abc import Callable
from typing import Any

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
from ottla.protocol.primitives import Uuid
from ottla.replication.housekeeping.cleanable_part import CleanerRules, cleaning_job, find_cleanable
from ottla.replication.replica import RetentionRules, TopicRules
from ottla.storage.admission.rules import AdmissionRules
from ottla.storage.compaction.cleaner_worker import CleanerWorker
from ottla.storage.compaction.rules import CompactionRules
from ottla.storage.compaction.segment_swap import OutputIsUseless
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.directory_opening import open_directory
from ottla.storage.log.config import LogConfig
from ottla.storage.log.log import Log
from ottla.storage.log.segment import Segment
from ottla.storage.opening.recovery import UNFINISHED
from ottla.storage.producers.state import ProducerStates
from tests.sim.seams.clock import SimClock
from tests.sim.seams.disk import SimDisk
from tests.sim.seams.entropy import SimEntropy
from tests.sim.storage.compaction_model import Appended, CompactionModel, Transaction
from tests.sim.storage.machine import PARTITION, PARTITION_PATH, ROOT, TOPIC_ID, Killed, KillSwitch
from tests.support.time_searches import largest_timestamp

OPERATIONS_PER_SEED = 120
KEYS = tuple(b"k%d" % number for number in range(6))
IDEMPOTENT, TRANSACTIONAL = (1, 2), (11, 12)
Served = dict[int, tuple[int, bytes | None, bytes | None]]


class CompactionScenario:
    """Each operation is a method; how often it comes is in the table below."""

    def __init__(self, seed: int) -> None:
        self.entropy = SimEntropy(seed).fork("workload")
        self.disk = SimDisk(SimEntropy(seed).fork("disk"))
        self.kill_switch = KillSwitch(self.disk.faults)
        self.clock = SimClock()
        retention_ms = self.entropy.pick((0, 500, 5_000))
        self.model = CompactionModel(retention_ms)
        self.config = LogConfig(
            segment_bytes=self.entropy.pick((300, 900, 3_000)), index_interval_bytes=100
        )
        self.topic = TopicRules(
            admission=AdmissionRules(),
            log=self.config,
            retention=RetentionRules(
                retention_ms=-1, retention_bytes=-1, deletes=False, file_delete_delay_ms=0
            ),
            compaction=CompactionRules(compacts=True, delete_retention_ms=retention_ms),
        )
        # Few keys fit into the smallest map: a compaction then ends in the middle of a batch.
        self.rules = CleanerRules(key_map_bytes_max=self.entropy.pick((96, 1 << 20)))
        self.open_transactions: dict[int, Transaction] = {}
        self._high_watermark = 0
        self.compactions = 0
        self.swaps = 0
        files = self.disk.process()
        files.make_dir(ROOT)
        files.sync_dir("/")
        self._open()
        self.log = self.directory.create(PARTITION, TOPIC_ID)
        self._begin_worker()

    def run(self, operations: int = OPERATIONS_PER_SEED) -> None:
        for _ in range(operations):
            self.clock.advance(ms=self.entropy.below(300))
            self._step(self.entropy.pick(_LOT))
        self.compact()
        self.power_loss()

    def _step(self, operation: Callable[["CompactionScenario"], None]) -> None:
        if operation in _MORTAL and self.entropy.chance(0.15):
            self.kill_switch.arm(self.entropy.below(30))
        try:
            operation(self)
        except Killed:
            self.come_back(loses_power=self.entropy.chance(0.5), may_lose=operation in _APPENDS)
        finally:
            self.kill_switch.disarm()

    # Appending

    def append_plain(self) -> None:
        self._append(None)

    def append_idempotent(self) -> None:
        self._append(self.entropy.pick(IDEMPOTENT))

    def append_transactional(self) -> None:
        producer_id = self.entropy.pick(TRANSACTIONAL)
        transaction = self.open_transactions.setdefault(producer_id, Transaction(producer_id))
        self._append(producer_id, transaction)

    def _append(self, producer_id: int | None, transaction: Transaction | None = None) -> None:
        drawn = [
            Record(
                index,
                self.now_ms - self.entropy.below(1000),
                self.entropy.pick(KEYS),
                None if self.entropy.chance(0.25) else self.entropy.token(self.entropy.below(60)),
            )
            for index in range(self.entropy.between(1, 4))
        ]
        fields: dict[str, Any] = {}
        if producer_id is not None:
            entry = self.log.producers.get(producer_id)
            fields = {
                "producer_id": producer_id,
                "producer_epoch": max(0, entry.epoch) if entry else 0,
                "base_sequence": entry.last_sequence + 1 if entry else 0,
            }
        stamped_ms = self.now_ms if self.entropy.chance(0.1) else None
        batch = build(
            drawn,
            codec=self.entropy.pick(tuple(Codec)),
            transactional=transaction is not None,
            log_append_time_ms=stamped_ms,
            **fields,
        )
        first = self.log.append(batch, read_header(batch), leader_epoch=0).first_offset
        for record in drawn:
            timestamp_ms = record.timestamp if stamped_ms is None else stamped_ms
            self.model.append(
                Appended(
                    first + record.offset,
                    timestamp_ms,
                    record.key or b"",
                    record.value,
                    self.now_ms,
                    transaction,
                )
            )

    def end_transaction(self) -> None:
        if not self.open_transactions:
            return
        producer_id = self.entropy.pick(sorted(self.open_transactions))
        entry = self.log.producers.get(producer_id)
        transaction = self.open_transactions[producer_id]
        if entry is None or not entry.has_open_transaction:
            del self.open_transactions[producer_id]
            return
        kind = self.entropy.pick((MarkerKind.COMMIT, MarkerKind.ABORT))
        version = self.entropy.pick((0, 2))
        marker = Marker(kind, 3)
        batch = build_marker(
            marker,
            producer_id=producer_id,
            producer_epoch=entry.epoch + (1 if version else 0),
            timestamp_ms=self.now_ms,
        )
        appended = self.log.append_marker(
            batch,
            read_header(batch),
            marker,
            leader_epoch=0,
            transaction_version=version,
        )
        transaction.marker_offset, transaction.kind = appended.first_offset, kind
        del self.open_transactions[producer_id]

    # Compacting

    def compact_a_bit(self) -> None:
        """Begins a compaction, or has it make its next output and puts that in place."""
        end_offset, producers = self.log.end_offset, self.log.producers
        try:
            self._ask(self._question())
        except OutputIsUseless:
            self._begin_worker()
        assert self.log.end_offset == end_offset
        assert self.log.producers == producers
        self.check()

    def compact(self) -> None:
        """All that can be, in one go."""
        self.log.roll()
        self._begin_worker()
        self.compact_a_bit()
        while self._sources:
            self.compact_a_bit()
        if self.log.cleaned_offset:
            self.model.check_compacted(served(self.log), self.log.cleaned_offset)

    def kill_the_worker(self) -> None:
        """In the middle of what it does: its next operations on the disk never happen."""
        self.kill_switch.arm(self.entropy.below(20))
        try:
            question = self._question()
            if question is not None:
                self._worker.answer(json.dumps(question).encode())
        except Killed:
            pass
        self.kill_switch.disarm()
        self._begin_worker()
        self.check()

    def _begin_worker(self) -> None:
        entropy = self.entropy.fork("worker")
        self._worker = CleanerWorker(self.files, entropy, SimClock(), sleeps=False)
        self._sources: dict[int, Segment] = {}

    def _question(self) -> dict[str, Any] | None:
        if self._sources:
            return {"go_on": True}
        log, rules = self.log, self.topic.compaction
        self._high_watermark = log.end_offset
        stable_offset = log.producers.last_stable_offset(self._high_watermark)
        flush_before(log)
        found = find_cleanable(log, rules, stable_offset, self.now_ms)
        if not found.dirty_bytes:
            return None
        self._truncations = log.truncations
        self._sources = {segment.base_offset: segment for segment in log.segments}
        return {"clean": cleaning_job(log, found, self.topic, self.rules, self.now_ms).as_json()}

    def _ask(self, question: dict[str, Any] | None) -> None:
        if question is None:
            return
        answer = json.loads(self._worker.answer(json.dumps(question).encode()))
        if "output" in answer:
            sources = [self._sources[base] for base in answer["output"]["sources"]]
            self.log.replace_segments(sources, self._truncations)
            self.swaps += 1
        elif "done" in answer:
            self.log.cleaned_offset = max(self.log.cleaned_offset, answer["done"]["end_offset"])
            self._sources = {}
            self.compactions += 1
        else:
            assert answer["failed"]["kind"] == "gone", answer
            self._begin_worker()

    # Everything else

    def flush(self) -> None:
        self.log.flush()

    def roll(self) -> None:
        self.log.roll()

    def checkpoint(self) -> None:
        self.directory.checkpoint()

    def wait(self) -> None:
        self.clock.advance(ms=6_000)

    def trim(self) -> None:
        count = self.entropy.below(min(2, len(self.log.segments)))
        for path in self.log.drop_segments(count):
            self.files.remove(path)
        self.model.start_offset = self.log.start_offset

    def cut(self) -> None:
        """A follower's: never below the high watermark, which was the end at each compaction."""
        low = max(self._high_watermark, self.log.start_offset)
        if self.log.end_offset > low:
            self.log.truncate(low + self.entropy.below(self.log.end_offset - low))
        self._accept_end()

    def clean_stop(self) -> None:
        self.directory.close(broker_epoch=1)
        self.come_back(loses_power=self.entropy.chance(0.3))

    def crash(self) -> None:
        self.come_back(loses_power=False)

    def power_loss(self) -> None:
        self.come_back(loses_power=True)

    def come_back(self, *, loses_power: bool, may_lose: bool = False) -> None:
        self.kill_switch.disarm()
        flushed = self.log.recovery_point
        end_offset, start_offset = self.log.end_offset, self.log.start_offset
        self.files.crash()
        if loses_power:
            self.disk.power_loss()
        self._open()
        assert self.directory.unusable == {}, self.directory.unusable
        if PARTITION not in self.directory.logs:
            assert loses_power
            assert flushed == 0
            self.directory.create(PARTITION, TOPIC_ID)
        self.directory.write_topic_id(PARTITION, TOPIC_ID)
        self.log = self.directory.logs[PARTITION]
        self._begin_worker()
        assert self.log.start_offset in (start_offset, self.model.start_offset) or may_lose
        assert self.log.end_offset >= (flushed if loses_power else end_offset)
        self.model.start_offset = self.log.start_offset
        self._accept_end()
        names = self.files.list(PARTITION_PATH)
        assert not [name for name in names if name.endswith(UNFINISHED)]
        self.check()

    def _accept_end(self) -> None:
        self.model.cut(self.log.end_offset)
        self.open_transactions = {
            each.transaction.producer_id: each.transaction
            for each in self.model.records.values()
            if each.transaction is not None and each.is_open
        }

    @property
    def now_ms(self) -> int:
        return self.clock.wall_ms()

    def _open(self) -> None:
        self.files = self.disk.process()
        self.directory: LogDirectory = open_directory(
            self.files,
            ROOT,
            cluster_id="c",
            node_id=1,
            directory_id=Uuid(b"\2" * 16),
            config_of=lambda _: self.config,
            clock=self.clock,
        )

    def check(self) -> None:
        found = served(self.log)
        self.model.check(found, self.now_ms)
        largest = largest_timestamp(self.log)
        assert (largest.timestamp_ms if largest else -1) == largest_time(self.log)
        check_producers(self.log)


def flush_before(log: Log) -> None:
    """What a broker does before it has a log compacted."""
    log.flush()


def served(log: Log) -> Served:
    """Every data record from the log's start on, by offset, as readers find it."""
    found: Served = {}
    offset = log.start_offset
    while (piece := log.read(offset, bytes_max=1)) is not None:
        batch = piece.read()
        header = read_header(batch)
        assert header.next_offset > offset, "a reader would turn in a circle"
        if not header.is_control:
            for record in records(batch):
                if record.offset >= log.start_offset:
                    assert record.offset not in found
                    found[record.offset] = (record.timestamp, record.key, record.value)
        offset = header.next_offset
    return found


def largest_time(log: Log) -> int:
    """Of all records that are served, markers among them; -1 if there are none."""
    times = [
        record.timestamp
        for segment in log.segments
        for placed in segment.walk()
        for record in records(segment.walk().batch(placed))
        if record.offset >= log.start_offset
    ]
    return max(times, default=-1)


def check_producers(log: Log) -> None:
    """The log alone, without any snapshot, tells what its producers may send next."""
    if log.start_offset:
        return
    told = ProducerStates()
    for segment in log.segments:
        walk = segment.walk()
        for placed in walk:
            told.replay(placed.header, walk.marker(placed))
    assert {entry.producer_id: _what_counts(entry) for entry in told} == {
        entry.producer_id: _what_counts(entry) for entry in log.producers
    }


def _what_counts(entry: Any) -> Any:
    batches = [
        (span.first_sequence, span.last_sequence, span.last_offset) for span in entry.batches
    ]
    return entry.epoch, batches, entry.transaction_first_offset


Operation = Callable[[CompactionScenario], None]
_WEIGHTS: dict[Operation, int] = {
    CompactionScenario.append_plain: 14,
    CompactionScenario.append_idempotent: 8,
    CompactionScenario.append_transactional: 8,
    CompactionScenario.end_transaction: 6,
    CompactionScenario.compact_a_bit: 14,
    CompactionScenario.compact: 2,
    CompactionScenario.kill_the_worker: 3,
    CompactionScenario.flush: 3,
    CompactionScenario.roll: 5,
    CompactionScenario.checkpoint: 3,
    CompactionScenario.wait: 2,
    CompactionScenario.trim: 1,
    CompactionScenario.cut: 1,
    CompactionScenario.clean_stop: 2,
    CompactionScenario.crash: 2,
    CompactionScenario.power_loss: 2,
}
_LOT = tuple(operation for operation, weight in _WEIGHTS.items() for _ in range(weight))
_APPENDS = frozenset({CompactionScenario.trim})
_MORTAL = frozenset(
    {
        CompactionScenario.compact_a_bit,
        CompactionScenario.compact,
        CompactionScenario.flush,
        CompactionScenario.roll,
        CompactionScenario.checkpoint,
    }
)
