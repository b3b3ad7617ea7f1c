"""Renders the pages and their plots from the results of a run. Pure, except `write`."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.machine import Machine
from benchmarks.parts.part import Part, markdown
from benchmarks.plots import Bar, ratio_bars
from benchmarks.results import Line, Result, all_lines
from benchmarks.table import COLUMNS, base_names, cells

ROW_COLUMNS = (*COLUMNS, "estimated ratio", "because")
NOTE = "Ratio of Ottla to {}, medians; whiskers: the range that both spreads allow"
NOTE += "; dashed: the hold."
TEXT = """\
# How fast it is

Written by `{command}`; no figure was measured in another way. All figures come from one machine
and one run: compare ratios, not figures of different machines. Estimates were written before the
first measurement and are never changed afterwards.

{machine}

## Compared with Apache Kafka

Apache Kafka {kafka_version} runs with stock settings and JVM options as one combined KRaft node,
and is warmed up; our broker runs as `ottla serve` starts it. Both use loopback, logs on the same
filesystem, and clients on the same cores. Each row runs {runs} times on each broker, alternating. A
ratio is ours to Kafka's, with the range that both spreads allow in parentheses: the spreads overlap
if the range contains 1. CPU is the user and system time of the broker: seconds per GB of payload
for bulk rows, seconds per 100,000 requests for small requests. *Hold* is the bound that a figure
must keep. {extent}

A transactional producer has one request in flight. Kafka answers CONCURRENT_TRANSACTIONS while it
completes the last transaction; the producer then asks again after 20 ms, as librdkafka and the Java
client do.

If the head of a table names another base than Kafka, the ratio is ours to that base, and both run
on our broker. Spark rows run in one session (`local[2]`) on topics of 200 B JSON records in 4
partitions, with Spark's own Kafka connector as the base.

{summary}
{groups}{parts}"""
CLUSTER_TEXT = """\
# How fast three brokers are

Written by `{command}`; no figure was measured in another way. All figures come from one machine:
compare ratios, not figures of different machines. Rows can be run one by one, and each shows its
last run. Estimates were written before the first measurement and are never changed.
[How fast it is](benchmarks.md) is about one broker.

{machine}

Apache Kafka {kafka_version} runs as three combined KRaft nodes with stock settings and JVM options,
and is warmed up. Ours is what `ottla up --brokers 3 --no-restart` starts: three brokers and three
ZooKeeper servers, whose CPU and memory count as ours. Both use loopback, logs on the same
filesystem, and clients on the same cores. Topics have three replicas and `min.insync.replicas` 2;
producers are idempotent and use `acks=all`. Each row runs {runs} times on each side, alternating,
unless its name says otherwise. A ratio is ours to Kafka's, with the range that both spreads allow
in parentheses. CPU is the user and system time of all processes of a side, in seconds per GB of
payload. *Hold* is the bound that a figure must keep. {extent}

A failover begins with SIGKILL to the leader of the partition, under the load of the same client for
both, librdkafka; the broker is not started again. The time is from the last acknowledgement before
to the first one after. Elections are counted by leader epochs. If the head of a table names another
base than Kafka, the ratio is ours to that base.

{summary}
{groups}{parts}"""
PARTS = """
## The parts

The functions that determine the broker's speed, measured by themselves, without Kafka.

{}"""


def render(
    results: Sequence[Result],
    parts: Sequence[Part],
    machine: Machine,
    *,
    command: str,
    kafka_version: str,
    runs: int,
    extent: str,
    directory: str,
    text: str = TEXT,
) -> str:
    """The page; `directory` is the relative path of its plots."""
    return text.format(
        command=command,
        machine=machine.describe(),
        kafka_version=kafka_version,
        runs=runs,
        extent=extent,
        summary=_summary(results),
        groups="".join(_group(name, found, directory) for name, found in grouped(results)),
        parts=PARTS.format(markdown(parts)) if parts else "",
    )


def plots(results: Sequence[Result]) -> Mapping[str, str]:
    """Plots by file name: the figures of each group, and the CPU of its rows if measured."""
    pictures = {}
    for group, found in grouped(results):
        lines = all_lines(found)
        if not lines:
            continue
        note = NOTE.format(base_names(line.row for line in lines))
        bars = [Bar(_label(line), line.ratio, line.figure.hold, line.verdict) for line in lines]
        pictures[f"{slug(group)}.svg"] = ratio_bars(group.capitalize(), note, bars)
        cpu_bars = [
            Bar(line.row.name, line.cpu.ratio, line.row.cpu_hold, line.cpu.verdict)
            for line in lines
            if line.cpu
        ]
        if cpu_bars:
            title = f"{group.capitalize()}: CPU of the broker"
            pictures[f"{slug(group)}-cpu.svg"] = ratio_bars(title, note, cpu_bars)
    return pictures


def write(page: Path, text: str, pictures: Mapping[str, str]) -> None:
    """Writes the page, and its plots in the directory of the same name; removes older plots."""
    directory = page.with_suffix("")
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("*.svg"):
        old.unlink()
    for name, picture in pictures.items():
        (directory / name).write_text(picture)
    page.write_text(text)


def grouped(results: Sequence[Result]) -> list[tuple[str, list[Result]]]:
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.row.group, []).append(result)
    return list(groups.items())


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _label(line: Line) -> str:
    return f"{line.row.name}: {line.figure.unit}" if len(line.row.figures) > 1 else line.row.name


def _summary(results: Sequence[Result]) -> str:
    """The number of holds that are kept and missed, and a list of the missed ones."""
    lines = all_lines(results)
    held = [line for line in lines if line.verdicts and not line.is_missed]
    missed = [line for line in lines if line.is_missed]
    text = f"{len(held)} lines hold or tie, {len(missed)} miss.\n"
    if missed:
        text += "\nMissed:\n\n"
        text += "".join(f"- {_label(line)}: {line.verdict_words}\n" for line in missed)
    return text


def _group(name: str, results: Sequence[Result], directory: str) -> str:
    lines = all_lines(results)
    text = f"### {name.capitalize()}\n\n"
    if lines:
        text += _markdown_table(lines) + "\n"
    for picture in plots(results):
        text += f"![{picture.removesuffix('.svg')}]({directory}/{picture})\n\n"
    for result in results:
        if result.trouble:
            text += f"- {result.row.name}: no figure. {result.trouble}\n"
    return text.rstrip("\n") + "\n\n"


def _markdown_table(lines: Sequence[Line]) -> str:
    base = base_names(line.row for line in lines)
    head = [column.replace("base", base) for column in ROW_COLUMNS]
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for line in lines:
        found = [*cells(line), f"{line.figure.estimate:.2f}", line.figure.because]
        rows.append("| " + " | ".join(found) + " |")
    return "\n".join(rows) + "\n"
