"""The rows of a query on standard output, written one by one.

Unlike rows of listings, they have only the columns of the query.
"""

import csv
import json
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TextIO

from ottla.cli.shared.listing import YamlWriter
from ottla.cli.shared.output import (
    BUFFERED_ROWS_MAX,
    JsonArrayWriter,
    JsonLinesWriter,
    RowWriter,
    cell_text,
)
from ottla.cli.sql.commands import ResultFormat
from ottla.cli.sql.worker_protocol import Column


class ResultWriter(Protocol):
    def write(self, row: Sequence[Any]) -> None: ...

    def close(self) -> None:
        """Ends the output after the last row."""
        ...


def result_writer(format_: ResultFormat, columns: Sequence[Column], stream: TextIO) -> ResultWriter:
    names = [column.name for column in columns]
    match format_:
        case ResultFormat.TABLE:
            return ResultTableWriter(stream, columns)
        case ResultFormat.CSV:
            return CsvWriter(stream, names)
        case ResultFormat.NAME:
            return FirstCellWriter(stream)
        case ResultFormat.JSON:
            return ObjectWriter(JsonArrayWriter(stream), unique(names))
        case ResultFormat.JSONL:
            return ObjectWriter(JsonLinesWriter(stream), unique(names))
        case ResultFormat.YAML:
            keys = [name if name.isidentifier() else json.dumps(name) for name in unique(names)]
            return ObjectWriter(YamlWriter(stream), keys)


def unique(names: Iterable[str]) -> list[str]:
    """The names, with `_2`, `_3`, … appended to repeated ones."""
    taken: list[str] = []
    for name in names:
        candidate, number = name, 2
        while candidate in taken:
            candidate, number = f"{name}_{number}", number + 1
        taken.append(candidate)
    return taken


class ObjectWriter:
    """One mapping of names to values per row."""

    def __init__(self, writer: RowWriter, names: Sequence[str]) -> None:
        self._writer = writer
        self._names = names

    def write(self, row: Sequence[Any]) -> None:
        self._writer.write(dict(zip(self._names, row, strict=True)))

    def close(self) -> None:
        self._writer.close()


class CsvWriter:
    """Comma-separated names, then rows. Null is empty; values other than strings are JSON."""

    def __init__(self, stream: TextIO, names: Sequence[str]) -> None:
        self._stream = stream
        self._lines = csv.writer(stream, lineterminator="\n")
        self._lines.writerow(names)

    def write(self, row: Sequence[Any]) -> None:
        self._lines.writerow(
            "" if cell is None else cell if isinstance(cell, str) else json.dumps(cell)
            for cell in row
        )

    def close(self) -> None:
        self._stream.flush()


class FirstCellWriter:
    """The first cell of each row, for other commands."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, row: Sequence[Any]) -> None:
        first = row[0]
        self._stream.write(f"{first if isinstance(first, str) else json.dumps(first)}\n")

    def close(self) -> None:
        self._stream.flush()


class ResultTableWriter:
    """Aligned columns, with widths computed from the first rows."""

    def __init__(self, stream: TextIO, columns: Sequence[Column]) -> None:
        self._stream = stream
        self._columns = columns
        self._buffered: list[list[str]] = [[cell_text(column.name) for column in columns]]
        self._widths: list[int] | None = None

    def write(self, row: Sequence[Any]) -> None:
        self._buffered.append([cell_text(cell) for cell in row])
        if len(self._buffered) > BUFFERED_ROWS_MAX:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._stream.flush()

    def _flush(self) -> None:
        if self._widths is None:
            self._widths = [max(map(len, texts)) for texts in zip(*self._buffered, strict=True)]
        for texts in self._buffered:
            aligned = [
                text.rjust(width) if column.is_number else text.ljust(width)
                for text, width, column in zip(texts, self._widths, self._columns, strict=True)
            ]
            self._stream.write(f"  {'  '.join(aligned).rstrip()}\n")
        self._buffered.clear()
