"""Listings: what every command that lists things can print them as."""

import json
import sys
from enum import StrEnum
from typing import Annotated, TextIO

import typer

from ottla.cli.shared.output import Cell, Format, Row, RowWriter, row_writer


class ListingFormat(StrEnum):
    """What `-o` takes where things with names are listed."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    YAML = "yaml"
    NAME = "name"


Listing = Annotated[ListingFormat, typer.Option("--output", "-o", help="How to print the result.")]


def listing_writer(
    format_: ListingFormat,
    *,
    named: str | None,
    name_cell: str = "name",
    stream: TextIO | None = None,
) -> RowWriter:
    """Writes rows; as names, this cell of the rows of the kind `named`, or of every kind."""
    stream = sys.stdout if stream is None else stream
    match format_:
        case ListingFormat.YAML:
            return Yaml(stream)
        case ListingFormat.NAME:
            return Names(stream, named, name_cell)
        case _:
            return row_writer(Format(format_.value), stream)


class Yaml:
    """A sequence of mappings. Cells are written as JSON, which YAML includes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_empty = True

    def write(self, row: Row) -> None:
        self._is_empty = False
        mark = "- "
        for name, cell in row.items():
            self._stream.write(f"{mark}{name}: {json.dumps(cell)}\n")
            mark = "  "

    def close(self) -> None:
        if self._is_empty:
            self._stream.write("[]\n")
        self._stream.flush()


class Names:
    """A name a line, for other commands to read. Rows that share their name have it once."""

    def __init__(self, stream: TextIO, named: str | None, cell: str) -> None:
        self._stream = stream
        self._named = named
        self._cell = cell
        self._last: Cell = None

    def write(self, row: Row) -> None:
        if self._named in (None, row["kind"]) and row[self._cell] != self._last:
            self._last = row[self._cell]
            self._stream.write(f"{self._last}\n")

    def close(self) -> None:
        self._stream.flush()
