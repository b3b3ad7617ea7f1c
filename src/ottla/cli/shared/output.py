"""Rows to standard output, each as it comes: nothing is kept, however many there are."""

import json
import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol, TextIO

Cell = str | int | float | bool | None | Mapping[str, str] | list[list["Cell"]]
# Every row has a `kind`, and those of one kind have the same cells.
Row = Mapping[str, Cell]

# In a table only: whoever wants all of it asks for JSON.
CELL_CHARACTERS_MAX = 60
# A table looks at so many rows before it decides how wide its columns are.
ROWS_WAITING_MAX = 100


class Format(StrEnum):
    """What `-o` takes."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


class RowWriter(Protocol):
    def write(self, row: Row) -> None: ...

    def close(self) -> None:
        """What ends the output, once all rows are written."""
        ...


def say(line: str) -> None:
    """Tells the user something that is no result: on standard error."""
    print(line, file=sys.stderr)


def row_writer(format_: Format, stream: TextIO | None = None) -> RowWriter:
    stream = sys.stdout if stream is None else stream
    match format_:
        case Format.JSONL:
            return JsonLines(stream)
        case Format.JSON:
            return JsonArray(stream)
        case Format.TABLE:
            return Table(stream)


class JsonLines:
    """An object a line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, row: Row) -> None:
        self._stream.write(json.dumps(row) + "\n")

    def close(self) -> None:
        self._stream.flush()


class JsonArray:
    """One array of objects, an object a line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._opening = "[\n"

    def write(self, row: Row) -> None:
        self._stream.write(f"{self._opening}  {json.dumps(row)}")
        self._opening = ",\n"

    def close(self) -> None:
        self._stream.write("[]\n" if self._opening == "[\n" else "\n]\n")
        self._stream.flush()


class Table:
    """Aligned columns for the eye.

    Rows of one `kind` share their columns. Names are printed before the first of them; widths are
    those of the first rows: later ones may be wider. A change of `file` is a heading instead of a
    column, and everything begins anew.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._file: Cell = None
        self._waiting: list[Row] = []
        # By kind. Numbers go to the right: theirs are positive. Text goes to the left: negative.
        self._widths: dict[Cell, list[int]] = {}

    def write(self, row: Row) -> None:
        if row.get("file") != self._file:
            self._flush()
            self._file = row.get("file")
            self._widths.clear()
            self._stream.write(f"{self._file}\n")
        self._waiting.append(row)
        if len(self._waiting) >= ROWS_WAITING_MAX:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._stream.flush()

    def _flush(self) -> None:
        measured = {row["kind"] for row in self._waiting} - self._widths.keys()
        for kind in measured:
            rows = [row for row in self._waiting if row["kind"] == kind]
            self._widths[kind] = [_width(name, rows) for name in _cells(rows[0])]
        for row in self._waiting:
            if row["kind"] in measured:
                measured.remove(row["kind"])
                self._line(row["kind"], [name.upper() for name in _cells(row)])
            self._line(row["kind"], [cell_text(cell) for cell in _cells(row).values()])
        self._waiting.clear()

    def _line(self, kind: Cell, texts: list[str]) -> None:
        aligned = [
            text.rjust(width) if width > 0 else text.ljust(-width)
            for text, width in zip(texts, self._widths[kind], strict=True)
        ]
        self._stream.write(f"  {'  '.join(aligned).rstrip()}\n")


def _cells(row: Row) -> Row:
    return {name: cell for name, cell in row.items() if name not in ("kind", "file")}


def _width(name: str, rows: list[Row]) -> int:
    """Of a column: as wide as its name and its widest cell."""
    width = max(len(name), *(len(cell_text(row[name])) for row in rows))
    is_number = all(isinstance(row[name], int | None) for row in rows)
    return width if is_number else -width


def cell_text(cell: Cell) -> str:
    """One line of readable characters, shortened."""
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
