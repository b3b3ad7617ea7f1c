"""`ottla log dump`: its rows, its locks, and rows for damage."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli.log.dump import Selection, dump
from ottla.cli.shared.output import Format, row_writer
from ottla.protocol.batch import Record, build
from ottla.seams.files import Lock, RealFiles
from tests.support.cli.run_command import (
    NOW_MS,
    ORDERS,
    PAYMENTS,
    batch_positions,
    contents,
    flip,
    open_logs,
    ottla,
    segments,
    write_directory,
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return write_directory(tmp_path / "logs")


def test_every_batch_of_a_log_directory_is_a_line(directory: Path) -> None:
    ran = ottla("log", "dump", directory, "-o", "jsonl")
    assert ran.exit_code == 0
    assert len(ran.rows_of("batch")) == len(ran.rows) == 24
    files = [row["file"] for row in ran.rows]
    assert files == sorted(files)
    assert len(set(files)) == len(segments(directory)) + 1


def test_a_batch_row_has_every_field_of_the_header(directory: Path) -> None:
    row = ottla("log", "dump", segments(directory)[0], "-o", "jsonl").rows[0]
    assert row.pop("crc") > 0
    assert row == {
        "kind": "batch",
        "file": str(segments(directory)[0]),
        "position": 0,
        "size": batch_positions(segments(directory)[0])[1][1],
        "base_offset": 0,
        "last_offset": 1,
        "count": 2,
        "codec": "none",
        "crc_is_valid": True,
        "partition_leader_epoch": 0,
        "timestamp_type": "CreateTime",
        "base_timestamp": NOW_MS,
        "max_timestamp": NOW_MS + 1,
        "delete_horizon_ms": None,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "last_sequence": -1,
        "is_transactional": False,
        "is_control": False,
        "magic": 2,
        "attributes": 0,
    }


def test_records_follow_their_batch_and_markers_are_decoded(directory: Path) -> None:
    rows = ottla("log", "dump", directory / str(PAYMENTS), "--records", "-o", "jsonl").rows
    assert [row["kind"] for row in rows] == [
        *("batch", "record", "record", "record", "batch", "control"),
        *("batch", "record", "record", "record", "batch", "control"),
    ]
    assert rows[1] == {
        "kind": "record",
        "file": str(segments(directory, PAYMENTS)[0]),
        "offset": 0,
        "timestamp": NOW_MS,
        "sequence": 0,
        "key": "key-0",
        "value": "value " * 10,
        "headers": [["source", "test"]],
    }
    markers = [
        (row["control"], row["coordinator_epoch"]) for row in rows if row["kind"] == "control"
    ]
    assert markers == [("COMMIT", 2), ("ABORT", 2)]


def test_offsets_from_and_to_bound_batches_and_records(directory: Path) -> None:
    partition = directory / str(ORDERS)
    ran = ottla("log", "dump", partition, "--records", "--from", 5, "--to", 8, "-o", "jsonl")
    assert [row["offset"] for row in ran.rows_of("record")] == [5, 6, 7, 8]
    assert [row["base_offset"] for row in ran.rows_of("batch")] == [4, 6, 8]


def test_the_files_beside_a_segment_are_shown_when_named(directory: Path) -> None:
    partition = directory / str(PAYMENTS)
    orders = sorted((directory / str(ORDERS)).glob("*index"))
    ran = ottla(
        *("log", "dump", "-o", "jsonl", *orders),
        *(*partition.glob("*.txnindex"), *partition.glob("*.snapshot")),
        directory / str(ORDERS) / "leader-epoch-checkpoint",
    )
    assert ran.exit_code == 0
    assert {row["kind"] for row in ran.rows} == {
        *("offset_index", "time_index", "aborted_transaction", "producer", "epoch"),
    }
    (aborted,) = ran.rows_of("aborted_transaction")
    assert (aborted["producer_id"], aborted["first_offset"], aborted["last_offset"]) == (8, 4, 7)
    assert [(row["epoch"], row["start_offset"]) for row in ran.rows_of("epoch")] == [
        (0, 0),
        (1, 20),
    ]


def test_json_is_one_array_even_of_nothing(directory: Path) -> None:
    rows = json.loads(ottla("log", "dump", directory, "-o", "json").stdout)
    assert len(rows) == 24
    nothing = ottla("log", "dump", directory, "--from", 10**6, "-o", "json")
    assert json.loads(nothing.stdout) == []


def test_a_table_names_each_file_once_and_aligns_its_columns(directory: Path) -> None:
    lines = ottla("log", "dump", directory / str(ORDERS)).stdout.splitlines()
    headings = [line for line in lines if line.startswith("/")]
    assert headings == [str(path) for path in segments(directory)]
    column = lines[1].index("BASE_OFFSET") + len("BASE_OFFSET")
    assert [line[:column].split()[-1] for line in lines[2:5]] == ["0", "2", "4"]


def test_bytes_that_are_not_utf8_are_shown_as_base64(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(build([Record(0, NOW_MS, b"\xff", b"\x00text", (("n", None),))]))
    (row,) = ottla("log", "dump", path, "--records", "-o", "jsonl").rows_of("record")
    assert row["key"] == {"base64": "/w=="}
    assert row["value"] == "\x00text"
    assert row["headers"] == [["n", None]]


def test_a_batch_with_a_wrong_checksum_is_shown_as_such_and_the_rest_too(directory: Path) -> None:
    path = segments(directory)[0]
    flip(path, 100)
    ran = ottla("log", "dump", path, "-o", "jsonl")
    assert ran.exit_code == 0
    assert [row["crc_is_valid"] for row in ran.rows][:2] == [False, True]
    with_records = ottla("log", "dump", path, "--records", "-o", "jsonl")
    assert with_records.exit_code == 1
    (damage,) = with_records.rows_of("damage")
    assert damage["position"] == 0
    assert with_records.rows_of("record")[0]["offset"] == 2


def test_a_broken_chain_ends_a_file_but_not_the_dump(directory: Path) -> None:
    path = segments(directory)[0]
    position = batch_positions(path)[1][1]
    flip(path, position + 16)
    ran = ottla("log", "dump", directory, "-o", "jsonl")
    assert ran.exit_code == 1
    (damage,) = ran.rows_of("damage")
    assert (damage["file"], damage["position"]) == (str(path), position)
    assert len({row["file"] for row in ran.rows_of("batch")}) == len(segments(directory)) + 1
    assert "ottla log verify" in ran.stderr


def test_nothing_is_changed(directory: Path) -> None:
    before = contents(directory)
    ottla("log", "dump", directory, "--records")
    assert contents(directory) == before


def test_a_directory_in_use_is_refused_by_name(directory: Path) -> None:
    running = open_logs(directory)
    ran = ottla("log", "dump", directory / str(ORDERS))
    running.close(broker_epoch=2)
    assert ran.exit_code == 1
    assert ran.stdout == ""
    assert f"error: {directory} is in use" in ran.stderr


# Kafka's lock is a record lock; those of one process do not conflict, so another one holds it.
LOCK_AS_KAFKA = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_lock_of_a_running_kafka_is_respected(directory: Path) -> None:
    command = [sys.executable, "-c", LOCK_AS_KAFKA, str(directory / ".lock")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as kafka:
        assert kafka.stdout is not None
        assert kafka.stdout.readline() == "held\n"
        ran = ottla("log", "dump", directory)
        kafka.communicate()
    assert ran.exit_code == 1
    assert "is in use" in ran.stderr


class UnlockableFiles(RealFiles):
    """A directory that may be read and not written."""

    def lock(self, path: str) -> Lock:  # type: ignore[override]
        raise PermissionError(13, "Permission denied", path)


def test_without_permission_to_lock_it_reads_and_says_so(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = row_writer(Format.JSONL)
    assert dump(UnlockableFiles(), [str(directory)], Selection(), writer) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 24
    assert printed.err == f"note: reading {directory} without its lock (Permission denied)\n"


@pytest.mark.parametrize("name", ["meta.properties", "recovery-point-offset-checkpoint"])
def test_a_file_of_another_kind_is_a_usage_error(name: str, directory: Path) -> None:
    ran = ottla("log", "dump", directory / name)
    assert ran.exit_code == 2
    assert "cannot be shown" in ran.stderr


def test_a_directory_without_logs_is_not_found(tmp_path: Path) -> None:
    ran = ottla("log", "dump", tmp_path)
    assert ran.exit_code == 4
    assert "holds no log" in ran.stderr


def test_room_that_an_index_set_aside_is_no_entry(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000100.index"
    entry = (7).to_bytes(4) + (4_096).to_bytes(4)
    path.write_bytes(entry + bytes(80_000))
    (row,) = ottla("log", "dump", path, "-o", "jsonl").rows
    assert (row["offset"], row["position"]) == (107, 4_096)
