"""Stored results: rows that run again replace their own, and rows that are gone are dropped."""

from pathlib import Path

from benchmarks.comparing import at_least
from benchmarks.results import Result, all_lines
from benchmarks.stored import merge
from benchmarks.table import cells

from tests.support.benchmark_results import result, row

FIRST, SECOND, GONE = (row(name, at_least(1.0)) for name in ("first", "second", "gone"))
ROWS = (FIRST, SECOND)


def test_results_read_back_make_the_same_lines(tmp_path: Path) -> None:
    path = tmp_path / "page" / "results.json"
    kept = [
        result(FIRST, [100, 110, 90], [150, 160, 140], (2.0, 0.5)),
        Result(SECOND, trouble="ToolMissing: cargo is not installed", share=0.4),
    ]
    merge(path, kept, ROWS)
    found = merge(path, (), ROWS)
    assert list(map(cells, all_lines(found))) == list(map(cells, all_lines(kept)))
    assert (found[1].trouble, found[1].share) == (kept[1].trouble, 0.4)


def test_a_row_that_runs_again_replaces_its_own_result_only(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    merge(path, [result(SECOND, [1], [2], (1.0, 1.0)), result(FIRST, [1], [3], (1.0, 1.0))], ROWS)
    found = merge(path, [result(SECOND, [1], [5], (1.0, 1.0))], ROWS)
    assert [(each.row.name, each.ours.spread("rate").median) for each in found] == [
        ("first", 3),
        ("second", 5),
    ]


def test_the_result_of_a_row_that_no_longer_exists_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    merge(path, [result(GONE, [1], [2], (1.0, 1.0))], (*ROWS, GONE))
    assert merge(path, (), ROWS) == []
    assert "gone" not in path.read_text()
