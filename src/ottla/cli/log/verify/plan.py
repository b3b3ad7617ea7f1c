"""What a repair would do: decided from a report, shown, and only then done."""

from collections.abc import Iterator
from dataclasses import dataclass

from ottla.cli.log.verify.damage import Remedy
from ottla.cli.log.verify.directory import Report
from ottla.cli.log.verify.partition import PartitionReport
from ottla.cli.shared.output import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Everything from a byte of a segment on, and every later segment, leaves the log."""

    directory: str
    # The segment that is cut, and where. Those from `dropped` on go as a whole.
    base_offset: int
    position: int
    dropped: tuple[int, ...]
    end_offset: int
    last_offset: int
    batches: int
    size_bytes: int

    def row(self) -> Row:
        # Of bytes that are no batches nobody can tell the offsets.
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
class Renew:
    """Something that can be made anew from the log is."""

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
    """A file that is not needed, or that misleads, gets another name."""

    path: str

    def row(self) -> Row:
        return {"kind": "set_aside", "file": self.path, "repair": Remedy.SET_ASIDE}


Step = Cut | Renew | SetAside


def plan_of(report: Report) -> list[Step]:
    """The steps of a repair, in the order in which they are safe."""
    steps: list[Step] = [
        SetAside(damage.path) for damage in report.root_damages if damage.remedy is Remedy.SET_ASIDE
    ]
    for partition in report.partitions:
        steps += _steps_of(partition)
    return steps


def _steps_of(report: PartitionReport) -> Iterator[Step]:
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
        yield Renew(report.path, Remedy.LOWER_RECOVERY_POINT, end_offset=report.end_offset)
    for damage in report.damages:
        if damage.remedy is Remedy.SET_ASIDE:
            yield SetAside(damage.path)
    if Remedy.REWRITE_EPOCHS in remedies:
        yield Renew(report.path, Remedy.REWRITE_EPOCHS)
    for remedy in (Remedy.REBUILD_ABORTED, Remedy.REBUILD_INDEXES):
        damaged = {
            _base_offset_of(damage.path) for damage in report.damages if damage.remedy is remedy
        }
        for base_offset in sorted(damaged & kept):
            yield Renew(report.path, remedy, base_offset)


def _base_offset_of(path: str) -> int:
    return int(path.rpartition("/")[2].partition(".")[0])


def _cut_of(report: PartitionReport) -> Cut | None:
    """Where the log is cut, if it must be: at its first damage."""
    for index, segment in enumerate(report.segments):
        if not segment.damages:
            continue
        # A segment of which nothing is left goes, unless it is the only one.
        first_dropped = index if index > 0 and segment.sound_bytes == 0 else index + 1
        lost = report.segments[index:]
        return Cut(
            directory=report.path,
            base_offset=segment.base_offset,
            position=segment.sound_bytes,
            dropped=tuple(one.base_offset for one in report.segments[first_dropped:]),
            end_offset=report.end_offset,
            last_offset=max(one.last_offset for one in lost),
            batches=sum(one.batches for one in lost) - segment.sound_batches,
            size_bytes=sum(one.size_bytes for one in lost) - segment.sound_bytes,
        )
    return None
