"""What `ottla sql` asks of the process in which Spark runs, and what that answers.

An order goes there as one JSON object. What comes back is a JSON value a line: an array is a row,
an object one of the messages below, under its name.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One query, and the topics that it needs, each with the options of its source."""

    query: str
    topics: Mapping[str, Mapping[str, str]]
    bootstrap_servers: str
    # How many the topics have between where they are begun and where they are left.
    offsets: int
    # The names in the query, of which some are columns; None if it may use all columns.
    names: Sequence[str] | None
    is_text: bool
    rows_max: int | None
    conf: Mapping[str, str]

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, raw: bytes) -> "Order":
        return cls(**json.loads(raw))


class Column(NamedTuple):
    name: str
    is_number: bool


class Started(NamedTuple):
    """Spark runs."""


class Columns(NamedTuple):
    """The query is planned, and has these."""

    columns: list[Column]


class Done(NamedTuple):
    """There are no more rows."""

    records_read: int


class Failed(NamedTuple):
    """There will be no more rows, and why."""

    what: str
    is_query_error: bool


Message = Started | Columns | Done | Failed
Row = list[Any]

_MESSAGES = {kind.__name__: kind for kind in (Started, Columns, Done, Failed)}


def encode_message(message: Message) -> str:
    return json.dumps({type(message).__name__: message._asdict()})


def decode_line(line: bytes) -> Message | Row:
    """A message, or a row."""
    value = json.loads(line)
    if isinstance(value, list):
        return value
    ((name, fields),) = value.items()
    if name == Columns.__name__:
        return Columns([Column(*column) for column in fields["columns"]])
    return _MESSAGES[name](**fields)
