"""The leader's checks of a batch that a client sent, with Kafka's error codes. Does no I/O.

The checks run in this order, and the first that fails decides the error code:

    one whole batch of magic 2       CORRUPT_MESSAGE or INVALID_RECORD
    flags that a client may set      TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_RECORD
                                     or INVALID_TIMESTAMP
    size within max.message.bytes    MESSAGE_TOO_LARGE
    checksum                         CORRUPT_MESSAGE
    offsets and record count         INVALID_RECORD
    codec                            UNSUPPORTED_COMPRESSION_TYPE
    producer epoch and sequence      INVALID_RECORD
    count that a reader can hold     INVALID_RECORD
    structure of the records         INVALID_RECORD
    timestamps of the records        INVALID_TIMESTAMP
    keys, in a compacted topic       INVALID_RECORD

Uncompressed records are always read: the log stores no bytes that its readers cannot parse.
Compressed records are decompressed only where the topic needs it: for the keys of a compacted
topic, for a limit on old timestamps, or to store them with the topic's own compression.type.

`ottla.native.admission` is the native twin for topics that store batches as they came. The produce
path asks the twin first; a batch that the twin does not accept comes here.
tests/property/test_admission_twins.py holds the two equal.
"""

from struct import Struct
from typing import NamedTuple

from ottla.errors import ErrorCode, PeerError
from ottla.native.admission import ACCEPTED
from ottla.protocol.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    MAGIC,
    UNCOUNTED_BYTES,
    BatchHeader,
    CorruptBatch,
    crc_is_valid,
    read_header,
    recompressed,
    stamp_log_append_time,
    stamp_max_timestamp,
)
from ottla.protocol.compression import Buffer, Codec
from ottla.protocol.primitives import NO_TIMESTAMP
from ottla.protocol.record_survey import FlawedRecord, Survey, flawed_records, survey
from ottla.storage.admission.rules import UNLIMITED_MS, AdmissionRules
from ottla.storage.admission.work_budget import UNBOUNDED, WorkBudget

# No timestamp is earlier.
_ANCIENT_MS = -(2**63)
_CODEC_MAX = max(Codec)
# Every magic has the length and the magic at the same positions.
_LENGTH_AT = 8
_LENGTH = Struct(">i")
_MAGIC_AT = 16
# The smallest length field of any magic: that of magic 0.
_LENGTH_MIN = 14
# Smaller than the smallest record.
_RECORD_BYTES_MIN = 7
# At most so many records of one batch are named in an answer.
RECORD_ERRORS_MAX = 1000


class RecordFault(NamedTuple):
    """The reason to refuse one record, and the index of that record in its batch."""

    number: int
    reason: str


class Refused(PeerError):
    """A batch that the leader refuses. `record_faults` names records, if the fault is theirs.

    As in Kafka, the client sees the message (`is_message_shown`) only if the bytes are no batch.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        record_faults: tuple[RecordFault, ...] = (),
        *,
        is_message_shown: bool = False,
    ) -> None:
        super().__init__(code, message)
        self.record_faults = record_faults
        self.is_message_shown = is_message_shown


class Admitted(NamedTuple):
    """A batch in the form in which it is appended."""

    batch: Buffer
    header: BatchHeader
    # The log append time of its records; -1 if they keep the times of their producer.
    append_time_ms: int


def admits_unchanged(
    batch: memoryview,
    header: BatchHeader,
    rules: AdmissionRules,
    transactional_id_given: bool,
    now_ms: int,
) -> bool:
    """Whether the native checks accept a batch as it is. If not, `admit` decides."""
    checks = rules.native_checks
    return (
        checks is not None
        and checks.verdict(batch, header, transactional_id_given, now_ms) == ACCEPTED
    )


def admit(
    batch: memoryview,
    rules: AdmissionRules,
    *,
    transactional_id_given: bool,
    now_ms: int,
    budget: WorkBudget = UNBOUNDED,
) -> Admitted:
    """The batch in the form in which it is appended. Raises Refused; may change the batch in place.

    Raises BudgetSpent if the work exceeds the budget; the call may be repeated with another one.
    """
    header = _only_header(batch)
    _check_header(batch, header, rules, transactional_id_given)
    admitted: Buffer = batch
    if header.codec == Codec.NONE or rules.may_need_decompression(
        header.codec, header.max_timestamp, now_ms
    ):
        body = budget.unfold(batch, rules.decompressed_bytes_max)
        budget.spend_on_reading(min(header.count, len(body)))
        found = _survey(body, header)
        _check_records(body, header, found, rules, now_ms)
        if found.max_timestamp != header.max_timestamp and not rules.log_append_time:
            # As Kafka does: the time index would be wrong otherwise.
            stamp_max_timestamp(batch, found.max_timestamp)
            header = read_header(batch)
        if rules.codec is not None and rules.changes_codec(header.codec):
            admitted = _recompress(header, body, rules.codec, rules, budget)
            header = read_header(admitted)
    if not rules.log_append_time:
        return Admitted(admitted, header, NO_TIMESTAMP)
    stamp_log_append_time(memoryview(admitted), now_ms)
    return Admitted(admitted, read_header(admitted), now_ms)


def _only_header(batch: memoryview) -> BatchHeader:
    """The header, if the bytes are exactly one whole batch of magic 2."""
    if len(batch) >= HEADER_BYTES:
        header = read_header(batch)
        if header.magic == MAGIC and header.length + UNCOUNTED_BYTES == len(batch):
            return header
    raise _not_one_batch(batch)


def _not_one_batch(batch: memoryview) -> Refused:
    """As Kafka: CORRUPT_MESSAGE for an impossible header, INVALID_RECORD for a missing batch."""
    there = len(batch)
    if there < UNCOUNTED_BYTES:
        return Refused(ErrorCode.INVALID_RECORD, f"no batch in {there} bytes")
    (length,) = _LENGTH.unpack_from(batch, _LENGTH_AT)
    if length < _LENGTH_MIN:
        return _no_batch_at_all(f"a batch of length {length}")
    if there <= _MAGIC_AT:
        return Refused(ErrorCode.INVALID_RECORD, f"no batch in {there} bytes")
    magic = batch[_MAGIC_AT]
    if magic > MAGIC:
        return _no_batch_at_all(f"magic {magic}")
    if magic != MAGIC:
        return Refused(ErrorCode.INVALID_RECORD, f"magic {magic}, only {MAGIC} is accepted")
    size = length + UNCOUNTED_BYTES
    if size != there:
        return Refused(
            ErrorCode.INVALID_RECORD,
            f"exactly one batch expected, found one of {size} bytes in {there}",
        )
    return _no_batch_at_all(f"{size} bytes are no whole header")


def _no_batch_at_all(message: str) -> Refused:
    return Refused(ErrorCode.CORRUPT_MESSAGE, message, is_message_shown=True)


def _check_header(
    batch: memoryview, header: BatchHeader, rules: AdmissionRules, transactional_id_given: bool
) -> None:
    """The checks that need no record, from the flags to the count."""
    # Most producers set no flag, only the codec.
    if header.attributes & ~CODEC_MASK:
        _check_flags(header, transactional_id_given)
    _check_size(len(batch), rules)
    if not crc_is_valid(batch, header):
        raise Refused(ErrorCode.CORRUPT_MESSAGE, "the checksum does not match the batch")
    if header.base_offset != 0:
        raise Refused(ErrorCode.INVALID_RECORD, f"base offset {header.base_offset} instead of 0")
    count = header.count
    if count <= 0 or header.last_offset_delta != count - 1:
        raise Refused(
            ErrorCode.INVALID_RECORD,
            f"{count} records with a last offset delta of {header.last_offset_delta}",
        )
    if header.attributes & CODEC_MASK > _CODEC_MAX:
        raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {header.codec}")
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise Refused(
            ErrorCode.INVALID_RECORD,
            f"producer {header.producer_id} with epoch {header.producer_epoch}"
            f" and sequence {header.base_sequence}",
        )
    if count * _RECORD_BYTES_MIN > max(len(batch), rules.decompressed_bytes_max):
        raise Refused(ErrorCode.INVALID_RECORD, f"{count} records are more than a reader can hold")


def _check_flags(header: BatchHeader, transactional_id_given: bool) -> None:
    if header.is_transactional and not transactional_id_given:
        raise Refused(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "a transactional batch in a request without a transactional id",
        )
    if header.is_transactional and not header.has_producer:
        raise Refused(ErrorCode.INVALID_RECORD, "a transactional batch without a producer id")
    if header.is_control:
        raise Refused(
            ErrorCode.INVALID_RECORD, "only a transaction coordinator writes control batches"
        )
    # A client could make the cleaner drop records at a time of its choosing.
    if header.delete_horizon_ms is not None:
        raise Refused(ErrorCode.INVALID_RECORD, "only the log cleaner sets a delete horizon")
    if header.is_log_append_time:
        raise Refused(ErrorCode.INVALID_TIMESTAMP, "only the broker sets log append time")


def _check_size(size_bytes: int, rules: AdmissionRules) -> None:
    if size_bytes > rules.message_bytes_max:
        raise Refused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {size_bytes} bytes where {rules.message_bytes_max} are allowed",
        )


def _survey(body: Buffer, header: BatchHeader) -> Survey:
    try:
        return survey(body, header)
    except CorruptBatch as error:
        # Clients retry CORRUPT_MESSAGE with the same bytes.
        raise Refused(ErrorCode.INVALID_RECORD, error.reason) from None


def _recompress(
    header: BatchHeader, body: Buffer, codec: Codec, rules: AdmissionRules, budget: WorkBudget
) -> bytearray:
    if codec != Codec.NONE:
        budget.spend_on_compressing(len(body), codec, rules.compression_level)
    batch = recompressed(header, body, codec, rules.compression_level)
    _check_size(len(batch), rules)
    return batch


def _check_records(
    body: Buffer, header: BatchHeader, found: Survey, rules: AdmissionRules, now_ms: int
) -> None:
    """Timestamps within the topic's limits, and keys in a compacted topic.

    A record without a timestamp (-1) is within any limits.
    """
    earliest_ms, latest_ms = _ANCIENT_MS, UNLIMITED_MS
    if not rules.log_append_time:
        latest_ms = min(now_ms + rules.timestamp_after_max_ms, UNLIMITED_MS)
        if rules.timestamp_before_max_ms != UNLIMITED_MS:
            earliest_ms = max(now_ms - rules.timestamp_before_max_ms, _ANCIENT_MS)
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
    # As in Kafka: one wrong timestamp decides the error code of the whole batch.
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
