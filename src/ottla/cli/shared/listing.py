"""The output formats of commands that list resources."""

import json
import sys
from enum import StrEnum
from typing import Annotated, TextIO

import typer

from ottla.cli.shared.output import Cell, Format, Row, RowWriter, row_writer


class ListingFormat(StrEnum):
    """The values of `-o` for listings."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    YAML = "yaml"
    NAME = "name"


Listing = Annotated[ListingFormat, typer.Option("--output", "-o", help="The format of the output.")]


def listing_writer(
    format_: ListingFormat,
    *,
    named: str | None,
    name_cell: str = "name",
    stream: TextIO | None = None,
) -> RowWriter:
    """A writer of rows. The format `name` prints `name_cell` of rows of the kind `named`, or of all
    rows if it is None."""
    stream = sys.stdout if stream is None else stream
    match format_:
        case ListingFormat.YAML:
            return YamlWriter(stream)
        case ListingFormat.NAME:
            return NameWriter(stream, named, name_cell)
        case _:
            return row_writer(Format(format_.value), stream)


class YamlWriter:
    """A sequence of mappings. Cells are written as JSON, a subset of YAML."""

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


class NameWriter:
    """One name per line, for other commands. Consecutive rows with the same name print it once."""

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
