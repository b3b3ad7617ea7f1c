"""Records on standard output: raw values, keys and values, or all fields as JSON."""

import json
from collections.abc import Callable
from typing import BinaryIO

from ottla.cli.records.commands import RecordFormat
from ottla.cli.shared.cells import bytes_cell
from ottla.protocol.batch import Record
from ottla.protocol.topic_partition import TopicPartition

# Writes records of a partition and flushes.
Printer = Callable[[TopicPartition, list[Record]], None]


def printer(form: RecordFormat, key_separator: str, stream: BinaryIO) -> Printer:
    """A printer of one line per record. Except in JSON, a null key or value is empty."""
    separator = key_separator.encode()

    def value(_: TopicPartition, record: Record) -> bytes:
        return record.value or b""

    def key_value(_: TopicPartition, record: Record) -> bytes:
        return (record.key or b"") + separator + (record.value or b"")

    lines = {
        RecordFormat.VALUE: value,
        RecordFormat.KEY_VALUE: key_value,
        RecordFormat.JSONL: _as_json,
    }
    line = lines[form]

    def write(partition: TopicPartition, records: list[Record]) -> None:
        stream.writelines(line(partition, record) + b"\n" for record in records)
        stream.flush()

    return write


def _as_json(partition: TopicPartition, record: Record) -> bytes:
    return json.dumps(
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": bytes_cell(record.key),
            "value": bytes_cell(record.value),
            "headers": [[name, bytes_cell(value)] for name, value in record.headers],
        }
    ).encode()
