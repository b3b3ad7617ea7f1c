"""The leader's checks of a batch, for topics that store batches as their producers sent them.

This is the native twin of `ottla.storage.admission.leader_checks.admit`: the same checks in the
same order, with the same error codes. tests/property/test_admission_twins.py compares the two. The
twin has no messages and changes no batch: wherever it does not accept, `admit` decides.
"""

from __future__ import annotations

from typing import Any

import cython
from crc32c import crc32c

from ottla.native.produce import Buffer, Fields
from ottla.native.scan import survey

# The verdicts: Kafka's error codes, or that only `admit` can decide.
UNDECIDED = -1
ACCEPTED = 0
CORRUPT_MESSAGE = 2
MESSAGE_TOO_LARGE = 10
INVALID_TIMESTAMP = 32
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
UNSUPPORTED_COMPRESSION_TYPE = 76
INVALID_RECORD = 87

_MAGIC = cython.declare(cython.longlong, 2)
_HEADER_BYTES = cython.declare(cython.Py_ssize_t, 61)
# The length field counts the bytes behind itself.
_UNCOUNTED_BYTES = cython.declare(cython.longlong, 12)
_LENGTH_MIN = cython.declare(cython.longlong, 14)
_RECORD_BYTES_MIN = cython.declare(cython.longlong, 7)
_INT64_MAX = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)
# The checksum covers everything from the attributes on.
_CRC_START = cython.declare(cython.Py_ssize_t, 21)
_CODEC_MASK = cython.declare(cython.longlong, 0x07)
_CODEC_MAX = cython.declare(cython.longlong, 4)
_LOG_APPEND_TIME = cython.declare(cython.longlong, 0x08)
_TRANSACTIONAL = cython.declare(cython.longlong, 0x10)
_CONTROL = cython.declare(cython.longlong, 0x20)
_DELETE_HORIZON = cython.declare(cython.longlong, 0x40)


@cython.final
@cython.cclass
class BatchChecks:
    """The checks with the limits of one topic."""

    message_bytes_max: cython.longlong
    timestamp_after_max_ms: cython.longlong
    decompressed_bytes_max: cython.longlong

    def __init__(
        self, message_bytes_max: int, timestamp_after_max_ms: int, decompressed_bytes_max: int
    ) -> None:
        self.message_bytes_max = message_bytes_max
        self.timestamp_after_max_ms = timestamp_after_max_ms
        self.decompressed_bytes_max = decompressed_bytes_max

    def verdict(
        self, batch: Buffer, fields: Fields, transactional_id_given: bool, now_ms: int
    ) -> int:
        """ACCEPTED if a batch with these header fields is appended as it is.

        Else the error code of the first check that fails, or UNDECIDED.
        """
        if not isinstance(fields, tuple):
            raise TypeError(f"{type(fields)} is no header")
        # Items of a plain tuple are read fastest; a named tuple has the same layout.
        row: tuple[Any, ...] = cython.cast(tuple, fields)
        size: cython.longlong = len(batch)
        if size < _HEADER_BYTES:
            return UNDECIDED
        refusal: cython.int = self._before_checksum(row, size, transactional_id_given)
        if refusal:
            return refusal
        checksum: cython.longlong = crc32c(batch[_CRC_START:])
        if checksum != cython.cast(cython.longlong, row[4]):
            return CORRUPT_MESSAGE
        refusal = self._behind_checksum(row, size)
        if refusal:
            return refusal
        now: cython.longlong = now_ms
        latest_ms: cython.longlong = _INT64_MAX
        if now <= 0 or self.timestamp_after_max_ms <= _INT64_MAX - now:
            latest_ms = now + self.timestamp_after_max_ms
        max_timestamp: cython.longlong = row[8]
        if cython.cast(cython.longlong, row[5]) & _CODEC_MASK:
            # The records decide whether one of them is that late.
            return ACCEPTED if max_timestamp <= latest_ms else UNDECIDED
        try:
            end, latest_of_records, _, _ = survey(batch, _HEADER_BYTES, 0, row[12], row[7])
        except ValueError:
            return INVALID_RECORD
        if end != size:
            return INVALID_RECORD
        if latest_of_records > latest_ms:
            return INVALID_TIMESTAMP
        # `admit` corrects a header that claims another time.
        return ACCEPTED if latest_of_records == max_timestamp else UNDECIDED

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def _before_checksum(
        self,
        fields: tuple[Any, ...],
        size: cython.longlong,
        transactional_id_given: cython.bint,
    ) -> cython.int:
        """One whole batch of magic 2, its flags and its size; 0 if all are right."""
        length: cython.longlong = fields[1]
        magic: cython.longlong = fields[3]
        if length < _LENGTH_MIN or magic < 0 or magic > _MAGIC:
            return CORRUPT_MESSAGE
        if magic != _MAGIC or length + _UNCOUNTED_BYTES != size:
            return INVALID_RECORD
        attributes: cython.longlong = fields[5]
        if attributes & ~_CODEC_MASK:
            if attributes & _TRANSACTIONAL:
                producer_id: cython.longlong = fields[9]
                if not transactional_id_given:
                    return TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                if producer_id < 0:
                    return INVALID_RECORD
            if attributes & (_CONTROL | _DELETE_HORIZON):
                return INVALID_RECORD
            if attributes & _LOG_APPEND_TIME:
                return INVALID_TIMESTAMP
        return MESSAGE_TOO_LARGE if size > self.message_bytes_max else 0

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def _behind_checksum(self, fields: tuple[Any, ...], size: cython.longlong) -> cython.int:
        """Offsets, codec, producer and count; 0 if all are right."""
        count: cython.longlong = fields[12]
        base_offset: cython.longlong = fields[0]
        last_offset_delta: cython.longlong = fields[6]
        if base_offset != 0 or count <= 0 or last_offset_delta != count - 1:
            return INVALID_RECORD
        attributes: cython.longlong = fields[5]
        if attributes & _CODEC_MASK > _CODEC_MAX:
            return UNSUPPORTED_COMPRESSION_TYPE
        producer_id: cython.longlong = fields[9]
        if producer_id >= 0:
            producer_epoch: cython.longlong = fields[10]
            base_sequence: cython.longlong = fields[11]
            if producer_epoch < 0 or base_sequence < 0:
                return INVALID_RECORD
        if count * _RECORD_BYTES_MIN > max(size, self.decompressed_bytes_max):
            return INVALID_RECORD
        return 0
