"""`ottla sql` around Spark, which a stand-in replaces here."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.cli.sql.worker_protocol import (
    Column,
    Done,
    Failed,
    QueryJob,
    ResultColumns,
    Started,
    encode_message,
)
from ottla.testing.broker import Broker
from tests.support.cli.run_command import Ran, at, ottla
from tests.unit.cli.conftest import AtBroker

TIMEOUT_S = 120
# Runs `ottla`, which then starts the stand-in where it would start Python.
SCRIPT = """
import sys
stand_in, grace_s, *words = sys.argv[1:]
sys.executable, sys.argv = stand_in, ["ottla", *words]
from ottla.cli.main import main
from ottla.cli.sql import spark_process
spark_process.GRACE_S = float(grace_s)
main()
"""
HEARD = "order.json"

Running = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def stand_in(tmp_path: Path) -> Callable[[str], Path]:
    """A program that saves its job in a file, then runs a script."""

    def make(does: str) -> Path:
        path = tmp_path / "stand-in"
        path.write_text(f"#!/bin/sh\ncat > {tmp_path / HEARD}\n{does}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return make


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Running]:
    children: list[subprocess.Popen[str]] = []

    def start(stand_in: Path, *words: str, grace_s: float = TIMEOUT_S) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(stand_in), str(grace_s), "sql", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TMPDIR": str(tmp_path)},
        )
        children.append(process)
        return process

    yield start
    for process in children:
        process.kill()
        process.communicate()


def finished(child: "subprocess.Popen[str]") -> Ran:
    stdout, stderr = child.communicate(timeout=TIMEOUT_S)
    return Ran(child.returncode, stdout, stderr)


def saying(*messages: str) -> str:
    return "\n".join(f"echo '{message}'" for message in messages)


def logs(directory: Path) -> list[Path]:
    return list(directory.glob("ottla-sql-*.log"))


COLUMNS = encode_message(ResultColumns([Column("n", True)]))


def test_a_missing_topic_is_reported_before_spark_starts(at_broker: AtBroker, topic: str) -> None:
    at_broker("topic", "create", topic)
    ran = at_broker("sql", f"select count(*) from {topic.upper()}x")
    assert ran.exit_code == 4
    assert ran.stdout == ""
    assert f"did you mean '{topic}'?" in ran.stderr
    assert "ottla topic list" in at_broker("sql", "select * from nothing_like_it").stderr


@pytest.mark.parametrize("query", ["drop table orders", "select 1; select 2", "select 'a"])
def test_an_invalid_query_is_a_usage_error(query: str) -> None:
    ran = ottla("sql", query)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: the query cannot be run\n  why: ")


def test_an_unreachable_cluster_is_reported_before_spark_starts() -> None:
    ran = ottla("sql", "select * from orders", "-b", "127.0.0.1:1")
    assert (ran.exit_code, ran.stdout) == (3, "")


def test_without_pyspark_the_error_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.cli.shared.spark_required.find_spec", lambda _: None)
    ran = ottla("sql", "select 1")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "pip install 'ottla[spark]'" in ran.stderr


def test_rows_are_printed_and_counted_and_the_log_is_gone(
    stand_in: Callable[[str], Path], started: Running, tmp_path: Path
) -> None:
    messages = (encode_message(Started()), COLUMNS, "[1]", "[2]", encode_message(Done(7)))
    ran = finished(started(stand_in(saying(*messages)), "select 1", "-o", "jsonl", "-n", "5"))
    assert ran.exit_code == 0
    assert ran.rows == [{"n": 1}, {"n": 2}]
    assert ran.stderr.startswith("2 rows, 7 records read, ")
    assert logs(tmp_path) == []
    job = QueryJob.decode((tmp_path / HEARD).read_bytes())
    assert (job.query, job.rows_max, job.topics) == ("select 1", 5, {})


def test_the_end_of_each_topic_is_fixed_before_spark_starts(
    broker: Broker,
    at_broker: AtBroker,
    topic: str,
    stand_in: Callable[[str], Path],
    started: Running,
    tmp_path: Path,
) -> None:
    at_broker("topic", "create", topic, "--partitions", "2")
    at_broker("produce", topic, "--partition", "1", text="a\nb\nc\n")
    spark = stand_in(saying(COLUMNS, encode_message(Done(0))))
    for words, start, offsets in (
        ((), "earliest", 3),
        (("--from", "2"), {"0": 0, "1": 2}, 1),
        (("--from", "9"), {"0": 0, "1": 3}, 0),
    ):
        ran = finished(
            started(spark, f"select * from {topic}", *at(broker.bootstrap_servers), *words)
        )
        assert ran.exit_code == 0, ran.stderr
        job = QueryJob.decode((tmp_path / HEARD).read_bytes())
        assert job.offsets == offsets
        options = job.topics[topic]
        assert json.loads(options["endingOffsets"]) == {topic: {"0": 0, "1": 3}}
        told = options["startingOffsets"]
        assert (told if start == "earliest" else json.loads(told)[topic]) == start
        assert options["kafka.isolation.level"] == "read_committed"


@pytest.mark.parametrize(
    ("failed", "exit_code", "keeps_log"),
    [
        (Failed("no such column", is_query_error=True), 2, False),
        (Failed("Spark needs Java", is_query_error=False), 1, True),
    ],
)
def test_a_failure_is_reported_and_the_log_is_kept_if_the_error_names_it(
    stand_in: Callable[[str], Path],
    started: Running,
    tmp_path: Path,
    failed: Failed,
    exit_code: int,
    keeps_log: bool,
) -> None:
    does = saying(COLUMNS, "[1]", encode_message(failed))
    ran = finished(started(stand_in(f"echo noise >&2\n{does}"), "select 1"))
    assert ran.exit_code == exit_code
    assert f"error: {failed.what}\n" in ran.stderr
    assert "noise" not in ran.stderr
    kept = logs(tmp_path)
    assert [path.read_text() for path in kept] == ["noise\n"] * keeps_log
    assert all(str(path) in ran.stderr for path in kept)


def test_a_query_that_needs_text_gets_the_advice(
    stand_in: Callable[[str], Path], started: Running
) -> None:
    failed = Failed('requires "STRING", however value is "BINARY"', is_query_error=True)
    ran = finished(started(stand_in(saying(encode_message(failed))), "select 1"))
    assert "try: --text" in ran.stderr


@pytest.mark.parametrize("messages", [(), (COLUMNS,), (COLUMNS, "[1]")])
def test_spark_that_just_ends_is_a_failure_and_never_a_short_result(
    stand_in: Callable[[str], Path], started: Running, messages: tuple[str, ...]
) -> None:
    ran = finished(started(stand_in(saying(*messages)), "select 1"))
    assert ran.exit_code == 1
    assert "Spark ended before the query was done" in ran.stderr


@pytest.mark.parametrize(("heeds", "grace_s"), [("trap - TERM", TIMEOUT_S), ("trap '' TERM", 0.2)])
def test_an_interrupt_ends_all_that_was_started(
    stand_in: Callable[[str], Path], started: Running, tmp_path: Path, heeds: str, grace_s: float
) -> None:
    """Also a process of a grandchild that outlives its parents."""
    pid_file = tmp_path / "pid"
    does = (
        f"{heeds}\n"
        f"(sh -c 'echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 600' &)\n"
    )
    spark = stand_in(f"{does}{saying(COLUMNS, '[1]')}\nsleep 600")
    child = started(spark, "select 1", "-o", "csv", grace_s=grace_s)
    while not pid_file.exists():
        assert child.poll() is None
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    ran = finished(child)
    assert ran.exit_code == 130
    assert "Traceback" not in ran.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)
    assert logs(tmp_path) == []
