"""Log directories that Apache Kafka wrote, and what it reads from them."""

import gzip
import json
import tarfile
from collections.abc import Iterator
from functools import cache
from typing import Any

from ottla.protocol.batch import BatchHeader, Marker, read_header, read_marker
from tests.support.paths import VECTORS

DISK = VECTORS / "disk"
CASES = sorted(path.name.removesuffix(".tar.gz") for path in DISK.glob("*.tar.gz"))
# What an index preallocates is of no use here, and large.
READ_SUFFIXES = (".log", ".snapshot", "-checkpoint", ".metadata", ".properties", "_cleanshutdown")


@cache
def expected(case: str) -> Any:
    return json.loads(gzip.decompress((DISK / f"{case}.expected.json.gz").read_bytes()))


@cache
def files_of(case: str) -> dict[str, bytes]:
    """Name within the log directory, and content."""
    found = {}
    with tarfile.open(DISK / f"{case}.tar.gz") as archive:
        for member in archive:
            if member.isfile() and member.name.endswith(READ_SUFFIXES):
                content = archive.extractfile(member)
                assert content is not None
                found[member.name.removeprefix("./")] = content.read()
    return found


def batches_of(case: str, partition: str) -> Iterator[tuple[BatchHeader, Marker | None]]:
    """Every batch of a partition, in order, with its marker if it is a control batch."""
    for name, content in sorted(files_of(case).items()):
        if name.startswith(f"{partition}/") and name.endswith(".log"):
            position = 0
            while position < len(content):
                header = read_header(content, position)
                marker = read_marker(content, position) if header.is_control else None
                yield header, marker
                position += header.size
