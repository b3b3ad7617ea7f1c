"""The recorded wire traffic of a real Apache Kafka, and messages as its JSON."""

import base64
import functools
import gzip
import json
import pathlib
import typing
from typing import Any

from ottla.protocol.codec import schema_of
from ottla.protocol.codec.declare import is_declared
from ottla.protocol.codec.layout import Many, Nested, Slot, layout_of
from ottla.protocol.primitives import RecordBatches, Uuid

WIRE = pathlib.Path(__file__).parents[2] / "vectors" / "wire"


@functools.cache
def wire_vectors() -> tuple[dict[str, Any], ...]:
    """Every recorded pair, in the order of the files."""
    return tuple(
        json.loads(line)
        for path in sorted(WIRE.glob("*.jsonl.gz"))
        for line in gzip.open(path, "rt", encoding="utf-8")
    )
