"""`ottla log verify --repair`: the planned cut, the kept bytes, and the log afterwards."""

from pathlib import Path

import pytest

from ottla.cli.log.verify.damage import Remedy
from ottla.protocol.batch import build
from ottla.protocol.compression import Codec
from ottla.storage.directory import checkpoint_files
from tests.support.cli.run_command import (
    ORDERS,
    Ran,
    append,
    batch_positions,
    contents,
    flip,
    open_logs,
    ottla,
    segments,
    write_directory,
)
from tests.support.disk_vectors import consume, expected, open_unpacked, unpack
from tests.support.forged_batches import NOW_MS, Record, forged


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return write_directory(tmp_path / "logs")


def repair(directory: Path, *, yes: bool) -> Ran:
    options = ["--yes"] if yes else []
    return ottla("log", "verify", directory, "--repair", *options, "-o", "jsonl")


def test_a_cut_is_planned_to_the_batch_and_nothing_happens_before_yes(directory: Path) -> None:
    path = segments(directory)[1]
    offset, position = batch_positions(path)[2]
    flip(path, position + 70)
    before = contents(directory)
    ran = repair(directory, yes=False)
    (cut,) = ran.rows_of("cut")
    lost_bytes = path.stat().st_size - position
    lost_bytes += sum(later.stat().st_size for later in segments(directory)[2:])
    assert cut == {
        "kind": "cut",
        "file": str(directory / str(ORDERS)),
        "repair": "truncate the log here",
        "segment": int(path.stem),
        "position": position,
        "first_offset_lost": offset,
        "last_offset_lost": 39,
        "batches_lost": 20 - offset // 2,
        "segments_lost": len(segments(directory)) - 2,
        "bytes_set_aside": lost_bytes,
    }
    assert ran.exit_code == 6
    assert contents(directory) == before


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_cut_leaves_a_log_that_opens_and_files_with_the_cut_bytes(
    is_clean: bool, directory: Path
) -> None:
    path = segments(directory)[1]
    offset, position = batch_positions(path)[2]
    flip(path, position + 16)
    if not is_clean:
        (directory / checkpoint_files.CLEAN_SHUTDOWN).unlink()
    cut = {path.name: path.read_bytes()[position:]}
    cut |= {later.name: later.read_bytes() for later in segments(directory)[2:]}

    assert repair(directory, yes=True).exit_code == 0

    kept = {
        file.name: file.read_bytes() for file in (directory / str(ORDERS)).glob("*.log*.damaged")
    }
    assert {name.partition(".log")[0] + ".log": content for name, content in kept.items()} == cut
    opened = open_logs(directory)
    assert opened.unusable == {}
    log = opened.logs[ORDERS]
    assert (log.end_offset, log.recovery_point) == (offset, offset)
    assert [record.offset for _, record in consume(log, committed=False)] == list(range(offset))
    # The cut offsets can be written again, by a new leader.
    log.begin_epoch(5)
    assert log.epochs.latest is not None
    assert log.epochs.latest.start_offset == offset


def test_a_log_damaged_from_its_first_byte_becomes_an_empty_one(directory: Path) -> None:
    flip(segments(directory)[0], 16)
    assert repair(directory, yes=True).exit_code == 0
    log = open_logs(directory).logs[ORDERS]
    assert (log.start_offset, log.end_offset) == (0, 0)


def test_a_segment_without_valid_bytes_is_dropped(directory: Path) -> None:
    path = segments(directory)[2]
    flip(path, 16)
    assert repair(directory, yes=True).exit_code == 0
    assert segments(directory)[-1].stem < path.stem
    assert open_logs(directory).logs[ORDERS].end_offset == int(path.stem)


def test_segments_that_overlap_are_cut_at_the_second(directory: Path) -> None:
    first, second = segments(directory)[:2]
    early = second.with_name(f"{int(second.stem) - 2:020d}.log")
    early.write_bytes(first.read_bytes())
    ran = repair(directory, yes=True)
    assert "it begins before" in ran.rows[0]["what"]
    assert ran.exit_code == 0
    assert open_logs(directory).logs[ORDERS].end_offset == int(second.stem)


def test_a_repeat_finds_nothing_to_do(directory: Path) -> None:
    flip(segments(directory)[1], 70)
    repair(directory, yes=True)
    after = contents(directory)
    ran = repair(directory, yes=True)
    assert (ran.exit_code, ran.stdout) == (0, "")
    assert contents(directory) == after


def test_kafkas_torn_directory_is_repaired_as_kafka_recovers_it(tmp_path: Path) -> None:
    """The repair cuts, and keeps, the bytes that Kafka truncates itself, flushed or not."""
    directory = unpack("torn", tmp_path)
    assert repair(directory, yes=True).exit_code == 0
    opened = open_unpacked(directory)
    assert opened.unusable == {}
    assert {str(partition): log.end_offset for partition, log in opened.logs.items()} == {
        name: found["endOffset"]
        for name, found in expected("torn")["consumer"]["read_uncommitted"].items()
    }


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_batch_that_its_client_sent_unreadable_is_named_and_nothing_is_cut(
    directory: Path, codec: Codec
) -> None:
    logs = open_logs(directory)
    log = logs.logs[ORDERS]
    offset = log.end_offset
    append(log, forged(b"garbage", codec, count=2), leader_epoch=2)
    append(log, build([Record(0, NOW_MS, b"k", b"behind it")]), leader_epoch=2)
    logs.close(broker_epoch=2)
    before = contents(directory)
    ran = repair(directory, yes=True)
    (damage,) = ran.rows_of("damage")
    assert (damage["offset"], damage["repair"]) == (offset, Remedy.KEEP)
    assert ran.rows_of("cut") == []
    assert contents(directory) == before
    assert ottla("log", "verify", directory).exit_code == 6
