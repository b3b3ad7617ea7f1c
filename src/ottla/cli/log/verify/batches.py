"""Checks the batches of one segment: headers, checksums and records."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ottla.cli.log.progress import Advance
from ottla.cli.log.verify.damage import Damage, Effect, Remedy, ShutdownState
from ottla.errors import CorruptLog, PeerError
from ottla.protocol.batch import CorruptBatch, Marker, read_marker, records
from ottla.seams.files import File
from ottla.storage.log.batch_scan import SCAN_WINDOW_BYTES, BatchWalk, Placed


class ValidBatch(NamedTuple):
    """An undamaged batch, and its marker if it ends a transaction."""

    placed: Placed
    marker: Marker | None


@dataclass(slots=True, kw_only=True)
class SegmentScan:
    """A scan of one segment. Iterate `batches_until_damage` once; it sets the other fields.

    Batches after the first damage are still counted and checked as far as the chain of headers
    goes, but not yielded: checks that depend on all earlier batches would judge them wrongly.
    """

    file: File
    base_offset: int
    shutdown: ShutdownState
    is_last: bool
    advance: Advance
    damages: list[Damage] = field(default_factory=list)
    # Batches as their clients sent them, with records that cannot be read.
    unreadable: list[Damage] = field(default_factory=list)
    size_bytes: int = 0
    batches: int = 0
    last_offset: int = -1
    # The bytes and batches before the first damage, and the offset there.
    valid_bytes: int = 0
    valid_batches: int = 0
    valid_end_offset: int = 0

    def __post_init__(self) -> None:
        self.size_bytes = self.file.size()
        self.valid_end_offset = self.base_offset

    def batches_until_damage(self) -> Iterator[ValidBatch]:
        walk = BatchWalk(self.file, 0, self.size_bytes, SCAN_WINDOW_BYTES)
        try:
            for placed in walk:
                if placed.header.base_offset < self.base_offset:
                    what = f"offset {placed.header.base_offset} is below the segment's base offset"
                    raise CorruptLog(walk.path, placed.position, what)
                marker = self._read(walk, placed)
                self.batches += 1
                self.last_offset = placed.header.last_offset
                self.advance(placed.header.size)
                if not self.damages:
                    self.valid_bytes = placed.position + placed.header.size
                    self.valid_batches += 1
                    self.valid_end_offset = placed.header.next_offset
                    yield ValidBatch(placed, marker)
        except CorruptLog as damage:
            offset = max(self.last_offset + 1, self.valid_end_offset)
            effect = self.shutdown.effect_of_broken_chain(offset, in_last_segment=self.is_last)
            self._report(damage.position, damage.reason, offset, effect)

    def _read(self, walk: BatchWalk, placed: Placed) -> Marker | None:
        """Checks one batch, and records its damage."""
        header = placed.header
        if not walk.crc_is_valid(placed):
            effect = self.shutdown.effect_of_wrong_checksum(header.base_offset)
            self._report(placed.position, "the checksum is wrong", header.base_offset, effect)
            return None
        try:
            batch = walk.batch(placed)
            _check_records(batch)
            return read_marker(batch) if header.is_control and header.count else None
        except PeerError as error:
            what = error.reason if isinstance(error, CorruptBatch) else str(error)
            found = self._damage(
                placed.position, what, header.base_offset, Effect.SERVES_UNREADABLE
            )
            self.unreadable.append(replace(found, remedy=Remedy.KEEP))
            return None

    def _report(self, position: int, what: str, offset: int, effect: Effect) -> None:
        self.damages.append(self._damage(position, what, offset, effect))

    def _damage(self, position: int, what: str, offset: int, effect: Effect) -> Damage:
        return Damage(
            path=self.file.path,
            position=position,
            what=what,
            offset=offset,
            below_recovery_point=self.shutdown.is_flushed(offset),
            effect=effect,
            remedy=Remedy.CUT,
        )


def _check_records(batch: bytes) -> None:
    """Decompresses and reads all records. PeerError if they contradict the header."""
    for _ in records(batch):
        pass
