"""What a log knows of its producers: enough to append each batch once, and each transaction whole.

`check` and `check_marker` decide and change nothing; `replay` is the only way state changes, so
that a live append, recovery and a follower arrive at the same state from the same batches.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Self

from ottla.errors import ErrorCode, PeerError
from ottla.protocol.batch import BatchHeader, Marker, MarkerKind
from ottla.storage.producers import snapshot_format
from ottla.storage.producers.entry import ProducerEntry
from ottla.storage.producers.transactions import TransactionSpans

PRODUCERS_MAX = 100_000


class Duplicate(NamedTuple):
    """Where a repeated batch already is: what the retry gets as its answer."""

    first_offset: int
    last_offset: int
    timestamp: int


class AbortedTransaction(NamedTuple):
    """An entry of the `.txnindex`: from the first record to the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ProducerStates:
    """All producers of one log, up to `map_end_offset`.

    At most `producers_max` are known: past that the one idle for longest is forgotten, and starts
    anew when it comes back.
    """

    __slots__ = ("_producers", "_producers_max", "_transactions", "map_end_offset")

    def __init__(self, map_end_offset: int = 0, *, producers_max: int = PRODUCERS_MAX) -> None:
        # The one that was idle for longest comes first.
        self._producers: OrderedDict[int, ProducerEntry] = OrderedDict()
        self._transactions = TransactionSpans()
        # The offset after the last batch. One that has no producer moves only this.
        self.map_end_offset = map_end_offset
        self._producers_max = producers_max

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._producers.values())

    def __eq__(self, other: object) -> bool:
        """Equal producers at an equal offset, whoever was idle for longest."""
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
        """The same state with a life of its own."""
        copied = type(self)(self.map_end_offset, producers_max=self._producers_max)
        copied._producers = self._producers.copy()
        copied._transactions = self._transactions.copy()
        return copied

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the earliest open transaction begins, as far as it is still in the log."""
        return self._transactions.first_open_offset

    def last_stable_offset(self, high_watermark: int) -> int:
        """Where a reader of committed records must stop: exclusive, never past the watermark."""
        return self._transactions.last_stable_offset(high_watermark)

    # Deciding

    def check(self, header: BatchHeader, *, from_client: bool) -> Duplicate | None:
        """Whether a leader may append this batch: None, or where it already is.

        What comes from a coordinator of our own (`from_client` false) has no sequence to check. A
        producer that is not known may begin at any sequence: its records may have been deleted.
        PeerError otherwise.
        """
        if header.producer_id < 0:
            return None
        entry = self._producers.get(header.producer_id)
        if entry is None:
            self._check_room()
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

    def continue_all(self, batches: Iterable[tuple[memoryview, BatchHeader]]) -> bool:
        """Whether each batch that has a producer is plainly that one's next.

        Whatever becomes of the others: a producer that is new, or has two batches, does not count.
        """
        seen: set[int] = set()
        for _, header in batches:
            if header.producer_id >= 0:
                entry = self._producers.get(header.producer_id)
                if entry is None or header.producer_id in seen or not entry.continues(header):
                    return False
                seen.add(header.producer_id)
        return True

    def check_marker(
        self, header: BatchHeader, marker: Marker, *, transaction_version: int
    ) -> None:
        """Whether a leader may append this end of a transaction. PeerError if not."""
        entry = self._producers.get(header.producer_id)
        if entry is None:
            self._check_room()
        else:
            entry.check_marker(header, marker, transaction_version)

    def _check_room(self) -> None:
        """Only the idle make room: a producer in a transaction cannot be forgotten."""
        if len(self._transactions) >= self._producers_max:
            raise PeerError(
                ErrorCode.POLICY_VIOLATION,
                f"{self._producers_max} producers have a transaction open in this partition",
            )

    # Changing

    def replay(
        self, header: BatchHeader, marker: Marker | None = None
    ) -> AbortedTransaction | None:
        """Takes in a batch that stands in the log; what its marker aborted, if anything.

        A control batch comes with its marker, unless the cleaner took that out.
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
        """Forgets who was idle for longest; those in a transaction go to the end of the queue."""
        for _ in range(len(self._producers)):
            producer_id, entry = self._producers.popitem(last=False)
            if not entry.has_open_transaction:
                return
            self._producers[producer_id] = entry

    def truncate_start(self, log_start_offset: int) -> None:
        """Nothing before `log_start_offset` is in the log any more.

        Producers are kept until they expire, and a transaction that was cut in two stays open.
        """
        self._transactions.truncate_start(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forgets who wrote nothing for so long and has no open transaction; how many."""
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
        """What stands in the `.snapshot` file whose name is `map_end_offset`."""
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
        """The state that such a file holds. CorruptLog if it is not what was written."""
        states = cls(map_end_offset, producers_max=producers_max)
        entries = snapshot_format.decode(content, path)
        for entry in sorted(entries, key=lambda entry: entry.last_timestamp_ms):
            if entry.has_open_transaction:
                states._transactions.begin(entry.transaction_first_offset)
            states._remember(entry)
        return states
