"""What a leader checks before it appends a client's batch: Kafka's rules, with Kafka's codes.

The header and the checksum of every batch are checked, and the structure of its records unless they
are compressed: else bytes that nobody can read would be stored for every later reader to stumble
on. Compressed records are unfolded only where the topic needs it: for their keys if it is
compacted, for their times if it refuses old ones, or if its batches have a codec of their own.
"""

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from ottla.errors import ErrorCode, PeerError
from ottla.native.scan import survey as native_survey
from ottla.protocol.batch import (
    CRC_START,
    DECOMPRESSED_BYTES_MAX,
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    CorruptBatch,
    crc_is_valid,
    read_header,
    recompressed,
    stamp_log_append_time,
    stamp_max_timestamp,
)
from ottla.protocol.compression import Buffer, Codec
from ottla.protocol.record_survey import FlawedRecord, Survey, flawed_records, survey
from ottla.storage.admission.rules import UNLIMITED_MS, AdmissionRules
from ottla.storage.admission.work_budget import UNBOUNDED, WorkBudget

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
# A record takes at least so many bytes.
_RECORD_BYTES_MIN = 7
# Of how many records a client is told what is wrong with them.
RECORD_ERRORS_MAX = 1000


class RecordFault(NamedTuple):
    """What is wrong with one record of a batch, by its place in it."""

    number: int
    reason: str


class Refused(PeerError):
    """A batch that a leader does not take, and the records at fault if it is some of them.

    As with Kafka the client is told why (`is_told`) only of bytes that are no batch at all.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        record_faults: tuple[RecordFault, ...] = (),
        *,
        is_told: bool = False,
    ) -> None:
        super().__init__(code, message)
        self.record_faults = record_faults
        self.is_told = is_told


def _garbage(message: str) -> Refused:
    return Refused(ErrorCode.CORRUPT_MESSAGE, message, is_told=True)


class Admitted(NamedTuple):
    """A batch as it is to be appended."""

    batch: Buffer
    header: BatchHeader
    # What its records' times were replaced by; -1 if they were not.
    append_time_ms: int


def admits_ordinary(
    batch: memoryview, header: BatchHeader, rules: AdmissionRules, now_ms: int
) -> bool:
    """Whether a batch may be appended whose header is known to have nothing out of the ordinary.

    If not, `admit` says why, or finds that it may all the same.
    """
    return (
        len(batch) <= rules.message_bytes_max
        and rules.takes_any_records
        and header.max_timestamp <= now_ms + rules.timestamp_after_max_ms
        and crc32c(batch[CRC_START:]) == header.crc
        and _has_sound_records(batch, header)
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
        if crc32c(batch[CRC_START:]) != header.crc or not _has_sound_records(batch, header):
            return False
    return rules.takes_any_records


def _has_sound_records(batch: memoryview, header: BatchHeader) -> bool:
    """Whether the records can be read and their times are as the header says, unless compressed.

    The native twin of what `admit` finds out by `survey`.
    """
    if header.attributes & _CODEC_MASK:
        return header.count * _RECORD_BYTES_MIN <= DECOMPRESSED_BYTES_MAX
    try:
        end, max_timestamp, _, _ = native_survey(
            batch, HEADER_BYTES, 0, header.count, header.base_timestamp
        )
    except ValueError:
        return False
    return end == len(batch) and max_timestamp == header.max_timestamp


def admit(
    batch: memoryview,
    rules: AdmissionRules,
    *,
    transactional_id_given: bool,
    now_ms: int,
    budget: WorkBudget = UNBOUNDED,
) -> Admitted:
    """A batch as it may be appended. PeerError if it may not; it may be changed where it lies.

    BudgetSpent if there is more to do than the budget has room for: it may be tried again.
    """
    header = _only_header(batch)
    # All that is not the codec: a plain producer sets none of it.
    if header.attributes & ~_CODEC_MASK:
        _check_flags(header, transactional_id_given)
    _check_size(header.size, rules)
    if not crc_is_valid(batch, header):
        raise Refused(ErrorCode.CORRUPT_MESSAGE, "the CRC does not fit the batch")
    _check_fields(header)
    if header.count * _RECORD_BYTES_MIN > max(len(batch), rules.decompressed_bytes_max):
        raise Refused(ErrorCode.INVALID_RECORD, f"no reader takes {header.count} records at once")
    admitted: Buffer = batch
    if header.codec == Codec.NONE or rules.may_unfold(header.codec, header.max_timestamp, now_ms):
        body = budget.unfold(batch, rules.decompressed_bytes_max)
        budget.spend_on_reading(min(header.count, len(body)))
        found = _survey(body, header)
        _check_records(body, header, found, rules, now_ms)
        if found.max_timestamp != header.max_timestamp and not rules.log_append_time:
            # As with Kafka: its index of times would be misled.
            stamp_max_timestamp(batch, found.max_timestamp)
            header = read_header(batch)
        if rules.codec is not None and rules.changes_codec(header.codec):
            admitted = _recompress(header, body, rules.codec, rules, budget)
            header = read_header(admitted)
    if not rules.log_append_time:
        return Admitted(admitted, header, NO_TIMESTAMP)
    stamp_log_append_time(memoryview(admitted), now_ms)
    return Admitted(admitted, read_header(admitted), now_ms)


def _survey(body: Buffer, header: BatchHeader) -> Survey:
    try:
        return survey(body, header)
    except CorruptBatch as error:
        # A client that is told CORRUPT_MESSAGE sends the same bytes again.
        raise Refused(ErrorCode.INVALID_RECORD, error.reason) from None


def _recompress(
    header: BatchHeader, body: Buffer, codec: Codec, rules: AdmissionRules, budget: WorkBudget
) -> bytearray:
    if codec != Codec.NONE:
        budget.spend_on_compressing(len(body), codec, rules.compression_level)
    batch = recompressed(header, body, codec, rules.compression_level)
    _check_size(len(batch), rules)
    return batch


def _check_size(size_bytes: int, rules: AdmissionRules) -> None:
    if size_bytes > rules.message_bytes_max:
        raise Refused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {size_bytes} bytes where {rules.message_bytes_max} are allowed",
        )


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


def _check_records(
    body: Buffer, header: BatchHeader, found: Survey, rules: AdmissionRules, now_ms: int
) -> None:
    """Each record has what the topic asks of it. A record without a time is neither old nor new."""
    earliest_ms = max(now_ms - rules.timestamp_before_max_ms, -UNLIMITED_MS)
    latest_ms = min(now_ms + rules.timestamp_after_max_ms, UNLIMITED_MS)
    if rules.log_append_time:
        earliest_ms, latest_ms = -UNLIMITED_MS, UNLIMITED_MS
    has_wrong_time = found.max_timestamp > latest_ms or found.min_timestamp < earliest_ms
    if not (has_wrong_time or (rules.compacted and found.keyless_count)):
        return
    faults = tuple(
        _fault(each, rules.compacted, earliest_ms, latest_ms)
        for each in flawed_records(
            body,
            header,
            wants_keys=rules.compacted,
            earliest_ms=earliest_ms,
            latest_ms=latest_ms,
            flawed_max=RECORD_ERRORS_MAX,
        )
    )
    # As with Kafka: one wrong time decides what the whole batch is refused for.
    code = ErrorCode.INVALID_TIMESTAMP if has_wrong_time else ErrorCode.INVALID_RECORD
    raise Refused(code, f"{faults[0].reason}; {len(faults)} records are refused", faults)


def _fault(record: FlawedRecord, wants_keys: bool, earliest_ms: int, latest_ms: int) -> RecordFault:
    if wants_keys and not record.has_key:
        reason = f"record {record.number} has no key in a compacted topic"
    else:
        reason = (
            f"record {record.number} has timestamp {record.timestamp},"
            f" outside of {earliest_ms} to {latest_ms}"
        )
    return RecordFault(record.number, reason)
