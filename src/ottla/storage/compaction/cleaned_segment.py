"""The segment that a compaction writes, many batches per write."""

from typing import Protocol

from ottla.seams.files import Buffer, write_all
from ottla.storage.log.segment import Segment


class Batches(Protocol):
    """Consecutive batches, with the index fields of each."""

    @property
    def content(self) -> Buffer: ...
    @property
    def sizes(self) -> list[int]: ...
    @property
    def last_offsets(self) -> list[int]: ...
    @property
    def max_timestamps_ms(self) -> list[int]: ...


class CleanedSegment(Segment):
    """Not read before it is complete. After a failed write the whole segment is removed."""

    __slots__ = ()

    def append_batches(self, batches: Batches) -> None:
        """Appends batches by one write. The indexes equal those of single appends."""
        position = self.size_bytes
        write_all(self.file, position, (batches.content,))
        interval_bytes = self._config.index_interval_bytes
        since_entry_bytes = self._bytes_since_entry
        largest_ms = self.largest_timestamp[0]
        for size, last_offset, max_timestamp_ms in zip(
            batches.sizes, batches.last_offsets, batches.max_timestamps_ms, strict=True
        ):
            if max_timestamp_ms > largest_ms:
                largest_ms = max_timestamp_ms
                self.largest_timestamp = (max_timestamp_ms, last_offset)
            if since_entry_bytes > interval_bytes:
                self.offsets.add(last_offset, position)
                self.times.add(*self.largest_timestamp)
                since_entry_bytes = 0
            since_entry_bytes += size
            position += size
        self._bytes_since_entry = since_entry_bytes
        self.size_bytes = position
