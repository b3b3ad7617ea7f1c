"""The result of an append to a log."""

from typing import NamedTuple

from ottla.tuples import maker


class Appended(NamedTuple):
    """The offsets of a batch. A duplicate has those of the first append, and its timestamp."""

    first_offset: int
    last_offset: int
    duplicate_timestamp_ms: int | None = None


make_appended = maker(Appended)
