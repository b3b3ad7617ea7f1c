"""The protocol between `ottla sql` and the process in which Spark runs.

A job is sent as one JSON object. The process responds with one JSON value per line: an array is a
row, an object is one of the messages below, under its name.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryJob:
    """One query and its topics, each with the options of its source."""

    query: str
    topics: Mapping[str, Mapping[str, str]]
    bootstrap_servers: str
    # The total number of offsets in the topics' ranges.
    offsets: int
    # The names in the query, including columns; None if it may use all columns.
    names: Sequence[str] | None
    is_text: bool
    rows_max: int | None
    conf: Mapping[str, str]

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, raw: bytes) -> "QueryJob":
        return cls(**json.loads(raw))


class Column(NamedTuple):
    name: str
    is_number: bool


class Started(NamedTuple):
    """Spark has started."""


class ResultColumns(NamedTuple):
    """The columns of the planned query."""

    columns: list[Column]


class Done(NamedTuple):
    """All rows were sent."""

    records_read: int


class Failed(NamedTuple):
    """The query failed; no more rows follow."""

    what: str
    is_query_error: bool


Message = Started | ResultColumns | Done | Failed
ResultRow = list[Any]

_MESSAGES = {kind.__name__: kind for kind in (Started, ResultColumns, Done, Failed)}


def encode_message(message: Message) -> str:
    return json.dumps({type(message).__name__: message._asdict()})


def decode_line(line: bytes) -> Message | ResultRow:
    """Decodes a message or a row."""
    value = json.loads(line)
    if isinstance(value, list):
        return value
    ((name, fields),) = value.items()
    if name == ResultColumns.__name__:
        return ResultColumns([Column(*column) for column in fields["columns"]])
    return _MESSAGES[name](**fields)
