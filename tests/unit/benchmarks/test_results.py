"""Lines of the table, the page and the plots from runs."""

import io
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

from benchmarks.comparing import at_least, at_most
from benchmarks.machine import Machine
from benchmarks.page import plots, render, slug, write
from benchmarks.parts.part import Part
from benchmarks.plots import Bar, ratio_bars
from benchmarks.results import Result, all_lines
from benchmarks.table import COLUMNS, base_names, cells, table
from rich.console import Console

from tests.support.benchmark_results import result, row

FAST = row("fast", at_least(1.0, goal=1.3), at_most(0.5))
SLOW = row("slow <1 MB>", at_least(1.0), at_most(0.5))
SKIPPED = row("skipped", at_least(1.0))
RESULTS = [
    result(FAST, [100, 110, 90], [150, 160, 140], (2.0, 0.5)),
    result(SLOW, [100, 110, 90], [50, 40, 60], (2.0, 1.5)),
    Result(SKIPPED, trouble="ToolMissing: cargo is not installed"),
]
MACHINE = Machine(
    processor="a processor",
    cores=2,
    memory_gib=24,
    kernel="6.1",
    python="3.11.7",
    java="openjdk 17",
    spark="no pyspark",
    is_native_compiled=True,
    load_before=0.04,
)
PART = Part(name="decode", unit="messages/s", figures=(1, 2, 3), estimate=2, because="a guess")


def page() -> str:
    return render(
        RESULTS,
        [PART],
        MACHINE,
        command="make bench",
        kafka_version="4.3.1",
        runs=3,
        extent="All rows.",
        directory="benchmarks",
    )


def test_a_line_compares_medians_and_cpu_and_judges_both() -> None:
    line = all_lines(RESULTS)[0]
    found = dict(zip(COLUMNS, cells(line), strict=True))
    assert found["base"] == "100 (90-110)"
    assert found["ours"] == "150 (140-160)"
    assert found["ratio"] == "1.50 (1.27-1.78)"
    assert (found["CPU base"], found["CPU ours"]) == ("2", "0.5")
    assert found["CPU ratio"] == "0.25 (0.25-0.25)"
    assert found["hold"] == "at least 1, goal 1.3; CPU at most 0.5"
    assert found["verdict"] == "held, and the goal; CPU held"


def test_a_line_names_the_part_of_the_load_and_an_unusual_number_of_runs() -> None:
    short = result(FAST, [100], [150], (2.0, 0.5))
    short.share = 0.4
    assert [line.name for line in all_lines([short])] == ["fast [40%, 1 run]"]
    assert all_lines(RESULTS)[0].name == "fast"


def test_a_row_that_could_not_run_has_no_line() -> None:
    assert [line.row.name for line in all_lines(RESULTS)] == ["fast", "slow <1 MB>"]


def test_the_table_shows_every_row_and_the_reason_for_a_skipped_one() -> None:
    console = Console(file=io.StringIO(), width=250)
    console.print(table(RESULTS, runs=3))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    for words in ("fast", "slow", "missed by 50%; CPU missed by 50%", "cargo is not installed"):
        assert words in " ".join(shown.split())


def test_the_page_names_the_machine_the_misses_and_the_estimates() -> None:
    text = page()
    assert "2 x a processor, 24 GiB" in text
    assert "load average before the run 0.04" in text
    assert "1 lines hold or tie, 1 miss" in text
    assert "- slow <1 MB>: missed by 50%; CPU missed by 50%" in text
    assert "| 1.25 | a reason |" in text
    assert "skipped: no figure. ToolMissing: cargo is not installed" in text
    assert "| decode | 2 messages/s |" in text


def test_the_page_names_the_base_of_the_comparison() -> None:
    assert "| row | unit | Kafka | ours | ratio | CPU Kafka |" in page()
    with_another_base = replace(FAST, group="spark", base_name="connector")
    results = [*RESULTS, result(with_another_base, [1], [2], (1.0, 1.0))]
    head = base_names(each.row for each in results[3:])
    assert head == "connector"
    assert "Ratio of Ottla to connector, medians" in plots(results)["spark.svg"]


def test_every_plot_of_the_page_is_written_and_is_xml(tmp_path: Path) -> None:
    target = tmp_path / "benchmarks.md"
    stale = tmp_path / "benchmarks" / "stale.svg"
    stale.parent.mkdir()
    stale.touch()
    write(target, page(), plots(RESULTS))
    pictures = {path.name for path in (tmp_path / "benchmarks").iterdir()}
    assert pictures == {"bulk-produce.svg", "bulk-produce-cpu.svg"}
    for name in pictures:
        assert f"(benchmarks/{name})" in target.read_text()
        ET.parse(tmp_path / "benchmarks" / name)


def test_a_bar_extends_to_the_left_of_one_if_ours_is_less() -> None:
    bars = [Bar(line.row.name, line.ratio, None, None) for line in all_lines(RESULTS)]
    drawn = ET.fromstring(ratio_bars("title", "note", bars))
    space = "{http://www.w3.org/2000/svg}"
    more, less = drawn.findall(f"{space}rect")[1:]
    one = float(more.attrib["x"])
    assert float(less.attrib["x"]) + float(less.attrib["width"]) == one
    assert "slow <1 MB>" in [text.text for text in drawn.iter(f"{space}text")]


def test_a_group_makes_a_file_name() -> None:
    assert slug("the paper's figures") == "the-paper-s-figures"
