"""Places in a partition that ListOffsets knows by a number instead of a time."""

from enum import IntEnum


class OffsetSpec(IntEnum):
    """What stands in a ListOffsets request where else there is a time."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6
