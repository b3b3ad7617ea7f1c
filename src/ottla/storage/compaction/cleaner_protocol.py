"""The messages between a broker and its cleaner process, in JSON.

A request is `{"clean": job}` for a new compaction, or `{"go_on": true}` once the last output is
swapped in. The answer is one of `{"output": ...}`, `{"done": report}` and `{"failed": ...}` with a
`kind`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, NamedTuple

WORKER_MODULE = "ottla.storage.compaction.cleaner_worker"


class FailureKind(StrEnum):
    """The reason why a compaction failed."""

    # The log is damaged: a retry does not help.
    CORRUPT = "corrupt"
    # The disk has no room for the output.
    FULL = "full"
    # A segment is gone: the log was trimmed, truncated or deleted meanwhile.
    GONE = "gone"
    # The disk failed.
    DISK = "disk"


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningJob:
    """One compaction, as the broker describes it to the cleaner process."""

    directory: str
    # (base offset, end offset, size) of each segment, from the log's first on.
    segments: Sequence[tuple[int, int, int]]
    first_dirty_offset: int
    # Aborted transactions whose markers lie beyond these segments.
    aborted_later: Sequence[tuple[int, int, int, int]] = ()
    # Active producers: (id, epoch, last offsets of their latest batches).
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
    """A durable `.cleaned` segment, and the base offsets of its source segments."""

    sources: list[int]
    size_bytes: int


@dataclass(slots=True)
class CleaningReport:
    """The statistics of a finished compaction."""

    # The new cleaner offset: the log is clean below it.
    end_offset: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    map_utilization: float = 0.0
    records_dropped: int = 0
    keys: int = 0
    # Batches with a right checksum whose records cannot be parsed, and the place of the last one.
    unreadable_batches: int = 0
    unreadable: str = ""
