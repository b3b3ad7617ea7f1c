"""Compares producer snapshots and aborted transactions with a replay of the batches."""

from collections.abc import Iterator
from typing import NamedTuple

from ottla.cli.log.index_entries import read_entries
from ottla.cli.log.verify.damage import Damage, Effect, Remedy, ShutdownState
from ottla.errors import CorruptLog
from ottla.protocol.batch import BatchHeader, Marker, MarkerKind
from ottla.seams.files import Files, read_file
from ottla.storage.log.index import TransactionIndex
from ottla.storage.producers import snapshot_format
from ottla.storage.producers.entry import NO_EPOCH, ProducerEntry
from ottla.storage.producers.snapshot_files import snapshot_offsets, snapshot_path
from ottla.storage.producers.state import AbortedTransaction, ProducerStates


class ProducerSnapshot(NamedTuple):
    """The producer state before an offset, from a `.snapshot` file."""

    offset: int
    path: str
    producers: list[ProducerEntry]


class ProducerReplay:
    """Replays a partition's batches, and compares each snapshot at its offset.

    Batches may have been trimmed or compacted away, and Kafka expires idle producers. So a snapshot
    is damaged only if it contradicts the remaining batches.
    """

    def __init__(
        self, files: Files, directory: str, first_offset: int, shutdown: ShutdownState
    ) -> None:
        self.damages: list[Damage] = []
        self._directory = directory
        self._shutdown = shutdown
        self._pending = list(self._read(files, first_offset))
        self._states = ProducerStates(first_offset)
        # Whether the replay has all batches since offset 0.
        self._is_whole = first_offset == 0
        if self._pending and self._pending[0].offset == first_offset:
            self._states = _states_of(self._pending.pop(0))
            self._is_whole = True

    def add(self, header: BatchHeader, marker: Marker | None) -> AbortedTransaction | None:
        """Replays the next batch. Returns the transaction that it aborts, if any."""
        self._compare_until(header.base_offset)
        if header.base_offset > self._states.map_end_offset:
            self._is_whole = False
        return self._states.replay(header, marker)

    @property
    def is_whole(self) -> bool:
        return self._is_whole

    def end(self) -> None:
        """Ends the replay after the last batch."""
        end_offset = self._states.map_end_offset
        self._compare_until(end_offset)
        for snapshot in self._pending:
            self._report(snapshot.path, f"the log ends at {end_offset}", Effect.MISJUDGES_PRODUCERS)

    def _read(self, files: Files, first_offset: int) -> Iterator[ProducerSnapshot]:
        """The snapshots that a start would trust, if their checksums are valid."""
        for offset in snapshot_offsets(files, self._directory):
            if offset < first_offset or not self._shutdown.is_trusted(offset - 1):
                continue
            path = snapshot_path(self._directory, offset)
            try:
                yield ProducerSnapshot(
                    offset, path, snapshot_format.decode(read_file(files, path), path)
                )
            except CorruptLog as damage:
                self._report(path, damage.reason, Effect.FALLS_BACK, damage.position)

    def _compare_until(self, offset: int) -> None:
        while self._pending and self._pending[0].offset <= offset:
            snapshot = self._pending.pop(0)
            if snapshot.offset < self._states.map_end_offset:
                self._report(
                    snapshot.path, "its offset is inside a batch", Effect.MISJUDGES_PRODUCERS
                )
            elif wrong := next(self._contradictions(snapshot), None):
                self._report(snapshot.path, wrong, Effect.MISJUDGES_PRODUCERS)

    def _contradictions(self, snapshot: ProducerSnapshot) -> Iterator[str]:
        listed = {entry.producer_id: entry for entry in snapshot.producers}
        for producer_id, entry in listed.items():
            known = self._states.get(producer_id)
            if known is None:
                if self._is_whole:
                    yield f"producer {producer_id} has written nothing"
            elif not _agree(entry, known, is_whole=self._is_whole):
                listed_state, log_state = _description(entry), _description(known)
                yield f"producer {producer_id} is {listed_state}, in the log {log_state}"
        for known in self._states:
            if known.has_open_transaction and known.producer_id not in listed and self._is_whole:
                yield f"the open transaction of producer {known.producer_id} is missing"

    def _report(self, path: str, what: str, effect: Effect, position: int = 0) -> None:
        self.damages.append(
            Damage(path=path, position=position, what=what, effect=effect, remedy=Remedy.SET_ASIDE)
        )


def _states_of(snapshot: ProducerSnapshot) -> ProducerStates:
    content = snapshot_format.encode(snapshot.producers)
    return ProducerStates.decode_snapshot(content, snapshot.offset, path=snapshot.path)


def _agree(entry: ProducerEntry, known: ProducerEntry, *, is_whole: bool) -> bool:
    if _position(entry) != _position(known):
        return False
    if not is_whole:
        return True
    # A producer that expired and reappeared has lost its coordinator epoch.
    return entry.transaction_first_offset == known.transaction_first_offset and (
        entry.coordinator_epoch in (NO_EPOCH, known.coordinator_epoch)
    )


def _position(entry: ProducerEntry) -> tuple[object, ...]:
    """The producer state in a snapshot: epoch, last batch and last timestamp."""
    last = entry.batches[-1] if entry.batches else None
    span = (last.last_sequence, last.last_offset, last.offset_delta) if last else None
    return entry.epoch, span, entry.last_timestamp_ms


def _description(entry: ProducerEntry) -> str:
    last = f"offset {entry.batches[-1].last_offset}" if entry.batches else "no batch"
    return (
        f"at epoch {entry.epoch}, sequence {entry.last_sequence}, {last},"
        f" open transaction at {entry.transaction_first_offset}"
    )


class AbortedCheck:
    """Compares the aborted transactions of one segment with its transaction index."""

    def __init__(self, files: Files, path: str, shutdown: ShutdownState) -> None:
        self._files = files
        self._path = path
        self._shutdown = shutdown
        # The producer of each abort marker of this segment, by the marker's offset.
        self._markers: dict[int, int] = {}
        # The aborted transactions that still have records, by their last offset.
        self._aborted: dict[int, AbortedTransaction] = {}

    def add(
        self, header: BatchHeader, marker: Marker | None, aborted: AbortedTransaction | None
    ) -> None:
        if marker is not None and marker.kind is MarkerKind.ABORT:
            self._markers[header.base_offset] = header.producer_id
        if aborted is not None:
            self._aborted[aborted.last_offset] = aborted

    def end(self, *, is_whole: bool) -> Damage | None:
        """The damage of the index, after the segment's last batch; None if there is none."""
        try:
            what = self._contradiction(dict(self._listed()), is_whole=is_whole)
            position = 0
        except CorruptLog as damage:
            what, position = damage.reason, damage.position
        if what is None:
            return None
        return Damage(
            path=self._path,
            position=position,
            what=what,
            effect=Effect.SHOWS_ABORTED,
            remedy=Remedy.REBUILD_ABORTED,
        )

    def _listed(self) -> Iterator[tuple[int, AbortedTransaction]]:
        """The entries of the index that a start would trust, by their markers' offsets."""
        if not self._files.exists(self._path):
            return
        entries = read_entries(self._files, self._path, TransactionIndex.ENTRY)
        for position, (version, *fields) in entries:
            if version != TransactionIndex.VERSION:
                raise CorruptLog(self._path, position, f"an entry of version {version}")
            entry = AbortedTransaction(*fields)
            if self._shutdown.is_trusted(entry.last_offset):
                yield entry.last_offset, entry

    def _contradiction(
        self, listed: dict[int, AbortedTransaction], *, is_whole: bool
    ) -> str | None:
        # The last stable offset depends on transactions that may no longer be in the log.
        compared = slice(None) if is_whole else slice(0, 3)
        for offset, known in self._aborted.items():
            entry = listed.get(offset)
            if entry is None and self._shutdown.is_trusted(offset):
                return f"the transaction that was aborted at offset {offset} is missing"
            if entry is not None and entry[compared] != known[compared]:
                return f"{entry} is listed, in the log it is {known}"
        for offset, entry in listed.items():
            if self._markers.get(offset) != entry.producer_id:
                return f"no marker at offset {offset} aborts producer {entry.producer_id}"
        return None
