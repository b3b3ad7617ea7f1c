"""The state of one producer in a log, and the check of its next batch."""

from typing import NamedTuple, Self

from ottla.errors import ErrorCode, PeerError
from ottla.protocol.batch import BatchHeader, Marker
from ottla.tuples import maker

# An idempotent client has at most five requests in flight, so it can repeat at most five.
BATCHES_KEPT = 5
SEQUENCE_MAX = 2**31 - 1
NO_EPOCH = -1
NO_SEQUENCE = -1
NO_OFFSET = -1
NO_TIMESTAMP = -1
# From this transaction version on, a marker carries the epoch of the transaction plus one.
EPOCH_BUMPED_SINCE = 2


class BatchSpan(NamedTuple):
    """Last sequence, last offset, offset delta and max timestamp of a batch."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MAX


class ProducerEntry(NamedTuple):
    """The epoch, the latest batches (newest last) and the open transaction of a producer."""

    producer_id: int
    epoch: int = NO_EPOCH
    batches: tuple[BatchSpan, ...] = ()
    last_timestamp_ms: int = NO_TIMESTAMP
    coordinator_epoch: int = NO_EPOCH
    # -1 if no transaction is open.
    transaction_first_offset: int = NO_OFFSET

    @property
    def has_open_transaction(self) -> bool:
        return self.transaction_first_offset >= 0

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    # Checks of the next batch

    def continues(self, header: BatchHeader) -> bool:
        """Whether this is the next batch in sequence, as nearly all are."""
        return (
            header.producer_epoch == self.epoch
            and header.base_sequence == (self.last_sequence + 1) & SEQUENCE_MAX
            and (header.is_transactional or self.transaction_first_offset < 0)
        )

    def repeated(self, header: BatchHeader) -> BatchSpan | None:
        """The batch of which this one is a duplicate, if it is among the latest of its epoch."""
        if header.producer_epoch != self.epoch:
            return None
        last_sequence = header.last_sequence
        for span in self.batches:
            if span.last_sequence == last_sequence and span.first_sequence == header.base_sequence:
                return span
        return None

    def check_epoch(self, header: BatchHeader) -> None:
        if header.producer_epoch < self.epoch:
            raise PeerError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {self.producer_id}: epoch {header.producer_epoch} is over,"
                f" epoch {self.epoch} has begun",
            )

    def check_sequence(self, header: BatchHeader) -> None:
        """The next sequence of this epoch, or 0 in a new one; any if no epoch is known."""
        if self.epoch == NO_EPOCH:
            return
        expected = 0
        if header.producer_epoch == self.epoch:
            expected = (self.last_sequence + 1) & SEQUENCE_MAX
        if header.base_sequence != expected:
            raise PeerError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {self.producer_id}, epoch {header.producer_epoch}: sequence"
                f" {header.base_sequence} came where {expected} was due",
            )

    def check_transaction(self, header: BatchHeader) -> None:
        """A producer with an open transaction writes transactional batches only."""
        if self.has_open_transaction and not header.is_transactional:
            raise PeerError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {self.producer_id}: a batch outside of its open transaction",
            )

    def check_marker(self, header: BatchHeader, marker: Marker, transaction_version: int) -> None:
        """Refuses markers of a fenced coordinator, and late markers.

        With transaction version 2 a marker bumps the epoch. A marker of the current epoch is then
        late, unless it only repeats the marker that ended the last transaction.
        """
        self.check_epoch(header)
        bumps_epoch = transaction_version >= EPOCH_BUMPED_SINCE
        if bumps_epoch and header.producer_epoch == self.epoch and self.has_open_transaction:
            raise PeerError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {self.producer_id}: a marker of epoch {self.epoch} cannot end"
                " a transaction of that same epoch",
            )
        if marker.coordinator_epoch < self.coordinator_epoch:
            raise PeerError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"producer {self.producer_id}: coordinator epoch {marker.coordinator_epoch} is"
                f" over, epoch {self.coordinator_epoch} has begun",
            )

    # The state after a batch

    def after_batch(self, header: BatchHeader) -> "ProducerEntry":
        transaction_first_offset = self.transaction_first_offset
        # An empty batch is from the cleaner: its transaction ended long ago.
        if transaction_first_offset < 0 and header.is_transactional and header.count > 0:
            transaction_first_offset = header.base_offset
        span = _span(
            (
                header.last_sequence,
                header.base_offset + header.last_offset_delta,
                header.last_offset_delta,
                header.max_timestamp,
            )
        )
        # Built in one go: this runs for every batch, and `_replace` takes many times as long.
        return _entry(
            (
                self.producer_id,
                header.producer_epoch,
                (*self._batches_of(header.producer_epoch)[1 - BATCHES_KEPT :], span),
                header.max_timestamp,
                self.coordinator_epoch,
                transaction_first_offset,
            )
        )

    def after_marker(self, header: BatchHeader, marker: Marker) -> Self:
        """The transaction ended. Sequences continue unless the marker began a new epoch."""
        return self.after_control(header)._replace(
            coordinator_epoch=marker.coordinator_epoch, transaction_first_offset=NO_OFFSET
        )

    def after_control(self, header: BatchHeader) -> Self:
        """A control batch without a marker still has the producer's epoch."""
        return self._replace(
            epoch=header.producer_epoch,
            batches=self._batches_of(header.producer_epoch),
            last_timestamp_ms=header.max_timestamp,
        )

    def _batches_of(self, epoch: int) -> tuple[BatchSpan, ...]:
        return self.batches if epoch == self.epoch else ()


_span = maker(BatchSpan)
_entry = maker(ProducerEntry)
