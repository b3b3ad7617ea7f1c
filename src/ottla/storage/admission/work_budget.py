"""A budget for work on records: decompressing, parsing, compressing.

A client decides how long that takes: a few kilobytes may decompress to a hundred megabytes. Each
turn of the event loop has a small budget. Work beyond it runs in a thread, where only the limits
of a single batch apply.
"""

from ottla.protocol.batch import plain_records, read_header
from ottla.protocol.compression import Buffer, Codec, DecompressedTooLarge

# The unit of work is one decompressed byte. These are the units of parsing a record and of
# compressing a byte; the slowest levels of a codec cost more.
UNITS_PER_RECORD = 8
UNITS_PER_COMPRESSED_BYTE = {Codec.SNAPPY: 2, Codec.ZSTD: 3, Codec.LZ4: 10, Codec.GZIP: 10}
UNITS_PER_SLOWLY_COMPRESSED_BYTE = 50
_USUAL_LEVELS = {Codec.ZSTD: 3, Codec.LZ4: 9, Codec.GZIP: 6}
# Creating a log takes some 0.5 ms: its directory, its files, and the kernel's work for them.
UNITS_PER_NEW_LOG = 200_000
# Parsing so few records costs less than the rest of the work on a batch, and is not counted.
UNCOUNTED_RECORDS_MAX = 1024


class BudgetSpent(Exception):
    """The work exceeds the budget."""


class WorkBudget:
    """The units of work that are left; None is no bound."""

    __slots__ = ("units_left",)

    def __init__(self, units_left: int | None) -> None:
        self.units_left = units_left

    def unfold(self, batch: Buffer, decompressed_bytes_max: int) -> Buffer:
        """The decompressed records section of a batch. BudgetSpent, or as `plain_records`."""
        left = self.units_left
        if left is None or read_header(batch).codec == Codec.NONE:
            return plain_records(batch, decompressed_bytes_max=decompressed_bytes_max)
        if left <= 0:
            raise BudgetSpent
        bound = min(left, decompressed_bytes_max)
        # Given back below if it was less.
        self._spend(bound)
        try:
            body = plain_records(batch, decompressed_bytes_max=bound)
        except DecompressedTooLarge:
            if bound == decompressed_bytes_max:
                raise
            raise BudgetSpent from None
        self._spend(len(body) - bound)
        return body

    def spend_on_reading(self, record_count: int) -> None:
        """Call before records are parsed. BudgetSpent."""
        if record_count > UNCOUNTED_RECORDS_MAX:
            self._spend_whole(UNITS_PER_RECORD * record_count)

    def spend_on_compressing(self, plain_bytes: int, codec: Codec, level: int | None) -> None:
        """Call before bytes are compressed. BudgetSpent."""
        units = UNITS_PER_COMPRESSED_BYTE[codec]
        if level is not None and level > _USUAL_LEVELS.get(codec, level):
            units = UNITS_PER_SLOWLY_COMPRESSED_BYTE
        self._spend_whole(units * plain_bytes)

    def spend_on_new_log(self) -> None:
        """Call before the log of a partition is created. BudgetSpent."""
        self._spend_whole(UNITS_PER_NEW_LOG)

    def _spend_whole(self, units: int) -> None:
        if self.units_left is None:
            return
        if self.units_left < units:
            raise BudgetSpent
        self._spend(units)

    def _spend(self, units: int) -> None:
        if self.units_left is not None:
            self.units_left -= units


UNBOUNDED = WorkBudget(None)
