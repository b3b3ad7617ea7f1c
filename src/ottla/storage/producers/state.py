"""The producer state of a log: idempotence and open transactions.

`check` and `check_marker` decide and change nothing. Only `replay` changes state, so that appends,
recovery and followers get the same state from the same batches.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Self

from ottla.errors import ErrorCode, PeerError
from ottla.protocol.batch import TRANSACTIONAL, BatchHeader, Marker, MarkerKind
from ottla.storage.producers import snapshot_format
from ottla.storage.producers.entry import SEQUENCE_MAX, ProducerEntry
from ottla.storage.producers.transactions import TransactionSpans

PRODUCERS_MAX = 100_000


class Duplicate(NamedTuple):
    """The offsets of the first append of a duplicate batch, which the retry gets as its answer."""

    first_offset: int
    last_offset: int
    timestamp: int


class AbortedTransaction(NamedTuple):
    """An entry of the transaction index: from the first record to the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ProducerStates:
    """All producers of one log, up to `map_end_offset`.

    At most `producers_max` are kept. Beyond that the least recently used one without an open
    transaction is forgotten; its next batch may have any sequence.
    """

    __slots__ = ("_producers", "_producers_max", "_transactions", "map_end_offset")

    def __init__(self, map_end_offset: int = 0, *, producers_max: int = PRODUCERS_MAX) -> None:
        # Least recently used first.
        self._producers: OrderedDict[int, ProducerEntry] = OrderedDict()
        self._transactions = TransactionSpans()
        # The offset after the last batch, with or without a producer.
        self.map_end_offset = map_end_offset
        self._producers_max = producers_max

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._producers.values())

    def __eq__(self, other: object) -> bool:
        """Equal producers at an equal offset, in any order."""
        return (
            isinstance(other, ProducerStates)
            and self.map_end_offset == other.map_end_offset
            and dict(self._producers) == dict(other._producers)
        )

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"ProducerStates({self.map_end_offset}, {list(self)!r})"

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._producers.get(producer_id)

    def copy(self) -> Self:
        """An independent copy."""
        copied = type(self)(self.map_end_offset, producers_max=self._producers_max)
        copied._producers = self._producers.copy()
        copied._transactions = self._transactions.copy()
        return copied

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the earliest open transaction, at least the log start offset."""
        return self._transactions.first_open_offset

    def last_stable_offset(self, high_watermark: int) -> int:
        """The last stable offset: exclusive, never beyond the high watermark."""
        return self._transactions.last_stable_offset(high_watermark)

    # Deciding

    def check(
        self, header: BatchHeader, *, from_client: bool, first_sequence_max: int = SEQUENCE_MAX
    ) -> Duplicate | None:
        """None if the leader may append this batch, or the offsets of which it is a duplicate.

        PeerError if the batch is refused. Batches of this broker's coordinators (`from_client`
        false) have no sequence to check. An unknown producer may begin at any sequence up to
        `first_sequence_max`: its records may have been deleted.
        """
        if header.producer_id < 0:
            return None
        entry = self._producers.get(header.producer_id)
        if entry is None:
            self._check_room()
            if header.base_sequence > first_sequence_max:
                raise PeerError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"unknown producer {header.producer_id}: sequence {header.base_sequence} came"
                    f" where {first_sequence_max} was due",
                )
            return None
        if entry.continues(header):
            return None
        if from_client and (span := entry.repeated(header)):
            return Duplicate(span.first_offset, span.last_offset, span.timestamp_ms)
        entry.check_epoch(header)
        if from_client:
            entry.check_sequence(header)
        entry.check_transaction(header)
        return None

    def all_continue(self, batches: Iterable[tuple[memoryview, BatchHeader]]) -> bool:
        """Whether each batch with a producer is the next one of a known producer.

        False if a producer is new or has two of these batches, or if one begins a transaction.
        """
        seen: set[int] = set()
        for _, header in batches:
            if header.producer_id >= 0:
                entry = self._producers.get(header.producer_id)
                if entry is None or header.producer_id in seen or not entry.continues(header):
                    return False
                if header.attributes & TRANSACTIONAL and entry.transaction_first_offset < 0:
                    return False
                seen.add(header.producer_id)
        return True

    def begins_transaction(self, header: BatchHeader) -> bool:
        """Whether a client's transactional batch would be the first of its transaction here.

        False for a duplicate, which is not appended again. PeerError if the epoch is fenced.
        """
        entry = self._producers.get(header.producer_id)
        if entry is None or header.producer_epoch > entry.epoch:
            return True
        entry.check_epoch(header)
        return not entry.has_open_transaction and entry.repeated(header) is None

    def check_marker(
        self, header: BatchHeader, marker: Marker, *, transaction_version: int
    ) -> None:
        """Raises PeerError unless the leader may append this transaction marker."""
        entry = self._producers.get(header.producer_id)
        # That of an unknown producer takes no room: it has no transaction, and is forgotten first.
        if entry is not None:
            entry.check_marker(header, marker, transaction_version)

    def _check_room(self) -> None:
        """Refuses a new producer if all others have open transactions and cannot be forgotten."""
        if len(self._transactions) >= self._producers_max:
            raise PeerError(
                ErrorCode.POLICY_VIOLATION,
                f"{self._producers_max} producers have a transaction open in this partition",
            )

    # Changing

    def replay(
        self, header: BatchHeader, marker: Marker | None = None
    ) -> AbortedTransaction | None:
        """Applies a batch of the log. Returns the transaction that its marker aborted, if any.

        A control batch comes with its marker, unless the cleaner emptied the batch.
        """
        self.map_end_offset = header.next_offset
        if header.producer_id < 0:
            return None
        entry = self._producers.get(header.producer_id) or ProducerEntry(header.producer_id)
        if marker is not None:
            return self._replay_marker(entry, header, marker)
        if header.is_control:
            self._remember(entry.after_control(header))
            return None
        updated = entry.after_batch(header)
        if updated.transaction_first_offset != entry.transaction_first_offset:
            self._transactions.begin(updated.transaction_first_offset)
        self._remember(updated)
        return None

    def _replay_marker(
        self, entry: ProducerEntry, header: BatchHeader, marker: Marker
    ) -> AbortedTransaction | None:
        self._remember(entry.after_marker(header, marker))
        if not entry.has_open_transaction:
            return None
        first_offset, last_offset = entry.transaction_first_offset, header.base_offset
        stable_offset = self._transactions.end(first_offset, last_offset)
        if marker.kind is not MarkerKind.ABORT:
            return None
        return AbortedTransaction(entry.producer_id, first_offset, last_offset, stable_offset)

    def _remember(self, entry: ProducerEntry) -> None:
        producers = self._producers
        producers[entry.producer_id] = entry
        producers.move_to_end(entry.producer_id)
        if len(producers) > self._producers_max:
            self._forget_one()

    def _forget_one(self) -> None:
        """Forgets the least recently used producer that has no open transaction."""
        for _ in range(len(self._producers)):
            producer_id, entry = self._producers.popitem(last=False)
            if not entry.has_open_transaction:
                return
            self._producers[producer_id] = entry

    def truncate_start(self, log_start_offset: int) -> None:
        """The log start offset moved.

        Producers are kept until they expire. A transaction across the log start offset stays open.
        """
        self._transactions.truncate_start(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forgets expired producers without an open transaction. Returns their number."""
        expired = [
            entry.producer_id
            for entry in self
            if not entry.has_open_transaction and now_ms - entry.last_timestamp_ms >= expiration_ms
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        return len(expired)

    # Keeping

    def encode_snapshot(self) -> bytes:
        """The content of the `.snapshot` file with the name `map_end_offset`."""
        return snapshot_format.encode(self)

    @classmethod
    def decode_snapshot(
        cls,
        content: bytes,
        map_end_offset: int,
        *,
        path: str = snapshot_format.SUFFIX,
        producers_max: int = PRODUCERS_MAX,
    ) -> Self:
        """The state of such a file. CorruptLog if it is damaged."""
        states = cls(map_end_offset, producers_max=producers_max)
        entries = snapshot_format.decode(content, path)
        for entry in sorted(entries, key=lambda entry: entry.last_timestamp_ms):
            if entry.has_open_transaction:
                states._transactions.begin(entry.transaction_first_offset)
            states._remember(entry)
        return states
