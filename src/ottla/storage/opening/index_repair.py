"""Finds segments whose indexes are missing or wrong when a log is opened, and rebuilds them."""

from ottla.seams.files import Files
from ottla.storage.log.batch_scan import OFFSET_MAX
from ottla.storage.log.segment import OFFSETS, TIMES, Segment


def mend_indexes(files: Files, segments: list[Segment], trusted: int) -> list[Segment]:
    """Rebuilds missing and impossible indexes from the batch headers. Returns their segments.

    Only for the first `trusted` segments: the scan indexes the rest again anyway.
    """
    mended = []
    ends = [following.base_offset for following in segments[1:]] + [OFFSET_MAX]
    for segment, end_offset in zip(segments[:trusted], ends, strict=False):
        if not _indexes_fit(files, segment, end_offset):
            segment.rebuild_indexes()
            mended.append(segment)
    return mended


def _indexes_fit(files: Files, segment: Segment, end_offset: int) -> bool:
    if not segment.has_indexes:
        return False
    if files.size(segment.path(OFFSETS)) % 8 or files.size(segment.path(TIMES)) % 12:
        return False
    if len(segment.offsets):
        relative, position = segment.offsets[len(segment.offsets) - 1]
        if not (0 <= relative < end_offset - segment.base_offset and position < segment.size_bytes):
            return False
    if segment.size_bytes and not len(segment.times):
        return False
    return segment.base_offset <= segment.times.last[1] < max(end_offset, segment.base_offset + 1)
