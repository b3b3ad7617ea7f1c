"""Random interleavings of producers, retries, errors and transactions, compared with a model."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import ErrorCode, PeerError
from ottla.protocol.batch import BatchHeader, Marker, MarkerKind
from ottla.storage.producers.entry import BATCHES_KEPT, SEQUENCE_MAX
from ottla.storage.producers.state import AbortedTransaction, Duplicate, ProducerStates
from tests.support.storage.batch_headers import TRANSACTIONAL, data_batch, marker_batch

ACTIONS = (
    *("append", "retry", "gap", "old_epoch", "new_epoch", "begin", "plain"),
    *("end", "end_at_epoch", "repeat_marker", "late_marker", "fenced_marker", "expire"),
)


@dataclass
class ModelProducer:
    """A producer's own state: its next sequence, and the offsets of its batches."""

    producer_id: int
    next_sequence: int
    epoch: int = 0
    known: bool = False
    coordinator_epoch: int = -1
    transaction_first_offset: int | None = None
    sent: list[BatchHeader] = field(default_factory=list)

    def batch(self, offset: int, count: int) -> BatchHeader:
        return data_batch(
            offset,
            producer_id=self.producer_id,
            epoch=self.epoch,
            sequence=self.next_sequence,
            count=count,
            transactional=self.transaction_first_offset is not None,
            timestamp_ms=1_000 + offset,
        )


class Model:
    """The log of one partition and its producers; every step has an expected result."""

    def __init__(self, first_sequences: list[int]) -> None:
        self.states = ProducerStates()
        self.log: list[tuple[BatchHeader, Marker | None]] = []
        self.aborted: list[AbortedTransaction | None] = []
        self.producers = [
            ModelProducer(producer_id, sequence)
            for producer_id, sequence in enumerate(first_sequences)
        ]

    @property
    def end_offset(self) -> int:
        return self.log[-1][0].next_offset if self.log else 0

    @property
    def first_unstable_offset(self) -> int | None:
        firsts = (producer.transaction_first_offset for producer in self.producers)
        return min((first for first in firsts if first is not None), default=None)

    def write(self, header: BatchHeader, marker: Marker | None = None) -> AbortedTransaction | None:
        self.log.append((header, marker))
        aborted = self.states.replay(header, marker)
        if aborted:
            self.aborted.append(aborted)
        return aborted

    def assert_refused(self, header: BatchHeader, code: ErrorCode) -> None:
        before = self.states.copy()
        with pytest.raises(PeerError) as refused:
            self.states.check(header, from_client=True)
        assert refused.value.code is code
        assert self.states == before

    # Steps

    def append(self, producer: ModelProducer, count: int) -> None:
        header = producer.batch(self.end_offset, count)
        assert self.states.check(header, from_client=True) is None
        self.write(header)
        producer.known = True
        producer.next_sequence = (producer.next_sequence + count) & SEQUENCE_MAX
        producer.sent = [*producer.sent, header][-BATCHES_KEPT:]

    def retry(self, producer: ModelProducer, count: int) -> None:
        before = self.states.copy()
        for header in producer.sent:
            retried = header._replace(base_offset=0)
            duplicate = self.states.check(retried, from_client=True)
            assert duplicate == Duplicate(
                header.base_offset, header.last_offset, header.max_timestamp
            )
        assert self.states == before

    def gap(self, producer: ModelProducer, count: int) -> None:
        if producer.known:
            header = producer.batch(0, count)
            skipped = header._replace(base_sequence=(header.base_sequence + count) & SEQUENCE_MAX)
            self.assert_refused(skipped, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

    def old_epoch(self, producer: ModelProducer, count: int) -> None:
        if producer.known and producer.epoch > 0:
            header = producer.batch(0, count)._replace(producer_epoch=producer.epoch - 1)
            self.assert_refused(header, ErrorCode.INVALID_PRODUCER_EPOCH)

    def new_epoch(self, producer: ModelProducer, count: int) -> None:
        if producer.known:
            late = producer.batch(0, count)._replace(
                producer_epoch=producer.epoch + 1, base_sequence=count
            )
            self.assert_refused(late, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        producer.epoch += 1
        producer.next_sequence = 0
        producer.sent = []
        self.append(producer, count)

    def begin(self, producer: ModelProducer, count: int) -> None:
        if producer.transaction_first_offset is None:
            producer.transaction_first_offset = self.end_offset
            self.append(producer, count)

    def plain(self, producer: ModelProducer, count: int) -> None:
        if producer.transaction_first_offset is not None:
            header = producer.batch(0, count)._replace(attributes=0)
            self.assert_refused(header, ErrorCode.INVALID_TXN_STATE)

    def end(self, producer: ModelProducer, count: int) -> None:
        """A marker that bumps the epoch, as in transaction version 2."""
        if producer.transaction_first_offset is not None:
            self.write_marker(producer, count, epochs=1)
            producer.epoch += 1
            producer.next_sequence = 0
            producer.sent = []

    def end_at_epoch(self, producer: ModelProducer, count: int) -> None:
        """A marker of the transaction's own epoch, as in version 1: sequences go on."""
        if producer.transaction_first_offset is not None:
            self.write_marker(producer, count, epochs=0)

    def repeat_marker(self, producer: ModelProducer, count: int) -> None:
        """A coordinator repeats a marker, or ends a transaction that wrote nothing here."""
        if producer.transaction_first_offset is not None:
            return
        header = marker_batch(
            self.end_offset, producer_id=producer.producer_id, epoch=producer.epoch
        )
        marker = Marker(MarkerKind.ABORT, producer.coordinator_epoch + count)
        self.states.check_marker(header, marker, transaction_version=2)
        assert self.write(header, marker) is None
        self.note_marker(producer, marker)
        if not producer.sent:
            producer.next_sequence = 0

    def late_marker(self, producer: ModelProducer, count: int) -> None:
        """A marker of the transaction before must not end this one."""
        if producer.transaction_first_offset is not None:
            header = marker_batch(0, producer_id=producer.producer_id, epoch=producer.epoch)
            marker = Marker(MarkerKind.COMMIT, producer.coordinator_epoch + count)
            self.assert_marker_refused(header, marker, ErrorCode.INVALID_PRODUCER_EPOCH)
        if producer.known and producer.epoch > 0:
            header = marker_batch(0, producer_id=producer.producer_id, epoch=producer.epoch - 1)
            marker = Marker(MarkerKind.COMMIT, producer.coordinator_epoch)
            self.assert_marker_refused(header, marker, ErrorCode.INVALID_PRODUCER_EPOCH)

    def fenced_marker(self, producer: ModelProducer, count: int) -> None:
        if producer.known and producer.coordinator_epoch >= 0:
            header = marker_batch(0, producer_id=producer.producer_id, epoch=producer.epoch + 1)
            marker = Marker(MarkerKind.COMMIT, producer.coordinator_epoch - 1)
            fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
            self.assert_marker_refused(header, marker, fenced)

    def expire(self, producer: ModelProducer, count: int) -> None:
        """Forgets all producers without an open transaction."""
        self.states.expire(10**9, 1)
        for each in self.producers:
            if each.transaction_first_offset is None:
                each.known, each.sent, each.coordinator_epoch = False, [], -1

    def assert_marker_refused(self, header: BatchHeader, marker: Marker, code: ErrorCode) -> None:
        before = self.states.copy()
        with pytest.raises(PeerError) as refused:
            self.states.check_marker(header, marker, transaction_version=2)
        assert refused.value.code is code
        assert self.states == before

    def note_marker(self, producer: ModelProducer, marker: Marker) -> None:
        producer.known = True
        producer.coordinator_epoch = marker.coordinator_epoch

    def write_marker(self, producer: ModelProducer, count: int, *, epochs: int) -> None:
        first_offset = producer.transaction_first_offset
        assert first_offset is not None
        kind = MarkerKind.ABORT if count % 2 else MarkerKind.COMMIT
        marker = Marker(kind, max(0, producer.coordinator_epoch))
        header = marker_batch(
            self.end_offset, producer_id=producer.producer_id, epoch=producer.epoch + epochs
        )
        self.states.check_marker(header, marker, transaction_version=2 if epochs else 1)
        aborted = self.write(header, marker)
        self.note_marker(producer, marker)
        producer.transaction_first_offset = None
        stable = self.first_unstable_offset
        expected = AbortedTransaction(
            producer.producer_id,
            first_offset,
            header.base_offset,
            header.next_offset if stable is None else stable,
        )
        assert aborted == (expected if marker.kind is MarkerKind.ABORT else None)


first_sequences = st.lists(
    st.sampled_from([0, 5, SEQUENCE_MAX - 3, SEQUENCE_MAX - 1, SEQUENCE_MAX]),
    min_size=1,
    max_size=4,
)
steps = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.integers(0, 3), st.integers(1, 3)), max_size=40
)


def run(first_sequences: list[int], steps: list[tuple[str, int, int]]) -> Model:
    model = Model(first_sequences)
    for action, index, count in steps:
        producer = model.producers[index % len(model.producers)]
        getattr(model, action)(producer, count)
        assert model.states.first_unstable_offset == model.first_unstable_offset
        assert model.states.map_end_offset == model.end_offset
        for each in model.producers:
            assert_asks_for_verification(model.states, each)
    return model


def assert_asks_for_verification(states: ProducerStates, producer: ModelProducer) -> None:
    """The next batch begins a transaction unless one is open; a later epoch always does."""
    header = producer.batch(0, 1)._replace(attributes=TRANSACTIONAL)
    is_open = producer.transaction_first_offset is not None
    assert states.begins_transaction(header) == (not is_open)
    later = header._replace(producer_epoch=producer.epoch + 1, base_sequence=0)
    assert states.begins_transaction(later)
    for sent in producer.sent:
        assert not states.begins_transaction(sent._replace(attributes=TRANSACTIONAL))


@settings(derandomize=True, deadline=None, max_examples=200)
@given(first_sequences, steps)
def test_each_batch_is_taken_once_whatever_is_retried_and_whoever_interleaves(
    first_sequences: list[int], steps: list[tuple[str, int, int]]
) -> None:
    model = run(first_sequences, steps)
    for producer in model.producers:
        model.retry(producer, 1)
    taken = [
        (header.producer_id, header.producer_epoch, header.base_sequence)
        for header, marker in model.log
        if marker is None
    ]
    assert len(taken) == len(set(taken))


@settings(derandomize=True, deadline=None, max_examples=100)
@given(first_sequences, steps)
def test_a_follower_that_replays_the_log_knows_what_the_leader_knows(
    first_sequences: list[int], steps: list[tuple[str, int, int]]
) -> None:
    model = run(first_sequences, steps)
    follower = ProducerStates()
    aborted = [follower.replay(header, marker) for header, marker in model.log]
    assert [entry for entry in aborted if entry] == model.aborted
    assert follower.first_unstable_offset == model.first_unstable_offset
    # The follower has forgotten nobody.
    for entry in model.states:
        assert follower.get(entry.producer_id) is not None
    if not any(action == "expire" for action, _, _ in steps):
        assert follower == model.states


@settings(derandomize=True, deadline=None, max_examples=100)
@given(first_sequences, steps, st.integers(0, 40))
def test_a_restart_from_any_snapshot_continues_as_if_there_had_been_none(
    first_sequences: list[int], steps: list[tuple[str, int, int]], stop_after: int
) -> None:
    model = run(first_sequences, steps)
    before = ProducerStates()
    for header, marker in model.log[:stop_after]:
        before.replay(header, marker)
    restarted = ProducerStates.decode_snapshot(before.encode_snapshot(), before.map_end_offset)
    for header, marker in model.log[stop_after:]:
        restarted.replay(header, marker)
    assert restarted.first_unstable_offset == model.first_unstable_offset
    if not any(action == "expire" for action, _, _ in steps):
        assert restarted.encode_snapshot() == model.states.encode_snapshot()
    for producer in model.producers:
        for header in producer.sent[-1:]:
            assert restarted.check(header, from_client=True) is not None


@settings(derandomize=True, deadline=None, max_examples=100)
@given(first_sequences, steps)
def test_readers_of_committed_records_never_pass_an_open_or_unreplicated_transaction(
    first_sequences: list[int], steps: list[tuple[str, int, int]]
) -> None:
    model = run(first_sequences, steps)
    spans: list[tuple[int, int]] = []
    begun: dict[int, int] = {}
    for header, marker in model.log:
        if marker is not None:
            # A repeated marker ends no transaction.
            if header.producer_id in begun:
                spans.append((begun.pop(header.producer_id), header.base_offset))
        elif header.is_transactional:
            begun.setdefault(header.producer_id, header.base_offset)
    spans += [(first, model.end_offset) for first in begun.values()]
    for watermark in range(model.end_offset + 1):
        undecided = [first for first, marker_at in spans if marker_at >= watermark]
        assert model.states.last_stable_offset(watermark) == min([watermark, *undecided])
