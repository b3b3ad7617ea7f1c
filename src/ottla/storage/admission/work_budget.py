"""How much work on records may be done at once: decompressing, reading, compressing.

A client decides how long that takes: a few kilobytes may unfold to a hundred megabytes. The event
loop has a small budget for each of its turns. Whatever goes beyond it is done in a thread, without
a budget, and only the limits of a single batch hold there.
"""

from ottla.protocol.batch import plain_records, read_header
from ottla.protocol.compression import Buffer, Codec, DecompressedTooLarge

# The unit is one decompressed byte. Reading a record takes about as long as so many of them, and
# so does compressing one byte; with the slowest levels of a codec it takes longer.
UNITS_PER_RECORD = 8
UNITS_PER_COMPRESSED_BYTE = {Codec.SNAPPY: 2, Codec.ZSTD: 3, Codec.LZ4: 10, Codec.GZIP: 10}
UNITS_PER_SLOWLY_COMPRESSED_BYTE = 50
_USUAL_LEVELS = {Codec.ZSTD: 3, Codec.LZ4: 9, Codec.GZIP: 6}
# To make a log takes some 0.5 ms: its directory, its files, and what the kernel does for them.
UNITS_PER_NEW_LOG = 200_000
# All else that is done with a smaller batch takes longer than to read so many records.
UNCOUNTED_RECORDS_MAX = 1024


class BudgetSpent(Exception):
    """There is more to do than the budget has room for."""


class WorkBudget:
    """A bound on the units of work. It may be spent down to nothing; None is no bound."""

    __slots__ = ("units_left",)

    def __init__(self, units_left: int | None) -> None:
        self.units_left = units_left

    def unfold(self, batch: Buffer, decompressed_bytes_max: int) -> Buffer:
        """The records section of a batch in plain. BudgetSpent, or as `plain_records`."""
        left = self.units_left
        if left is None or read_header(batch).codec == Codec.NONE:
            return plain_records(batch, decompressed_bytes_max=decompressed_bytes_max)
        if left <= 0:
            raise BudgetSpent
        bound = min(left, decompressed_bytes_max)
        # Until it is known to be less.
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
        """To be called before records are read. BudgetSpent."""
        if record_count > UNCOUNTED_RECORDS_MAX:
            self._spend_whole(UNITS_PER_RECORD * record_count)

    def spend_on_compressing(self, plain_bytes: int, codec: Codec, level: int | None) -> None:
        """To be called before bytes are compressed. BudgetSpent."""
        units = UNITS_PER_COMPRESSED_BYTE[codec]
        if level is not None and level > _USUAL_LEVELS.get(codec, level):
            units = UNITS_PER_SLOWLY_COMPRESSED_BYTE
        self._spend_whole(units * plain_bytes)

    def spend_on_new_log(self) -> None:
        """To be called before a partition's log is made. BudgetSpent."""
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
