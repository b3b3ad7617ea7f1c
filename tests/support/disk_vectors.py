"""Log directories that Apache Kafka wrote, unpacked; and what it reads from them."""

import gzip
import json
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from crc32c import crc32c

from ottla.protocol.batch import BatchHeader, Record, records
from ottla.protocol.compression import Codec
from ottla.protocol.primitives import Uuid
from ottla.seams.clock import RealClock
from ottla.seams.files import RealFiles
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.directory_opening import open_directory
from ottla.storage.log.batch_scan import Placed
from ottla.storage.log.config import LogConfig
from ottla.storage.log.log import Log
from ottla.storage.log.segment import Segment
from tests.support.paths import VECTORS

DISK = VECTORS / "disk"
CLEAN_CASES = (
    "codecs",
    "compacted",
    "idempotent",
    "internal",
    "records",
    "segments",
    "transactions",
)
CLUSTER_ID = "VecTorsVecTorsVecTorsA"
NODE_ID = 1
# As the broker that wrote them was set up.
CONFIG = LogConfig(segment_bytes=1 << 20)
NOW_MS = 1_794_800_000_000
LONG_BYTES = 64


@cache
def expected(case: str) -> Any:
    return json.loads(gzip.decompress((DISK / f"{case}.expected.json.gz").read_bytes()))


def recorded_dump(case: str) -> str:
    """What Kafka's own tool printed of the case's files."""
    return gzip.decompress((DISK / f"{case}.dump.txt.gz").read_bytes()).decode()


def unpack(case: str, target: Path) -> Path:
    """The log directory of a case; what its indexes set aside stays a hole."""
    directory = target / case
    directory.mkdir()
    with tarfile.open(DISK / f"{case}.tar.gz") as archive:
        archive.extractall(directory, filter="data")
    return directory


def open_unpacked(directory: Path) -> LogDirectory:
    return open_directory(
        RealFiles(),
        str(directory),
        cluster_id=CLUSTER_ID,
        node_id=NODE_ID,
        directory_id=Uuid(bytes(16)),
        config_of=lambda _: CONFIG,
        clock=RealClock(),
    )


def bytes_as_expected(name: str, raw: bytes | None) -> dict[str, Any]:
    """A key or a value the way the expectations spell it."""
    if raw is not None and len(raw) > LONG_BYTES:
        return {f"{name}Length": len(raw), f"{name}Crc32c": crc32c(raw)}
    return {name: None if raw is None else raw.hex()}


def record_as_expected(record: Record) -> dict[str, Any]:
    """Offset, time, key, value and headers; headers only if there are any."""
    spelled: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp}
    spelled |= bytes_as_expected("key", record.key) | bytes_as_expected("value", record.value)
    if record.headers:
        spelled["headers"] = [
            [name, None if value is None else value.hex()] for name, value in record.headers
        ]
    return spelled


def batch_as_expected(placed: Placed) -> dict[str, Any]:
    """A header's fields the way the expectations spell them, without the records."""
    header = placed.header
    spelled = {
        "position": placed.position,
        "size": header.size,
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "magic": header.magic,
        "crc": header.crc,
        "compression": Codec(header.codec).name.lower(),
        "timestampType": timestamp_type(header),
        "isTransactional": header.is_transactional,
        "isControlBatch": header.is_control,
        "maxTimestamp": header.max_timestamp,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "count": header.count,
    }
    if header.delete_horizon_ms is not None:
        spelled["deleteHorizonMs"] = header.delete_horizon_ms
    return spelled


def timestamp_type(header: BatchHeader) -> str:
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def all_batches(log: Log) -> Iterator[tuple[Segment, Placed]]:
    for segment in log.segments:
        for placed in segment.walk():
            yield segment, placed


def consume(log: Log, *, committed: bool) -> Iterator[tuple[BatchHeader, Record]]:
    """What a consumer gets: data records from the start, of committed transactions or of all."""
    end_offset = log.end_offset
    if committed:
        end_offset = log.producers.last_stable_offset(log.end_offset)
    aborted = log.aborted_transactions(log.start_offset, end_offset) if committed else []
    for segment, placed in all_batches(log):
        header = placed.header
        if header.is_control or header.base_offset >= end_offset:
            continue
        if header.is_transactional and any(
            entry.producer_id == header.producer_id
            and entry.first_offset <= header.base_offset < entry.last_offset
            for entry in aborted
        ):
            continue
        for record in records(segment.walk().batch(placed)):
            if record.offset >= log.start_offset:
                yield header, record
