"""Checks one partition directory from its first batch to its last."""

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace

from ottla.cli.log.progress import Advance
from ottla.cli.log.verify.batches import SegmentScan
from ottla.cli.log.verify.damage import Damage, Effect, Remedy, ShutdownState
from ottla.cli.log.verify.epochs import EpochCheck
from ottla.cli.log.verify.indexes import EntryCheck, OffsetCheck, TimeCheck
from ottla.cli.log.verify.producers import AbortedCheck, ProducerReplay
from ottla.errors import CorruptLog
from ottla.seams.files import Files
from ottla.storage.compaction.segment_swap import SWAP
from ottla.storage.directory import checkpoint_files
from ottla.storage.log.segment import LOG, OFFSETS, TIMES, TRANSACTIONS, segment_path
from ottla.storage.opening.recovery import segment_offsets

# Listed per partition; further damage is only counted.
DAMAGES_MAX = 200


@dataclass(slots=True)
class PartitionReport:
    """The scanned segments of a partition, and the damage found."""

    path: str
    shutdown: ShutdownState
    segments: list[SegmentScan] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)
    damages_unlisted: int = 0

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def end_offset(self) -> int:
        """The end of the undamaged part of the log."""
        end_offset = self.segments[0].base_offset if self.segments else 0
        for segment in self.segments:
            if segment.valid_bytes or not segment.damages:
                end_offset = segment.valid_end_offset
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


def check_partition(
    files: Files, path: str, shutdown: ShutdownState, advance: Advance
) -> PartitionReport:
    """Checks all files of a partition."""
    report = PartitionReport(path, shutdown)
    _check_names(files, report)
    base_offsets = segment_offsets(files, path)
    check = _PartitionCheck(files, report, base_offsets, advance)
    for base_offset in base_offsets:
        check.segment(base_offset)
    check.end()
    return report


def _check_names(files: Files, report: PartitionReport) -> None:
    """Checks the partition metadata, and files that an interrupted compaction left."""
    try:
        checkpoint_files.read_partition_metadata(files, report.path)
    except CorruptLog as damage:
        report.add(Damage.of(damage, Effect.TAKES_PARTITION_OFFLINE, Remedy.NONE))
    for name in files.list(report.path):
        if name.endswith(SWAP):
            report.add(
                Damage(
                    path=f"{report.path}/{name}",
                    position=0,
                    what="a compaction stopped while swapping files",
                    effect=Effect.FINISHES_COMPACTION,
                    remedy=Remedy.NONE,
                )
            )


class _PartitionCheck:
    """The state of a check across segments."""

    def __init__(
        self, files: Files, report: PartitionReport, base_offsets: list[int], advance: Advance
    ) -> None:
        self._files = files
        self._report = report
        self._shutdown = report.shutdown
        self._base_offsets = base_offsets
        self._advance = advance
        self._end_offset = base_offsets[0] if base_offsets else 0
        self._is_valid = True
        self._epochs = EpochCheck(files, report.path, self._shutdown)
        self._producers = ProducerReplay(files, report.path, self._end_offset, self._shutdown)

    def segment(self, base_offset: int) -> None:
        """Checks the next segment and its indexes."""
        path = segment_path(self._report.path, base_offset, LOG)
        with closing(self._files.open(path, writable=False)) as file:
            is_last = base_offset == self._base_offsets[-1]
            scan = SegmentScan(
                file=file,
                base_offset=base_offset,
                shutdown=self._shutdown,
                is_last=is_last,
                advance=self._advance,
            )
            self._check_follows(scan)
            if self._is_valid:
                self._check_with_indexes(scan)
            else:
                for _ in scan.batches_until_damage():
                    pass
        self._report.segments.append(scan)
        for damage in (*scan.unreadable, *scan.damages):
            self._report.add(damage)
        self._is_valid &= not scan.damages
        self._end_offset = max(scan.last_offset + 1, scan.valid_end_offset)

    def end(self) -> None:
        """Checks the files that cover the whole partition."""
        if self._is_valid:
            self._producers.end()
            self._check_points()
        self._report.add(self._epochs.damage)
        for damage in self._producers.damages:
            self._report.add(damage)

    def _check_with_indexes(self, scan: SegmentScan) -> None:
        aborted = AbortedCheck(self._files, self._path(scan, TRANSACTIONS), self._shutdown)
        indexes = list(self._index_checks(scan))
        for batch in scan.batches_until_damage():
            for index in indexes:
                index.add(batch.placed)
            header, marker = batch.placed.header, batch.marker
            self._epochs.add(header)
            aborted.add(header, marker, self._producers.add(header, marker))
        if scan.damages:
            return
        self._report.add(aborted.end(is_whole=self._producers.is_whole))
        for index in indexes:
            index.end(scan.valid_end_offset)
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
        # After an unclean shutdown the end of the log is scanned and indexed again anyway.
        is_sealed = self._shutdown.is_trusted(self._following(scan) - 1)
        must_exist = is_sealed and scan.size_bytes > 0
        path = self._path(scan, OFFSETS)
        yield OffsetCheck(
            self._files, path, scan.base_offset, self._shutdown, must_exist=must_exist
        )
        yield TimeCheck(
            self._files,
            self._path(scan, TIMES),
            scan.base_offset,
            self._shutdown,
            must_exist=must_exist,
            is_sealed=is_sealed,
        )

    def _following(self, scan: SegmentScan) -> int:
        """The base offset of the next segment; the largest offset for the last segment."""
        if scan.is_last:
            return 2**63 - 1
        return self._base_offsets[self._base_offsets.index(scan.base_offset) + 1]

    def _path(self, scan: SegmentScan, suffix: str) -> str:
        return segment_path(self._report.path, scan.base_offset, suffix)

    def _check_follows(self, scan: SegmentScan) -> None:
        """A segment begins at the end of the previous one, unless compaction removed offsets."""
        if scan.base_offset == self._end_offset or not self._is_valid:
            return
        cleaned = self._shutdown.cleaned_offset
        if scan.base_offset > self._end_offset:
            if cleaned is None or scan.base_offset <= cleaned:
                return
            what = f"offsets {self._end_offset} to {scan.base_offset - 1} are missing before it"
            effect, remedy = Effect.UNDETECTED, Remedy.NONE
            if not self._shutdown.is_trusted(scan.base_offset):
                effect, remedy = Effect.CUTS, Remedy.CUT
        else:
            what = f"it begins before offset {self._end_offset}, the end of the previous segment"
            effect, remedy = Effect.UNDETECTED, Remedy.CUT
        damage = Damage(
            path=scan.file.path,
            position=0,
            what=what,
            offset=scan.base_offset,
            below_recovery_point=self._shutdown.is_flushed(self._end_offset),
            effect=effect,
            remedy=remedy,
        )
        if remedy is Remedy.CUT:
            scan.damages.append(damage)
        else:
            self._report.add(damage)

    def _check_points(self) -> None:
        """The checkpoints must not exceed the end of the log."""
        end, shutdown = self._end_offset, self._shutdown
        last = self._report.segments[-1].file.path if self._report.segments else self._report.path
        position = self._report.segments[-1].valid_bytes if self._report.segments else 0
        if shutdown.recovery_point is not None and shutdown.recovery_point > end:
            self._report.add(
                Damage(
                    path=last,
                    position=position,
                    what=f"the log ends at {end}, below its recovery point"
                    f" {shutdown.recovery_point}",
                    offset=end,
                    below_recovery_point=True,
                    effect=Effect.UNDETECTED if shutdown.is_clean else Effect.TAKES_LOG_OFFLINE,
                    remedy=Remedy.LOWER_RECOVERY_POINT,
                )
            )
        if shutdown.start_offset > end:
            self._report.add(
                Damage(
                    path=last,
                    position=position,
                    what=f"the log ends at {end}, below its log start offset"
                    f" {shutdown.start_offset}",
                    offset=end,
                    effect=Effect.STARTS_EMPTY,
                    remedy=Remedy.NONE,
                )
            )
