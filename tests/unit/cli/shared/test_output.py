"""The output of rows in every format."""

import io

from ottla.cli.shared.output import BUFFERED_ROWS_MAX, Format, row_writer


def table(*rows: dict[str, object]) -> list[str]:
    stream = io.StringIO()
    writer = row_writer(Format.TABLE, stream)
    for row in rows:
        writer.write(row)  # type: ignore[arg-type]
    writer.close()
    return stream.getvalue().splitlines()


def test_numbers_go_right_and_text_goes_left() -> None:
    assert table(
        {"kind": "topic", "name": "a", "bytes": 5, "why": None},
        {"kind": "topic", "name": "longer", "bytes": 12_345, "why": None},
    ) == [
        "  NAME    BYTES  WHY",
        "  a           5    -",
        "  longer  12345    -",
    ]


def test_kinds_share_a_table_and_each_names_its_columns_once() -> None:
    lines = table(
        {"kind": "batch", "offset": 1},
        {"kind": "record", "key": "a"},
        {"kind": "batch", "offset": 2},
        {"kind": "record", "key": "b"},
    )
    assert [line.strip() for line in lines] == ["OFFSET", "1", "KEY", "a", "2", "b"]


def test_long_and_unprintable_cells_stay_on_their_line() -> None:
    lines = table({"kind": "record", "key": "line\nline", "value": "x" * 1_000, "is_control": True})
    assert len(lines) == 2
    assert "line\\nline" in lines[1]
    assert "x…" in lines[1]
    assert lines[1].endswith("yes")


def test_rows_are_printed_while_more_are_to_come() -> None:
    stream = io.StringIO()
    writer = row_writer(Format.TABLE, stream)
    for number in range(BUFFERED_ROWS_MAX):
        writer.write({"kind": "batch", "offset": number})
    assert stream.getvalue().count("\n") == BUFFERED_ROWS_MAX + 1
