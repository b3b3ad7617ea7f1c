"""One partition's directory, checked from its first batch to its last."""

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace

from ottla.cli.log.progress import Advance
from ottla.cli.log.verify.batches import SegmentScan
from ottla.cli.log.verify.damage import Damage, Effect, LeftAs, Remedy
from ottla.cli.log.verify.epochs import EpochCheck
from ottla.cli.log.verify.indexes import EntryCheck, OffsetCheck, TimeCheck
from ottla.cli.log.verify.producers import AbortedCheck, ProducerReplay
from ottla.errors import CorruptLog
from ottla.seams.files import Files
from ottla.storage.compaction.segment_swap import SWAP
from ottla.storage.directory import checkpoint_files
from ottla.storage.log.segment import LOG, OFFSETS, TIMES, TRANSACTIONS, segment_path
from ottla.storage.opening.recovery import segment_offsets

# Of one partition; what is found beyond that is counted.
DAMAGES_MAX = 200


@dataclass(slots=True)
class PartitionReport:
    """What was read of a partition, and what is wrong with it."""

    path: str
    left: LeftAs
    segments: list[SegmentScan] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)
    damages_unlisted: int = 0

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def end_offset(self) -> int:
        """Where the log ends, as far as it is sound."""
        end_offset = self.segments[0].base_offset if self.segments else 0
        for segment in self.segments:
            if segment.sound_bytes or not segment.damages:
                end_offset = segment.sound_end_offset
            if segment.damages:
                break
        return end_offset

    def add(self, damage: Damage | None) -> None:
        if damage is None:
            return
        if len(self.damages) < DAMAGES_MAX:
            self.damages.append(replace(damage, partition=self.name))
        else:
            self.damages_unlisted += 1


def check_partition(files: Files, path: str, left: LeftAs, advance: Advance) -> PartitionReport:
    """Reads every byte of a partition that means something."""
    report = PartitionReport(path, left)
    _check_names(files, report)
    base_offsets = segment_offsets(files, path)
    check = _PartitionCheck(files, report, base_offsets, advance)
    for base_offset in base_offsets:
        check.segment(base_offset)
    check.end()
    return report


def _check_names(files: Files, report: PartitionReport) -> None:
    """The small files, and what a crash may have left."""
    try:
        checkpoint_files.read_partition_metadata(files, report.path)
    except CorruptLog as damage:
        report.add(Damage.of(damage, Effect.REFUSES_PARTITION, Remedy.NONE))
    for name in files.list(report.path):
        if name.endswith(SWAP):
            report.add(
                Damage(
                    path=f"{report.path}/{name}",
                    position=0,
                    what="a compaction stopped while swapping files",
                    effect=Effect.SETTLES,
                    remedy=Remedy.NONE,
                )
            )


class _PartitionCheck:
    """The state of a check that goes from segment to segment."""

    def __init__(
        self, files: Files, report: PartitionReport, base_offsets: list[int], advance: Advance
    ) -> None:
        self._files = files
        self._report = report
        self._left = report.left
        self._base_offsets = base_offsets
        self._advance = advance
        self._end_offset = base_offsets[0] if base_offsets else 0
        self._is_sound = True
        self._epochs = EpochCheck(files, report.path, self._left)
        self._producers = ProducerReplay(files, report.path, self._end_offset, self._left)

    def segment(self, base_offset: int) -> None:
        """Checks the next segment, and what lies beside it."""
        path = segment_path(self._report.path, base_offset, LOG)
        with closing(self._files.open(path, writable=False)) as file:
            is_last = base_offset == self._base_offsets[-1]
            scan = SegmentScan(file, base_offset, self._left, is_last, self._advance)
            self._check_follows(scan)
            if self._is_sound:
                self._check_with_indexes(scan)
            else:
                for _ in scan.sound():
                    pass
        self._report.segments.append(scan)
        for damage in (*scan.unreadable, *scan.damages):
            self._report.add(damage)
        self._is_sound &= not scan.damages
        self._end_offset = max(scan.last_offset + 1, scan.sound_end_offset)

    def end(self) -> None:
        """Checks what is about the partition as a whole."""
        if self._is_sound:
            self._producers.end()
            self._check_points()
        self._report.add(self._epochs.damage)
        for damage in self._producers.damages:
            self._report.add(damage)

    def _check_with_indexes(self, scan: SegmentScan) -> None:
        aborted = AbortedCheck(self._files, self._path(scan, TRANSACTIONS), self._left)
        indexes = list(self._index_checks(scan))
        for sound in scan.sound():
            for index in indexes:
                index.see(sound.placed)
            header, marker = sound.placed.header, sound.marker
            self._epochs.see(header)
            aborted.see(header, marker, self._producers.see(header, marker))
        if scan.damages:
            return
        self._report.add(aborted.end(is_whole=self._producers.is_whole))
        for index in indexes:
            index.end(scan.last_offset)
            if index.fault:
                self._report.add(
                    Damage(
                        path=index.path,
                        position=index.fault.position,
                        what=index.fault.what,
                        effect=index.fault.effect,
                        remedy=Remedy.REBUILD_INDEXES,
                    )
                )

    def _index_checks(self, scan: SegmentScan) -> Iterator[EntryCheck]:
        # After an unclean stop the end of the log is read and indexed again anyway.
        is_sealed = self._left.is_trusted(self._following(scan) - 1)
        must_exist = is_sealed and scan.size_bytes > 0
        path = self._path(scan, OFFSETS)
        yield OffsetCheck(self._files, path, scan.base_offset, self._left, must_exist=must_exist)
        yield TimeCheck(
            self._files,
            self._path(scan, TIMES),
            scan.base_offset,
            self._left,
            must_exist=must_exist,
            is_sealed=is_sealed,
        )

    def _following(self, scan: SegmentScan) -> int:
        """The offset that follows a segment: the next one's first; past all others for the last."""
        if scan.is_last:
            return 2**63 - 1
        return self._base_offsets[self._base_offsets.index(scan.base_offset) + 1]

    def _path(self, scan: SegmentScan, suffix: str) -> str:
        return segment_path(self._report.path, scan.base_offset, suffix)

    def _check_follows(self, scan: SegmentScan) -> None:
        """A segment begins where the one before ends, unless compaction took what was between."""
        if scan.base_offset == self._end_offset or not self._is_sound:
            return
        cleaned = self._left.cleaned_offset
        if scan.base_offset > self._end_offset:
            if cleaned is None or scan.base_offset <= cleaned:
                return
            what = f"offsets {self._end_offset} to {scan.base_offset - 1} are missing before it"
            effect, remedy = Effect.OVERLOOKS, Remedy.NONE
            if not self._left.is_trusted(scan.base_offset):
                effect, remedy = Effect.CUTS, Remedy.CUT
        else:
            what = f"it begins before offset {self._end_offset}, where the one before it ends"
            effect, remedy = Effect.OVERLOOKS, Remedy.CUT
        damage = Damage(
            path=scan.file.path,
            position=0,
            what=what,
            offset=scan.base_offset,
            below_recovery_point=self._left.is_flushed(self._end_offset),
            effect=effect,
            remedy=remedy,
        )
        if remedy is Remedy.CUT:
            scan.damages.append(damage)
        else:
            self._report.add(damage)

    def _check_points(self) -> None:
        """The checkpoints cannot lie beyond the end of the log."""
        end, left = self._end_offset, self._left
        last = self._report.segments[-1].file.path if self._report.segments else self._report.path
        position = self._report.segments[-1].sound_bytes if self._report.segments else 0
        if left.recovery_point is not None and left.recovery_point > end:
            self._report.add(
                Damage(
                    path=last,
                    position=position,
                    what=f"the log ends at {end}, though it was flushed to {left.recovery_point}",
                    offset=end,
                    below_recovery_point=True,
                    effect=Effect.OVERLOOKS if left.is_clean else Effect.REFUSES,
                    remedy=Remedy.LOWER_RECOVERY_POINT,
                )
            )
        if left.start_offset > end:
            self._report.add(
                Damage(
                    path=last,
                    position=position,
                    what=f"the log ends at {end}, though it should start at {left.start_offset}",
                    offset=end,
                    effect=Effect.RESTARTS,
                    remedy=Remedy.NONE,
                )
            )
