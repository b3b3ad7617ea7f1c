"""The rows of a query on standard output, each as it comes.

Unlike listings they have the columns that the query has given them, and nothing else.
"""

import csv
import json
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TextIO

from ottla.cli.shared.listing import Yaml
from ottla.cli.shared.output import (
    ROWS_WAITING_MAX,
    JsonArray,
    JsonLines,
    RowWriter,
    cell_text,
)
from ottla.cli.sql.commands import ResultFormat
from ottla.cli.sql.worker_protocol import Column


class ResultWriter(Protocol):
    def write(self, row: Sequence[Any]) -> None: ...

    def close(self) -> None:
        """What ends the output, once all rows are written."""
        ...


def result_writer(format_: ResultFormat, columns: Sequence[Column], stream: TextIO) -> ResultWriter:
    names = [column.name for column in columns]
    match format_:
        case ResultFormat.TABLE:
            return ResultTable(stream, columns)
        case ResultFormat.CSV:
            return Csv(stream, names)
        case ResultFormat.NAME:
            return FirstCells(stream)
        case ResultFormat.JSON:
            return Objects(JsonArray(stream), unique(names))
        case ResultFormat.JSONL:
            return Objects(JsonLines(stream), unique(names))
        case ResultFormat.YAML:
            keys = [name if name.isidentifier() else json.dumps(name) for name in unique(names)]
            return Objects(Yaml(stream), keys)


def unique(names: Iterable[str]) -> list[str]:
    """The same names; of columns that share one, the second is `name_2`."""
    taken: list[str] = []
    for name in names:
        candidate, number = name, 2
        while candidate in taken:
            candidate, number = f"{name}_{number}", number + 1
        taken.append(candidate)
    return taken


class Objects:
    """A mapping of names to values a row."""

    def __init__(self, writer: RowWriter, names: Sequence[str]) -> None:
        self._writer = writer
        self._names = names

    def write(self, row: Sequence[Any]) -> None:
        self._writer.write(dict(zip(self._names, row, strict=True)))

    def close(self) -> None:
        self._writer.close()


class Csv:
    """Names, then rows, with commas. Null is empty; what is no scalar is JSON."""

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


class FirstCells:
    """The first cell of each row, for other commands to read."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, row: Sequence[Any]) -> None:
        first = row[0]
        self._stream.write(f"{first if isinstance(first, str) else json.dumps(first)}\n")

    def close(self) -> None:
        self._stream.flush()


class ResultTable:
    """Aligned columns for the eye; their widths are those of the first rows."""

    def __init__(self, stream: TextIO, columns: Sequence[Column]) -> None:
        self._stream = stream
        self._columns = columns
        self._waiting: list[list[str]] = [[cell_text(column.name) for column in columns]]
        self._widths: list[int] | None = None

    def write(self, row: Sequence[Any]) -> None:
        self._waiting.append([cell_text(cell) for cell in row])
        if len(self._waiting) > ROWS_WAITING_MAX:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._stream.flush()

    def _flush(self) -> None:
        if self._widths is None:
            self._widths = [max(map(len, texts)) for texts in zip(*self._waiting, strict=True)]
        for texts in self._waiting:
            aligned = [
                text.rjust(width) if column.is_number else text.ljust(width)
                for text, width, column in zip(texts, self._widths, self._columns, strict=True)
            ]
            self._stream.write(f"  {'  '.join(aligned).rstrip()}\n")
        self._waiting.clear()
