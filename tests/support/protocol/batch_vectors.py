"""Batches that Apache Kafka 4.3.1 and its clients wrote, and their contents as Kafka reads them."""

import gzip
import json
import tarfile
from base64 import b64decode
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.support.paths import VECTORS

DISK_CASES = (
    "codecs",
    "records",
    "idempotent",
    "transactions",
    "compacted",
    "segments",
    "internal",
    "killed",
    "torn",
)


class Expected(NamedTuple):
    """A batch's bytes, their writer, and their contents as Kafka reads them."""

    batch: bytes
    writer: str
    reading: dict[str, Any]


def wire_lines() -> Iterator[dict[str, Any]]:
    for name in ("0-Produce", "1-Fetch", "more-errors"):
        with gzip.open(VECTORS / f"wire/{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def records_field(line: dict[str, Any], partition: dict[str, Any]) -> bytes:
    """The bytes of the records field that a decoded partition was read from."""
    topic, index = partition["topicIndex"], partition["partitionIndex"]
    if partition in (line.get("requestRecords") or ()):
        found = line["requestJson"]["topicData"][topic]["partitionData"][index]
    else:
        found = line["responseJson"]["responses"][topic]["partitions"][index]
    return b64decode(found["records"])


def wire_partitions() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for line in wire_lines():
        for side in ("requestRecords", "responseRecords"):
            for partition in line.get(side) or ():
                yield line, partition


def wire_batches() -> Iterator[Expected]:
    for line, partition in wire_partitions():
        position = 0
        sent = records_field(line, partition)
        for reading in partition.get("batches", ()):
            end = position + reading["sizeInBytes"]
            yield Expected(sent[position:end], line["client"], reading)
            position = end


def undecodable_records() -> Iterator[bytes]:
    """Records fields that Kafka could not read."""
    for line, partition in wire_partitions():
        if "undecodable" in partition:
            yield records_field(line, partition)


def disk_batches(case: str) -> Iterator[Expected]:
    with gzip.open(VECTORS / f"disk/{case}.expected.json.gz", "rt", encoding="utf-8") as file:
        expected = json.load(file)
    with tarfile.open(VECTORS / f"disk/{case}.tar.gz") as tar:
        for directory, partition in expected["partitions"].items():
            for segment in partition["segments"]:
                if not segment["batches"]:
                    continue
                log = tar.extractfile(f"{directory}/{segment['baseOffset']:020}.log")
                if log is None:
                    raise FileNotFoundError(directory)
                written = log.read()
                for reading in segment["batches"]:
                    position = reading["position"]
                    batch = written[position : position + reading["size"]]
                    yield Expected(batch, "apache-kafka-java", reading)
