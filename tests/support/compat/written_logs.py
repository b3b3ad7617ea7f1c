"""Logs of every kind that ours can write, for Kafka's tools to judge."""

from collections.abc import Callable
from pathlib import Path

from ottla.protocol.batch import (
    Marker,
    MarkerKind,
    Record,
    build,
    build_marker,
    read_header,
    stamp_log_append_time,
)
from ottla.protocol.compression import Codec
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.clock import RealClock
from ottla.seams.files import RealFiles
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.directory_opening import open_directory
from ottla.storage.log.config import LogConfig
from ottla.storage.log.log import Log

NOW_MS = 1_700_000_000_000
# Small, so that a few records make several segments with several index entries.
CONFIG = LogConfig(segment_bytes=16 << 10, index_interval_bytes=256)


def write_logs(path: Path) -> None:
    """A log directory with a partition for each writer below, cleanly closed."""
    path.mkdir()
    directory = _open(path)
    for number, (topic, write) in enumerate(WRITERS.items(), start=1):
        log = directory.create(TopicPartition(topic, 0), Uuid(number.to_bytes(16)))
        write(log)
    directory.close(broker_epoch=1)


def _open(path: Path) -> LogDirectory:
    return open_directory(
        RealFiles(),
        str(path),
        cluster_id="written-by-ottla",
        node_id=1,
        directory_id=Uuid(bytes(16)),
        config_of=lambda _: CONFIG,
        clock=RealClock(),
    )


def _records(first_offset: int, count: int, text: str = "value") -> list[Record]:
    return [
        Record(
            offset,
            NOW_MS + offset * 10,
            b"key %d" % offset,
            f"{text} {offset} ".encode() * (1 + offset % 7),
            (("trace", b"%d" % offset), ("empty", None)) if offset % 3 == 0 else (),
        )
        for offset in range(first_offset, first_offset + count)
    ]


def _append(log: Log, batch: bytearray, *, leader_epoch: int = 0) -> None:
    log.append(batch, read_header(batch), leader_epoch=leader_epoch)


def _end_transaction(log: Log, kind: MarkerKind, producer_id: int, epoch: int) -> None:
    marker = Marker(kind, coordinator_epoch=3)
    batch = build_marker(
        marker,
        producer_id=producer_id,
        producer_epoch=epoch,
        timestamp_ms=NOW_MS + log.end_offset * 10,
    )
    log.append_marker(batch, read_header(batch), marker, leader_epoch=0, transaction_version=0)


def _every_codec(log: Log) -> None:
    for round_ in range(6):
        for codec in Codec:
            count = 40 if round_ == 3 else 1 + round_
            _append(
                log, build(_records(log.end_offset, count), base_offset=log.end_offset, codec=codec)
            )


def _several_segments_and_leader_epochs(log: Log) -> None:
    for number in range(120):
        batch = build(_records(log.end_offset, 1 + number % 9), base_offset=log.end_offset)
        _append(log, batch, leader_epoch=number // 50)


def _odd_records(log: Log) -> None:
    """Nulls, empty fields, headers of all kinds, text of all scripts, times out of order."""
    records = [
        Record(0, NOW_MS + 50, None, b"no key"),
        Record(1, NOW_MS + 10, b"no value", None),
        Record(2, NOW_MS + 90, b"", b""),
        Record(3, 0, None, None),
        Record(
            4, NOW_MS, "schlüssel".encode(), "值".encode(), (("h", b"1"), ("h", b""), ("", None))
        ),
        Record(5, NOW_MS, bytes([0xFF, 0xFE]), bytes([0x80])),
    ]
    _append(log, build(records))


def _log_append_time(log: Log) -> None:
    for number in range(30):
        batch = build(
            _records(log.end_offset, 3),
            base_offset=log.end_offset,
            codec=Codec(number % len(Codec)),
        )
        stamp_log_append_time(batch, NOW_MS + number)
        _append(log, batch)


def _idempotent_producers(log: Log) -> None:
    sequences = {7: 0, 8: 2**31 - 10}  # the second one's sequences wrap
    for number in range(60):
        producer_id = 7 + number % 2
        batch = build(
            _records(log.end_offset, 4),
            base_offset=log.end_offset,
            producer_id=producer_id,
            producer_epoch=1,
            base_sequence=sequences[producer_id],
        )
        _append(log, batch)
        _append(log, batch)  # sent again: written once
        sequences[producer_id] = (sequences[producer_id] + 4) % 2**31


def _transactions(log: Log) -> None:
    """Committed, aborted, overlapping; the last one stays open."""
    sequences = {20: 0, 21: 0}

    def send(producer_id: int, codec: Codec = Codec.NONE) -> None:
        batch = build(
            _records(log.end_offset, 3),
            base_offset=log.end_offset,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequences[producer_id],
            transactional=True,
        )
        sequences[producer_id] += 3
        _append(log, batch)

    for number in range(40):
        send(20, Codec.ZSTD)
        if number % 4 == 0:
            send(21)
        _end_transaction(log, MarkerKind(number % 2), 20, 0)
        if number % 4 == 2:
            _end_transaction(log, MarkerKind.ABORT, 21, 0)
    send(20)


def _cut_and_written_again(log: Log) -> None:
    for _ in range(50):
        _append(log, build(_records(log.end_offset, 4), base_offset=log.end_offset))
    log.truncate(101)
    for _ in range(50):
        _append(log, build(_records(log.end_offset, 4, "again"), base_offset=log.end_offset))


WRITERS: dict[str, Callable[[Log], None]] = {
    "codecs": _every_codec,
    "segments": _several_segments_and_leader_epochs,
    "odd": _odd_records,
    "append-time": _log_append_time,
    "idempotent": _idempotent_producers,
    "transactions": _transactions,
    "cut": _cut_and_written_again,
    "empty": lambda _: None,
}
