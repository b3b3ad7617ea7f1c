"""Rows on standard output, written one by one: memory does not grow with their number."""

import json
import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol, TextIO

Cell = str | int | float | bool | None | Mapping[str, str] | list[list["Cell"]]
# Every row has a `kind`. Rows of one kind have the same cells.
Row = Mapping[str, Cell]

# The width at which tables cut cells; JSON has them in full.
CELL_CHARACTERS_MAX = 60
# The number of rows from which a table computes its column widths.
BUFFERED_ROWS_MAX = 100


class Format(StrEnum):
    """The values of `-o`."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


class RowWriter(Protocol):
    def write(self, row: Row) -> None: ...

    def close(self) -> None:
        """Ends the output after the last row."""
        ...


def say(line: str) -> None:
    """Prints a message that is not a result, on standard error."""
    print(line, file=sys.stderr)


def row_writer(format_: Format, stream: TextIO | None = None) -> RowWriter:
    stream = sys.stdout if stream is None else stream
    match format_:
        case Format.JSONL:
            return JsonLinesWriter(stream)
        case Format.JSON:
            return JsonArrayWriter(stream)
        case Format.TABLE:
            return TableWriter(stream)


class JsonLinesWriter:
    """One JSON object per line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, row: Row) -> None:
        self._stream.write(json.dumps(row) + "\n")

    def close(self) -> None:
        self._stream.flush()


class JsonArrayWriter:
    """A JSON array with one object per line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._opening = "[\n"

    def write(self, row: Row) -> None:
        self._stream.write(f"{self._opening}  {json.dumps(row)}")
        self._opening = ",\n"

    def close(self) -> None:
        self._stream.write("[]\n" if self._opening == "[\n" else "\n]\n")
        self._stream.flush()


class TableWriter:
    """Aligned columns.

    Rows of one `kind` share their columns, and the first is preceded by the column names. Column
    widths are computed from the first rows; later cells may be wider. `file` is printed as a
    heading instead of a column, and starts a new table.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._file: Cell = None
        self._buffered: list[Row] = []
        # By kind. Positive widths right-align numbers, negative ones left-align text.
        self._widths: dict[Cell, list[int]] = {}

    def write(self, row: Row) -> None:
        if row.get("file") != self._file:
            self._flush()
            self._file = row.get("file")
            self._widths.clear()
            self._stream.write(f"{self._file}\n")
        self._buffered.append(row)
        if len(self._buffered) >= BUFFERED_ROWS_MAX:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._stream.flush()

    def _flush(self) -> None:
        measured = {row["kind"] for row in self._buffered} - self._widths.keys()
        for kind in measured:
            rows = [row for row in self._buffered if row["kind"] == kind]
            self._widths[kind] = [_width(name, rows) for name in _cells(rows[0])]
        for row in self._buffered:
            if row["kind"] in measured:
                measured.remove(row["kind"])
                self._line(row["kind"], [name.upper() for name in _cells(row)])
            self._line(row["kind"], [cell_text(cell) for cell in _cells(row).values()])
        self._buffered.clear()

    def _line(self, kind: Cell, texts: list[str]) -> None:
        aligned = [
            text.rjust(width) if width > 0 else text.ljust(-width)
            for text, width in zip(texts, self._widths[kind], strict=True)
        ]
        self._stream.write(f"  {'  '.join(aligned).rstrip()}\n")


def _cells(row: Row) -> Row:
    return {name: cell for name, cell in row.items() if name not in ("kind", "file")}


def _width(name: str, rows: list[Row]) -> int:
    """The width of a column: that of its name or its widest cell."""
    width = max(len(name), *(len(cell_text(row[name])) for row in rows))
    is_number = all(isinstance(row[name], int | None) for row in rows)
    return width if is_number else -width


def cell_text(cell: Cell) -> str:
    """A cell as one line of printable characters, shortened."""
    match cell:
        case None:
            return "-"
        case bool():
            return "yes" if cell else "no"
        case str():
            text = cell if cell.isprintable() else json.dumps(cell)[1:-1]
        case int():
            return str(cell)
        case _:
            text = json.dumps(cell)
    if len(text) > CELL_CHARACTERS_MAX:
        return f"{text[: CELL_CHARACTERS_MAX - 1]}…"
    return text
