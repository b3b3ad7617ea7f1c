"""The plan of a repair, decided from a report and shown before it is executed."""

from collections.abc import Iterator
from dataclasses import dataclass

from ottla.cli.log.verify.damage import Remedy
from ottla.cli.log.verify.directory import Report
from ottla.cli.log.verify.partition import PartitionReport
from ottla.cli.shared.output import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Removes a segment's bytes from a position on, and all later segments, from the log."""

    directory: str
    # The segment that is cut, and the position. The `dropped` segments are removed completely.
    base_offset: int
    position: int
    dropped: tuple[int, ...]
    end_offset: int
    last_offset: int
    batches: int
    size_bytes: int

    def row(self) -> Row:
        # The offsets of bytes that are not batches are unknown.
        is_known = self.last_offset >= self.end_offset
        return {
            "kind": "cut",
            "file": self.directory,
            "repair": Remedy.CUT,
            "segment": self.base_offset,
            "position": self.position,
            "first_offset_lost": self.end_offset if is_known else None,
            "last_offset_lost": self.last_offset if is_known else None,
            "batches_lost": self.batches,
            "segments_lost": len(self.dropped),
            "bytes_set_aside": self.size_bytes,
        }


@dataclass(frozen=True, slots=True)
class Rebuild:
    """Rebuilds files from the log."""

    directory: str
    remedy: Remedy
    base_offset: int | None = None
    end_offset: int | None = None

    def row(self) -> Row:
        return {
            "kind": "renew",
            "file": self.directory,
            "repair": self.remedy,
            "segment": self.base_offset,
        }


@dataclass(frozen=True, slots=True)
class SetAside:
    """Renames a file that is damaged and not needed."""

    path: str

    def row(self) -> Row:
        return {"kind": "set_aside", "file": self.path, "repair": Remedy.SET_ASIDE}


RepairStep = Cut | Rebuild | SetAside


def plan_of(report: Report) -> list[RepairStep]:
    """The steps of a repair in a safe order."""
    steps: list[RepairStep] = [
        SetAside(damage.path) for damage in report.root_damages if damage.remedy is Remedy.SET_ASIDE
    ]
    for partition in report.partitions:
        steps += _steps_of(partition)
    return steps


def _steps_of(report: PartitionReport) -> Iterator[RepairStep]:
    cut = _cut_of(report)
    kept = {
        segment.base_offset
        for segment in report.segments
        if cut is None or segment.base_offset <= cut.base_offset
    } - set(cut.dropped if cut else ())
    if cut:
        yield cut
    remedies = {damage.remedy for damage in report.damages}
    if Remedy.LOWER_RECOVERY_POINT in remedies and not cut:
        yield Rebuild(report.path, Remedy.LOWER_RECOVERY_POINT, end_offset=report.end_offset)
    for damage in report.damages:
        if damage.remedy is Remedy.SET_ASIDE:
            yield SetAside(damage.path)
    if Remedy.REWRITE_EPOCHS in remedies:
        yield Rebuild(report.path, Remedy.REWRITE_EPOCHS)
    for remedy in (Remedy.REBUILD_ABORTED, Remedy.REBUILD_INDEXES):
        damaged = {
            _base_offset_of(damage.path) for damage in report.damages if damage.remedy is remedy
        }
        for base_offset in sorted(damaged & kept):
            yield Rebuild(report.path, remedy, base_offset)


def _base_offset_of(path: str) -> int:
    return int(path.rpartition("/")[2].partition(".")[0])


def _cut_of(report: PartitionReport) -> Cut | None:
    """The cut at the first damage; None if there is no such damage."""
    for index, segment in enumerate(report.segments):
        if not segment.damages:
            continue
        # A segment without valid bytes is dropped, unless it is the only one.
        first_dropped = index if index > 0 and segment.valid_bytes == 0 else index + 1
        lost = report.segments[index:]
        return Cut(
            directory=report.path,
            base_offset=segment.base_offset,
            position=segment.valid_bytes,
            dropped=tuple(one.base_offset for one in report.segments[first_dropped:]),
            end_offset=report.end_offset,
            last_offset=max(one.last_offset for one in lost),
            batches=sum(one.batches for one in lost) - segment.valid_batches,
            size_bytes=sum(one.size_bytes for one in lost) - segment.valid_bytes,
        )
    return None
