"""Kafka's own log dump tool finds our logs clean, and prints the same as `ottla log dump`."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ottla.storage.log.segment import LOG, OFFSETS, SUFFIXES, TIMES
from tests.support.compat.kafka_dump_lines import Row, by_file, kafka_lines, ottla_dump
from tests.support.compat.killed_log import kill_a_writer
from tests.support.compat.written_logs import WRITERS, write_logs

JARS = Path(os.environ.get("KAFKA_JARS", ".cache/kafka-4.3.1"))
DUMPED = (*SUFFIXES, ".snapshot")
# A segment that does not begin at offset 0 gets this remark from the tool, sound or not.
BEGINS_LATER = "  -1 is followed by"


@dataclass(frozen=True, slots=True)
class Judged:
    """Files, with the output of Kafka's tool and of ours."""

    kafkas: dict[str, list[str]]
    sanity: dict[str, list[str]]
    ours: dict[str, list[Row]]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """Two runs of Kafka's tool for all logs at once: a JVM takes its time to start."""
    target = tmp_path_factory.mktemp("written")
    write_logs(target / "logs")
    killed = kill_a_writer(target / "killed", batches=100)
    killed.reopen().close(broker_epoch=1)
    paths = sorted(
        path for path in target.glob("*/*/*") if path.suffix in DUMPED and path.stat().st_size
    )
    indexes = [path for path in paths if path.suffix in (OFFSETS, TIMES)]
    return Judged(
        kafkas=by_file(_kafka_dump("--deep-iteration", "--print-data-log", paths=paths)),
        sanity=by_file(_kafka_dump("--index-sanity-check", paths=indexes)),
        ours=ottla_dump(*paths),
    )


def _kafka_dump(*options: str, paths: list[Path]) -> str:
    if not any(JARS.glob("kafka-tools-*.jar")) or shutil.which("java") is None:
        pytest.fail(
            f"Kafka's tools (in {JARS}) and Java are needed: run `make test`", pytrace=False
        )
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*"]
    command += ["org.apache.kafka.tools.DumpLogSegments", *options]
    command += ["--files", ",".join(map(str, paths))]
    environment = os.environ | {"LC_ALL": "C.UTF-8"}
    finished = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert finished.returncode == 0, finished.stderr
    # What it finds wrong it says on standard error.
    return finished.stdout + finished.stderr


def files_of(judged: Judged, suffix: str) -> Iterator[str]:
    found = [name for name in judged.kafkas if name.endswith(suffix)]
    assert found, f"no {suffix} was dumped"
    yield from found


def test_kafka_reads_every_batch_and_record_as_we_do(judged: Judged) -> None:
    for name in files_of(judged, LOG):
        assert kafka_lines(judged.ours[name]) == judged.kafkas[name], name


def test_every_kind_of_log_was_judged(judged: Judged) -> None:
    topics = {name.rpartition("/")[0] for name in files_of(judged, LOG)}
    assert topics == {f"{topic}-0" for topic in (*WRITERS, "killed") if topic != "empty"}
    kinds = {row["kind"] for rows in judged.ours.values() for row in rows}
    assert kinds == {
        "batch",
        "record",
        "control",
        "offset_index",
        "time_index",
        "aborted_transaction",
        "producer",
    }


def test_every_checksum_is_valid_to_kafka(judged: Judged) -> None:
    batches = [
        line
        for name in files_of(judged, LOG)
        for line in judged.kafkas[name]
        if line.startswith("baseOffset")
    ]
    assert len(batches) > 300
    assert all(line.endswith("isvalid: true") for line in batches)


@pytest.mark.parametrize("suffix", [".txnindex", ".snapshot"])
def test_kafka_reads_aborted_transactions_and_producers_as_we_do(
    suffix: str, judged: Judged
) -> None:
    for name in files_of(judged, suffix):
        assert kafka_lines(judged.ours[name]) == judged.kafkas[name], name


@pytest.mark.parametrize("suffix", [OFFSETS, TIMES])
def test_kafka_reads_our_index_entries_and_finds_each_true(suffix: str, judged: Judged) -> None:
    for name in files_of(judged, suffix):
        assert kafka_lines(judged.ours[name]) == judged.kafkas[name], name
        assert [line.endswith("passed sanity check.") for line in judged.sanity[name]] == [True]


def test_kafka_finds_nothing_wrong(judged: Judged) -> None:
    remarks = [
        line
        for line in judged.kafkas.get("", [])
        if not line.startswith(("Non-consecutive offsets in", BEGINS_LATER))
    ]
    assert remarks == []
    assert judged.sanity.get("", []) == []
