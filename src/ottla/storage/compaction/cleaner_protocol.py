"""What a broker and the process that compacts for it say to each other.

A question is `{"clean": job}` for a new compaction, or `{"go_on": true}` once the last output is in
its place. The answer is one of `{"output": ...}`, `{"done": report}` and `{"failed": ...}`, whose
`kind` tells whose fault it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, NamedTuple

WORKER_MODULE = "ottla.storage.compaction.cleaner_worker"


class FailureKind(StrEnum):
    """Whose fault it is that a compaction failed."""

    # The log cannot be read: trying again does not help.
    CORRUPT = "corrupt"
    # There is no room for the output now.
    FULL = "full"
    # What was to be read is gone: the log was trimmed, cut or deleted meanwhile.
    GONE = "gone"
    # The disk fails.
    DISK = "disk"


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningJob:
    """All that a compaction must know; made where the log is owned, and sent as JSON."""

    directory: str
    # From the log's first segment on: (base offset, end offset, size).
    segments: Sequence[tuple[int, int, int]]
    first_dirty_offset: int
    # Aborted transactions whose markers lie behind these segments.
    aborted_later: Sequence[tuple[int, int, int, int]] = ()
    # Producers that are alive: (id, epoch, last offsets of their latest batches).
    producers: Sequence[tuple[int, int, Sequence[int]]] = ()
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    index_bytes_max: int
    index_interval_bytes: int
    decompressed_bytes_max: int
    key_map_bytes_max: int
    key_map_load_factor: float
    window_bytes: int
    bytes_per_second: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "CleaningJob":
        return cls(**fields)

    @property
    def end_offset(self) -> int:
        return self.segments[-1][1]


class Output(NamedTuple):
    """A `.cleaned` segment that is durable, and what it was made from, by base offset."""

    sources: list[int]
    size_bytes: int


@dataclass(slots=True)
class CleaningReport:
    """What a compaction did, once it is over."""

    # Below it the log is clean.
    end_offset: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    map_utilization: float = 0.0
    records_dropped: int = 0
    keys: int = 0
    # Batches with a good checksum whose records cannot be read, and where the last of them is.
    unreadable_batches: int = 0
    unreadable: str = ""
