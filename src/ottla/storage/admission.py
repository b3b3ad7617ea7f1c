"""What a leader checks before it appends a client's batch: Kafka's rules, with Kafka's codes.

A batch is judged by its header and checksum. Records are looked at only where a topic needs it:
their keys if it is compacted, their times if it refuses old ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from struct import Struct

from crc32c import crc32c

from ottla.errors import ErrorCode, PeerError
from ottla.protocol.batch import (
    CRC_START,
    DECOMPRESSED_BYTES_MAX,
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    crc_is_valid,
    first_keyless,
    read_header,
    records,
)
from ottla.protocol.compression import Codec

UNLIMITED_MS = 2**63 - 1

NO_TIMESTAMP = -1
_CODEC_MASK = 0x07
_CODEC_MAX = max(Codec)
# These are in the same places in every magic that there ever was.
_LENGTH_AT = 8
_LENGTH = Struct(">i")
_LENGTH_END = 12
_MAGIC_AT = 16
# The least that could follow the length field, in magic 0.
_LENGTH_MIN = 14


class Refused(PeerError):
    """A batch that a leader does not take, and the record at fault if it is one of them.

    As with Kafka the client is told why (`is_told`) only of bytes that are no batch at all.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        record_index: int | None = None,
        *,
        is_told: bool = False,
    ) -> None:
        super().__init__(code, message)
        self.record_index = record_index
        self.is_told = is_told


def _garbage(message: str) -> Refused:
    return Refused(ErrorCode.CORRUPT_MESSAGE, message, is_told=True)


@dataclass(frozen=True, kw_only=True)
class AdmissionRules:
    """A topic's settings that a batch must obey, with Kafka's defaults."""

    message_bytes_max: int = 1_048_588
    timestamp_before_max_ms: int = UNLIMITED_MS
    timestamp_after_max_ms: int = 3_600_000
    compacted: bool = False
    log_append_time: bool = False
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX

    @cached_property
    def judges_batches_only(self) -> bool:
        """Whether no record has to be looked at, nor stamped."""
        looks_at_times = self.timestamp_before_max_ms != UNLIMITED_MS
        return not (self.compacted or self.log_append_time or looks_at_times)


def admits_ordinary(
    batch: memoryview, header: BatchHeader, rules: AdmissionRules, now_ms: int
) -> bool:
    """Whether a batch may be appended whose header is known to have nothing out of the ordinary.

    If not, `admit` says why, or finds that it may all the same.
    """
    return (
        len(batch) <= rules.message_bytes_max
        and rules.judges_batches_only
        and header.max_timestamp <= now_ms + rules.timestamp_after_max_ms
        and crc32c(batch[CRC_START:]) == header.crc
    )


def all_ordinary(
    batches: Iterable[tuple[memoryview, BatchHeader]], rules: AdmissionRules, now_ms: int
) -> bool:
    """As `admits_ordinary`, of each of them."""
    size_max = rules.message_bytes_max
    latest_ms = now_ms + rules.timestamp_after_max_ms
    for batch, header in batches:
        if len(batch) > size_max or header.max_timestamp > latest_ms:
            return False
        if crc32c(batch[CRC_START:]) != header.crc:
            return False
    return rules.judges_batches_only


def admit(
    batch: memoryview, rules: AdmissionRules, *, transactional_id_given: bool, now_ms: int
) -> BatchHeader:
    """The header of a batch that may be appended as it is. PeerError for any other."""
    header = _only_header(batch)
    # All that is not the codec: a plain producer sets none of it.
    if header.attributes & ~_CODEC_MASK:
        _check_flags(header, transactional_id_given)
    if header.size > rules.message_bytes_max:
        raise Refused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {header.size} bytes where {rules.message_bytes_max} are allowed",
        )
    if not crc_is_valid(batch, header):
        raise Refused(ErrorCode.CORRUPT_MESSAGE, "the CRC does not fit the batch")
    _check_fields(header)
    if rules.compacted:
        _check_keys(batch, rules)
    if not rules.log_append_time:
        _check_timestamps(batch, header, rules, now_ms)
    return header


def _only_header(batch: memoryview) -> BatchHeader:
    """The header of the one batch that is there, whole, with nothing after it."""
    if len(batch) >= HEADER_BYTES:
        header = read_header(batch)
        if header.magic == MAGIC and header.size == len(batch):
            return header
    raise _not_one_batch(batch)


def _not_one_batch(batch: memoryview) -> Refused:
    """Why these bytes are not one batch: Kafka tells what is corrupt from what is not there."""
    there = len(batch)
    if there < _LENGTH_END:
        return Refused(ErrorCode.INVALID_RECORD, f"no batch in {there} bytes")
    (length,) = _LENGTH.unpack_from(batch, _LENGTH_AT)
    if length < _LENGTH_MIN:
        return _garbage(f"a batch of length {length}")
    if there <= _MAGIC_AT:
        return Refused(ErrorCode.INVALID_RECORD, f"no batch in {there} bytes")
    magic = batch[_MAGIC_AT]
    if magic > MAGIC:
        return _garbage(f"magic {magic}")
    if magic != MAGIC:
        return Refused(ErrorCode.INVALID_RECORD, f"magic {magic}, only {MAGIC} is taken")
    size = length + _LENGTH_END
    if size != there:
        return Refused(
            ErrorCode.INVALID_RECORD,
            f"exactly one batch expected, found one of {size} bytes in {there}",
        )
    return _garbage(f"{size} bytes are no whole header")


def _check_flags(header: BatchHeader, transactional_id_given: bool) -> None:
    if header.is_transactional and not transactional_id_given:
        raise Refused(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "a transactional batch in a request without a transactional id",
        )
    if header.is_transactional and not header.has_producer:
        raise Refused(ErrorCode.INVALID_RECORD, "a transactional batch without a producer id")
    if header.is_control:
        raise Refused(ErrorCode.INVALID_RECORD, "control batches are the coordinator's to write")
    # Set by a client it would let the cleaner drop records at a time of the client's choosing.
    if header.delete_horizon_ms is not None:
        raise Refused(ErrorCode.INVALID_RECORD, "delete horizons are the cleaner's to set")
    if header.is_log_append_time:
        raise Refused(ErrorCode.INVALID_TIMESTAMP, "append times are the broker's to set")


def _check_fields(header: BatchHeader) -> None:
    if header.base_offset != 0:
        raise Refused(ErrorCode.INVALID_RECORD, f"base offset {header.base_offset} instead of 0")
    if header.count <= 0 or header.last_offset_delta != header.count - 1:
        raise Refused(
            ErrorCode.INVALID_RECORD,
            f"{header.count} records with a last offset delta of {header.last_offset_delta}",
        )
    if header.attributes & _CODEC_MASK > _CODEC_MAX:
        raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {header.codec}")
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise Refused(
            ErrorCode.INVALID_RECORD,
            f"producer {header.producer_id} with epoch {header.producer_epoch}"
            f" and sequence {header.base_sequence}",
        )


def _check_keys(batch: memoryview, rules: AdmissionRules) -> None:
    index = first_keyless(batch, decompressed_bytes_max=rules.decompressed_bytes_max)
    if index >= 0:
        raise Refused(
            ErrorCode.INVALID_RECORD, f"record {index} has no key in a compacted topic", index
        )


def _check_timestamps(
    batch: memoryview, header: BatchHeader, rules: AdmissionRules, now_ms: int
) -> None:
    """The header tells whether a record is too new; only the records tell whether one is too old.

    A record without a timestamp is neither.
    """
    earliest_ms = now_ms - rules.timestamp_before_max_ms
    latest_ms = now_ms + rules.timestamp_after_max_ms
    if earliest_ms <= 0 and header.max_timestamp <= latest_ms:
        return
    taken = records(batch, decompressed_bytes_max=rules.decompressed_bytes_max)
    for index, record in enumerate(taken):
        timestamp_ms = record.timestamp
        if timestamp_ms != NO_TIMESTAMP and not earliest_ms <= timestamp_ms <= latest_ms:
            raise Refused(
                ErrorCode.INVALID_TIMESTAMP,
                f"record {index} has timestamp {timestamp_ms}, outside of"
                f" {earliest_ms} to {latest_ms}",
                index,
            )
    if header.max_timestamp > latest_ms:
        raise Refused(
            ErrorCode.INVALID_TIMESTAMP,
            f"max timestamp {header.max_timestamp}, later than {latest_ms}",
        )
