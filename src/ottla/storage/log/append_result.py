"""What an append to a log answers."""

from typing import NamedTuple

from ottla.tuples import maker


class Appended(NamedTuple):
    """Where a batch went; for a duplicate, where it went the first time, and its time then."""

    first_offset: int
    last_offset: int
    duplicate_timestamp_ms: int | None = None


make_appended = maker(Appended)
