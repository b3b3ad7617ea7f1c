"""The rows of `ottla log dump` for batches, records and producer entries."""

from ottla.cli.shared.cells import bytes_cell
from ottla.cli.shared.output import Cell
from ottla.protocol.batch import CONTROL_KEY, MARKER_VALUE, BatchHeader, Record
from ottla.protocol.compression import Codec
from ottla.storage.log.batch_scan import Placed
from ottla.storage.producers.entry import ProducerEntry

# The types of control records, by the number in their keys.
CONTROL_KINDS = (
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
)
TRANSACTION_MARKERS = CONTROL_KINDS[:2]

_SEQUENCE_MASK = 0x7FFFFFFF


def codec_name(number: int) -> str:
    return Codec(number).name.lower() if number <= max(Codec) else f"unknown ({number})"


def batch_row(path: str, placed: Placed, *, crc_is_valid: bool) -> dict[str, Cell]:
    header = placed.header
    return {
        "kind": "batch",
        "file": path,
        "position": placed.position,
        "size": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.count,
        "codec": codec_name(header.codec),
        "crc": header.crc,
        "crc_is_valid": crc_is_valid,
        "partition_leader_epoch": header.partition_leader_epoch,
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "delete_horizon_ms": header.delete_horizon_ms,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "magic": header.magic,
        "attributes": header.attributes,
    }


def record_row(path: str, header: BatchHeader, record: Record) -> dict[str, Cell]:
    sequence = header.base_sequence
    if sequence >= 0:
        sequence = (sequence + record.offset - header.base_offset) & _SEQUENCE_MASK
    row: dict[str, Cell] = {
        "kind": "record",
        "file": path,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "sequence": sequence,
        "key": bytes_cell(record.key),
        "value": bytes_cell(record.value),
        "headers": [
            [bytes_cell(name.encode("utf-8", "surrogateescape")), bytes_cell(value)]
            for name, value in record.headers
        ],
    }
    return row | _control_cells(record) if header.is_control else row


def _control_cells(record: Record) -> dict[str, Cell]:
    """The type of a control record, and the coordinator epoch of a transaction marker."""
    # A separate kind, because a table has one set of columns per kind.
    cells: dict[str, Cell] = {"kind": "control", "control": None, "coordinator_epoch": None}
    if record.key is None or len(record.key) < CONTROL_KEY.size:
        return cells
    _, number = CONTROL_KEY.unpack_from(record.key)
    known = 0 <= number < len(CONTROL_KINDS)
    cells["control"] = CONTROL_KINDS[number] if known else f"unknown ({number})"
    if cells["control"] in TRANSACTION_MARKERS and len(record.value or b"") >= MARKER_VALUE.size:
        _, cells["coordinator_epoch"] = MARKER_VALUE.unpack_from(record.value or b"")
    return cells


def producer_row(path: str, entry: ProducerEntry) -> dict[str, Cell]:
    last = entry.batches[-1] if entry.batches else None
    return {
        "kind": "producer",
        "file": path,
        "producer_id": entry.producer_id,
        "producer_epoch": entry.epoch,
        "coordinator_epoch": entry.coordinator_epoch,
        "transaction_first_offset": (
            entry.transaction_first_offset if entry.has_open_transaction else None
        ),
        "last_timestamp": entry.last_timestamp_ms,
        "first_sequence": last.first_sequence if last else None,
        "last_sequence": last.last_sequence if last else None,
        "last_offset": last.last_offset if last else None,
        "offset_delta": last.offset_delta if last else None,
    }
