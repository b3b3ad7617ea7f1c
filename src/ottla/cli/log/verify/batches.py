"""One segment's batches, read one after another: header, checksum, records."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ottla.cli.log.progress import Advance
from ottla.cli.log.verify.damage import Damage, Effect, LeftAs, Remedy
from ottla.errors import CorruptLog, PeerError
from ottla.protocol.batch import CorruptBatch, Marker, read_marker, records
from ottla.seams.files import File
from ottla.storage.log.batch_scan import SCAN_WINDOW_BYTES, BatchWalk, Placed


class SoundBatch(NamedTuple):
    """A batch that is what it was when it was written, and its marker if it ends a transaction."""

    placed: Placed
    marker: Marker | None


@dataclass(slots=True)
class SegmentScan:
    """A walk over one segment. `sound` is to be iterated once; the rest is known then.

    After the first damage batches are still counted and checked as far as the chain of headers
    goes, but no longer handed out: what hangs on those before is not to be judged by them.
    """

    file: File
    base_offset: int
    left: LeftAs
    is_last: bool
    advance: Advance
    damages: list[Damage] = field(default_factory=list)
    # Batches that are as their clients sent them, with records that cannot be read.
    unreadable: list[Damage] = field(default_factory=list)
    size_bytes: int = 0
    batches: int = 0
    last_offset: int = -1
    # Where the first damage begins, how many batches lie before it, and the first offset there.
    sound_bytes: int = 0
    sound_batches: int = 0
    sound_end_offset: int = 0

    def __post_init__(self) -> None:
        self.size_bytes = self.file.size()
        self.sound_end_offset = self.base_offset

    def sound(self) -> Iterator[SoundBatch]:
        walk = BatchWalk(self.file, 0, self.size_bytes, SCAN_WINDOW_BYTES)
        try:
            for placed in walk:
                if placed.header.base_offset < self.base_offset:
                    what = f"offset {placed.header.base_offset} lies before the segment"
                    raise CorruptLog(walk.path, placed.position, what)
                marker = self._read(walk, placed)
                self.batches += 1
                self.last_offset = placed.header.last_offset
                self.advance(placed.header.size)
                if not self.damages:
                    self.sound_bytes = placed.position + placed.header.size
                    self.sound_batches += 1
                    self.sound_end_offset = placed.header.next_offset
                    yield SoundBatch(placed, marker)
        except CorruptLog as damage:
            offset = max(self.last_offset + 1, self.sound_end_offset)
            effect = self.left.effect_of_broken_chain(offset, in_last_segment=self.is_last)
            self._report(damage.position, damage.reason, offset, effect)

    def _read(self, walk: BatchWalk, placed: Placed) -> Marker | None:
        """Checks one batch; what is wrong with it goes to the damages."""
        header = placed.header
        if not walk.crc_is_valid(placed):
            effect = self.left.effect_of_wrong_checksum(header.base_offset)
            self._report(placed.position, "the checksum is wrong", header.base_offset, effect)
            return None
        try:
            batch = walk.batch(placed)
            _check_records(batch)
            return read_marker(batch) if header.is_control and header.count else None
        except PeerError as error:
            what = error.reason if isinstance(error, CorruptBatch) else str(error)
            found = self._damage(placed.position, what, header.base_offset, Effect.STUMBLES)
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
            below_recovery_point=self.left.is_flushed(offset),
            effect=effect,
            remedy=Remedy.CUT,
        )


def _check_records(batch: bytes) -> None:
    """Unfolds and reads all records. PeerError if they are not what the header announces."""
    for _ in records(batch):
        pass
