"""Our rows in the words of Kafka's log dump tool, and its output by file."""

import base64
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

Row = dict[str, Any]

# The lines of the tool besides a file's content.
REMARKS = ("Log starting offset:", "Snapshot end offset:")


def ottla_dump(*paths: Path, records: bool = True) -> dict[str, list[Row]]:
    """What `ottla log dump -o jsonl` prints, by the file it is about: `partition/name`."""
    command = [sys.executable, "-m", "ottla.cli", "log", "dump", "-o", "jsonl"]
    command += ["--records"] if records else []
    finished = subprocess.run(
        [*command, *map(str, paths)], capture_output=True, text=True, check=True
    )
    by_file: dict[str, list[Row]] = defaultdict(list)
    for line in finished.stdout.splitlines():
        row = json.loads(line)
        by_file["/".join(row["file"].split("/")[-2:])].append(row)
    return by_file


def by_file(output: str) -> dict[str, list[str]]:
    """The lines that Kafka's tool printed of each file; what it found wrong is under ''."""
    found: dict[str, list[str]] = defaultdict(list)
    section = ""
    for line in output.splitlines():
        if line.startswith("Dumping "):
            section = "/".join(line.removeprefix("Dumping ").split("/")[-2:])
            found[section] = []
        elif line.startswith(("Non-consecutive offsets", "Mismatches in", "Found ")):
            section = ""
            found[section].append(line)
        elif not line.startswith(REMARKS):
            found[section].append(line)
    return found


def kafka_lines(rows: list[Row]) -> list[str]:
    """Rows of one file as Kafka's tool prints them."""
    lines = []
    batch: Row = {}
    for row in rows:
        batch = row if row["kind"] == "batch" else batch
        lines.append(_line(row, batch))
    return lines


def _line(row: Row, batch: Row) -> str:
    match row["kind"]:
        case "batch":
            return _batch(row)
        case "record" | "control":
            return _record(row, batch["timestamp_type"])
        case "producer":
            return _producer(row)
        case "aborted_transaction":
            return (
                f"version: {row['version']} producerId: {row['producer_id']}"
                f" firstOffset: {row['first_offset']} lastOffset: {row['last_offset']}"
                f" lastStableOffset: {row['last_stable_offset']}"
            )
        case "offset_index":
            return f"offset: {row['offset']} position: {row['position']}"
        case "time_index":
            return f"timestamp: {row['timestamp']} offset: {row['offset']}"
        case kind:
            raise ValueError(f"Kafka's tool prints no {kind}")


def without_key_and_payload(line: str) -> str:
    """A record's line up to its headers: keys and values of some topics Kafka shows decoded."""
    head, found, _ = line.partition(" headerKeys: ")
    return head if found else line


def _batch(row: Row) -> str:
    return (
        f"baseOffset: {row['base_offset']} lastOffset: {row['last_offset']} count: {row['count']}"
        f" baseSequence: {row['base_sequence']} lastSequence: {row['last_sequence']}"
        f" producerId: {row['producer_id']} producerEpoch: {row['producer_epoch']}"
        f" partitionLeaderEpoch: {row['partition_leader_epoch']}"
        f" isTransactional: {_boolean(row['is_transactional'])}"
        f" isControl: {_boolean(row['is_control'])}"
        f" deleteHorizonMs: {_optional(row['delete_horizon_ms'])}"
        f" position: {row['position']} {row['timestamp_type']}: {row['max_timestamp']}"
        f" size: {row['size']} magic: {row['magic']} compresscodec: {row['codec']}"
        f" crc: {row['crc']} isvalid: {_boolean(row['crc_is_valid'])}"
    )


def _record(row: Row, timestamp_type: str) -> str:
    names = ",".join(_bytes(name).decode() for name, _ in row["headers"])
    line = (
        f"| offset: {row['offset']} {timestamp_type}: {row['timestamp']}"
        f" keySize: {_size(row['key'])} valueSize: {_size(row['value'])}"
        f" sequence: {row['sequence']} headerKeys: [{names}]"
    )
    if row["kind"] == "control":
        return f"{line} endTxnMarker: {row['control']} coordinatorEpoch: {row['coordinator_epoch']}"
    if row["key"] is not None:
        line += f" key: {_bytes(row['key']).decode(errors='replace')}"
    if row["value"] is not None:
        line += f" payload: {_bytes(row['value']).decode(errors='replace')}"
    return line


def _producer(row: Row) -> str:
    line = (
        f"producerId: {row['producer_id']} producerEpoch: {row['producer_epoch']}"
        f" coordinatorEpoch: {row['coordinator_epoch']}"
        f" currentTxnFirstOffset: {_optional(row['transaction_first_offset'])}"
        f" lastTimestamp: {row['last_timestamp']}"
    )
    if row["last_offset"] is None:
        return line
    return (
        f"{line} firstSequence: {row['first_sequence']} lastSequence: {row['last_sequence']}"
        f" lastOffset: {row['last_offset']} offsetDelta: {row['offset_delta']}"
        f" timestamp: {row['last_timestamp']}"
    )


def _boolean(value: bool) -> str:
    return str(value).lower()


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _bytes(cell: str | dict[str, str]) -> bytes:
    return cell.encode() if isinstance(cell, str) else base64.b64decode(cell["base64"])


def _size(cell: str | dict[str, str] | None) -> int:
    return -1 if cell is None else len(_bytes(cell))
