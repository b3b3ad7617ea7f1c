"""Runs `ottla …` in this process, and writes a small log directory for it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from ottla.cli.app import app
from ottla.protocol.batch import (
    Marker,
    MarkerKind,
    Record,
    build,
    build_marker,
    read_header,
)
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.clock import RealClock
from ottla.seams.files import RealFiles
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.directory_opening import open_directory
from ottla.storage.log.config import LogConfig
from ottla.storage.log.log import Log

CLUSTER_ID = "cluster-of-the-tests"
NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=2_000, index_interval_bytes=200)
ORDERS = TopicPartition("orders", 0)
PAYMENTS = TopicPartition("payments", 0)


@dataclass(frozen=True, slots=True)
class Ran:
    exit_code: int
    stdout: str
    stderr: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stdout.splitlines()]

    def rows_of(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["kind"] == kind]


def ottla(*arguments: str | Path, stdin: str | None = None) -> Ran:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    return Ran(result.exit_code, result.stdout, result.stderr)


def at(bootstrap: str) -> tuple[str, ...]:
    """The cluster of a command, with a timeout for a busy machine."""
    return ("--bootstrap", bootstrap, "--timeout", "120")


def open_logs(path: Path) -> LogDirectory:
    return open_directory(
        RealFiles(),
        str(path),
        cluster_id=CLUSTER_ID,
        node_id=1,
        directory_id=Uuid(bytes(16)),
        config_of=lambda _: CONFIG,
        clock=RealClock(),
    )


def write_directory(path: Path) -> Path:
    """Two partitions, cleanly stopped: forty orders in several segments, and some payments.

    The payments are transactions of two producers; the second one's is aborted.
    """
    path.mkdir()
    directory = open_logs(path)
    orders = directory.create(ORDERS, Uuid(b"orders".ljust(16)))
    for number in range(20):
        append(orders, build(_records(orders, 2)), leader_epoch=number // 10)
    payments = directory.create(PAYMENTS, Uuid(b"payments".ljust(16)))
    for producer_id, kind in ((7, MarkerKind.COMMIT), (8, MarkerKind.ABORT)):
        batch = build(
            _records(payments, 3),
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        append(payments, batch)
        end_transaction(payments, kind, producer_id)
    directory.close(broker_epoch=1)
    return path


def append(log: Log, batch: bytearray, *, leader_epoch: int = 0) -> None:
    log.append(batch, read_header(batch), leader_epoch=leader_epoch)


def end_transaction(log: Log, kind: MarkerKind, producer_id: int) -> None:
    marker = Marker(kind, coordinator_epoch=2)
    batch = build_marker(
        marker,
        producer_id=producer_id,
        producer_epoch=0,
        timestamp_ms=NOW_MS,
    )
    log.append_marker(batch, read_header(batch), marker, leader_epoch=0, transaction_version=0)


def _records(log: Log, count: int) -> list[Record]:
    return [
        Record(
            index,
            NOW_MS + log.end_offset + index,
            b"key-%d" % (log.end_offset + index),
            b"value " * 10,
            (("source", b"test"),),
        )
        for index in range(count)
    ]


def segments(directory: Path, partition: TopicPartition = ORDERS) -> list[Path]:
    return sorted((directory / str(partition)).glob("*.log"))


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)


def batch_positions(path: Path) -> list[tuple[int, int]]:
    """Base offset and position of every batch."""
    content = path.read_bytes()
    found, position = [], 0
    while position < len(content):
        header = read_header(content, position)
        found.append((header.base_offset, position))
        position += header.size
    return found


def contents(directory: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
