"""The rows of a query in every format."""

import io
import json

import pytest

from ottla.cli.shared.output import BUFFERED_ROWS_MAX
from ottla.cli.sql.commands import ResultFormat
from ottla.cli.sql.results import result_writer, unique
from ottla.cli.sql.worker_protocol import Column

COLUMNS = [Column("key", False), Column("count(1)", True), Column("key", False)]
ROWS = [["anna", 12, None], ["bob, c", 3.5, {"base64": "/w=="}], ["line\nline", None, True]]


def written(form: ResultFormat, rows: list[list[object]], columns: list[Column] = COLUMNS) -> str:
    stream = io.StringIO()
    writer = result_writer(form, columns, stream)
    for row in rows:
        writer.write(row)
    writer.close()
    return stream.getvalue()


def test_a_table_has_the_querys_own_names_and_numbers_to_the_right() -> None:
    assert written(ResultFormat.TABLE, ROWS).splitlines() == [
        "  key         count(1)  key",
        "  anna              12  -",
        '  bob, c           3.5  {"base64": "/w=="}',
        "  line\\nline         -  yes",
    ]


def test_a_table_without_rows_still_names_its_columns() -> None:
    assert written(ResultFormat.TABLE, []) == "  key  count(1)  key\n"


def test_a_long_table_is_printed_while_more_is_to_come() -> None:
    stream = io.StringIO()
    writer = result_writer(ResultFormat.TABLE, [Column("n", True)], stream)
    for number in range(BUFFERED_ROWS_MAX):
        writer.write([number])
    assert stream.getvalue().count("\n") == BUFFERED_ROWS_MAX + 1


@pytest.mark.parametrize("form", [ResultFormat.JSON, ResultFormat.JSONL])
def test_objects_keep_columns_that_share_a_name(form: ResultFormat) -> None:
    text = written(form, ROWS)
    objects = (
        json.loads(text)
        if form is ResultFormat.JSON
        else [json.loads(line) for line in text.splitlines()]
    )
    assert objects[0] == {"key": "anna", "count(1)": 12, "key_2": None}
    assert [list(each.values()) for each in objects] == ROWS


def test_csv_has_a_header_and_empty_nulls() -> None:
    assert written(ResultFormat.CSV, ROWS) == (
        'key,count(1),key\nanna,12,\n"bob, c",3.5,"{""base64"": ""/w==""}"\n"line\nline",,true\n'
    )


def test_yaml_quotes_names_that_are_no_identifiers() -> None:
    assert written(ResultFormat.YAML, ROWS[:1]) == (
        '- key: "anna"\n  "count(1)": 12\n  key_2: null\n'
    )
    assert written(ResultFormat.YAML, []) == "[]\n"


def test_names_are_the_first_cells() -> None:
    assert written(ResultFormat.NAME, [["a", 1, 2], [3, 1, 2]]) == "a\n3\n"


def test_a_name_that_is_taken_is_numbered_past_those_that_are() -> None:
    assert unique(["a", "a_2", "a", "a"]) == ["a", "a_2", "a_3", "a_4"]
