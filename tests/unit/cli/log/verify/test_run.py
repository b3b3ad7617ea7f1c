"""`ottla log verify`: undamaged directories pass, and every kind of damage is located."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.metadata.embedded.store import EmbeddedStore
from ottla.metadata.records import DeletedName
from ottla.metadata.store import Snapshot
from ottla.seams.clock import RealClock
from ottla.seams.files import RealFiles
from ottla.storage.directory import checkpoint_files
from tests.support.cli.run_command import (
    ORDERS,
    PAYMENTS,
    Ran,
    batch_positions,
    contents,
    flip,
    open_logs,
    ottla,
    segments,
    write_directory,
)
from tests.support.disk_vectors import CLEAN_CASES, expected, unpack

POINTS = checkpoint_files.RECOVERY_POINTS


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return write_directory(tmp_path / "logs")


def verify(path: Path) -> Ran:
    return ottla("log", "verify", path, "-o", "jsonl")


def unclean(directory: Path) -> None:
    (directory / checkpoint_files.CLEAN_SHUTDOWN).unlink()


def test_a_sound_directory_passes_and_is_left_alone(directory: Path) -> None:
    before = contents(directory)
    ran = verify(directory)
    assert (ran.exit_code, ran.stdout) == (0, "")
    assert ran.stderr == "2 partitions, 24 batches: no damage\n"
    assert contents(directory) == before


def test_one_partition_can_be_verified_alone(directory: Path) -> None:
    ran = verify(directory / str(ORDERS))
    assert (ran.exit_code, ran.stderr) == (0, "1 partition, 20 batches: no damage\n")


@pytest.mark.parametrize("case", [*CLEAN_CASES, "metadata", "killed"])
def test_kafkas_directories_have_no_damage(case: str, tmp_path: Path) -> None:
    ran = verify(unpack(case, tmp_path))
    assert (ran.exit_code, ran.stdout) == (0, "")


def test_the_damage_done_to_kafkas_directory_is_found_where_it_was_done(tmp_path: Path) -> None:
    ran = verify(unpack("torn", tmp_path))
    assert ran.exit_code == 6
    found = {
        row["file"].split("/")[-2]: (row["position"], row["offset"], row["below_recovery_point"])
        for row in ran.rows
    }
    assert found.keys() == expected("torn")["damage"].keys()
    assert found == {
        "codec-none-0": (273_671, 215, False),
        "codec-gzip-0": (4_154, 204, False),
        "codec-lz4-0": (5_696, 204, False),
        "codec-snappy-0": (9_700, 144, True),
        "records-0": (0, 0, True),
    }


def test_a_flipped_byte_is_a_wrong_checksum(directory: Path) -> None:
    offset, position = batch_positions(segments(directory)[1])[2]
    flip(segments(directory)[1], position + 70)
    (row,) = verify(directory).rows
    assert row == {
        "kind": "damage",
        "file": str(segments(directory)[1]),
        "position": position,
        "offset": offset,
        "what": "the checksum is wrong",
        "below_recovery_point": True,
        "at_start": "it does not detect it: readers of this part get the damage",
        "repair": "truncate the log here",
    }


def test_the_effect_at_the_start_depends_on_the_shutdown(directory: Path) -> None:
    path = segments(directory)[-1]
    offset, position = batch_positions(path)[-1]
    flip(path, position + 16)
    clean = verify(directory).rows[0]["at_start"]
    unclean(directory)
    flushed = verify(directory).rows[0]["at_start"]
    (directory / POINTS).write_text(f"0\n1\norders 0 {offset}\n")
    torn = verify(directory).rows[0]["at_start"]
    assert "offline" in clean
    assert "offline" in flushed
    assert torn == "it truncates the log here"


def break_offset_index(directory: Path) -> Path:
    path = segments(directory)[0].with_suffix(".index")
    flip(path, 7)
    return path


def shorten_offset_index(directory: Path) -> Path:
    path = segments(directory)[0].with_suffix(".index")
    path.write_bytes(path.read_bytes()[:-3])
    return path


def remove_offset_index(directory: Path) -> Path:
    path = segments(directory)[0].with_suffix(".index")
    path.unlink()
    return path


def break_time_index(directory: Path) -> Path:
    path = segments(directory)[0].with_suffix(".timeindex")
    flip(path, 7)
    return path


def forget_the_largest_time(directory: Path) -> Path:
    path = segments(directory)[0].with_suffix(".timeindex")
    path.write_bytes(path.read_bytes()[:-12])
    return path


def forget_aborted_transactions(directory: Path) -> Path:
    path = segments(directory, PAYMENTS)[0].with_suffix(".txnindex")
    path.write_bytes(b"")
    return path


def invent_an_aborted_transaction(directory: Path) -> Path:
    path = segments(directory, PAYMENTS)[0].with_suffix(".txnindex")
    content = bytearray(path.read_bytes())
    content[9] = 7  # the producer whose transaction was committed
    path.write_bytes(content)
    return path


def newest_snapshot(directory: Path) -> Path:
    return max((directory / str(PAYMENTS)).glob("*.snapshot"))


def break_snapshot(directory: Path) -> Path:
    flip(newest_snapshot(directory), 30)
    return newest_snapshot(directory)


def put_a_snapshot_where_it_does_not_belong(directory: Path) -> Path:
    path = newest_snapshot(directory)
    other = path.with_name(f"{4:020d}.snapshot")
    other.write_bytes(path.read_bytes())
    return other


def put_a_snapshot_beyond_the_end(directory: Path) -> Path:
    path = newest_snapshot(directory)
    other = path.with_name(f"{99:020d}.snapshot")
    other.write_bytes(path.read_bytes())
    return other


def garble_epochs(directory: Path) -> Path:
    path = directory / str(ORDERS) / "leader-epoch-checkpoint"
    path.write_text("0\n2\n0 0\n")
    return path


def misplace_epochs(directory: Path) -> Path:
    path = directory / str(ORDERS) / "leader-epoch-checkpoint"
    path.write_text("0\n2\n0 0\n1 30\n")
    return path


def remove_epochs(directory: Path) -> Path:
    path = directory / str(ORDERS) / "leader-epoch-checkpoint"
    path.unlink()
    return path


def garble_recovery_points(directory: Path) -> Path:
    path = directory / POINTS
    path.write_text("0\n7\norders 0 1\n")
    return path


REPAIRABLE = [
    break_offset_index,
    shorten_offset_index,
    remove_offset_index,
    break_time_index,
    forget_the_largest_time,
    forget_aborted_transactions,
    invent_an_aborted_transaction,
    break_snapshot,
    put_a_snapshot_where_it_does_not_belong,
    put_a_snapshot_beyond_the_end,
    garble_epochs,
    misplace_epochs,
    remove_epochs,
    garble_recovery_points,
]


@pytest.mark.parametrize("damage", REPAIRABLE)
def test_damaged_files_beside_the_log_are_repaired_without_loss(
    damage: Callable[[Path], Path], directory: Path
) -> None:
    path = damage(directory)
    logs = {name: file for name, file in contents(directory).items() if name.endswith(".log")}
    ran = verify(directory)
    assert ran.exit_code == 6
    assert [row["file"] for row in ran.rows] == [str(path)]

    planned = ottla("log", "verify", directory, "--repair", "-o", "jsonl")
    assert planned.exit_code == 6
    assert len(planned.rows) == 2
    assert "nothing was changed" in planned.stderr
    assert verify(directory).rows == ran.rows

    repaired = ottla("log", "verify", directory, "--repair", "--yes", "-o", "jsonl")
    assert repaired.exit_code == 0
    assert verify(directory).exit_code == 0
    after = {name: file for name, file in contents(directory).items() if name.endswith(".log")}
    assert after == logs


def remove_a_segment(directory: Path) -> Path:
    path = segments(directory)[1]
    for file in path.parent.glob(f"{path.stem}.*"):
        file.unlink()
    return segments(directory)[1]


def garble_the_topic_id(directory: Path) -> Path:
    path = directory / str(ORDERS) / checkpoint_files.PARTITION_METADATA
    path.write_text("version: 0\ntopic_id: ?")
    return path


def leave_a_swap(directory: Path) -> Path:
    path = segments(directory)[0].with_suffix(".log.swap")
    path.write_bytes(b"")
    return path


def garble_meta_properties(directory: Path) -> Path:
    path = directory / checkpoint_files.META_PROPERTIES
    path.write_text("version=9\n")
    return path


@pytest.mark.parametrize(
    "damage", [remove_a_segment, garble_the_topic_id, leave_a_swap, garble_meta_properties]
)
def test_damage_without_a_repair_is_reported_and_stays(
    damage: Callable[[Path], Path], directory: Path
) -> None:
    path = damage(directory)
    before = contents(directory)
    ran = ottla("log", "verify", directory, "--repair", "--yes", "-o", "jsonl")
    assert ran.exit_code == 6
    assert [row["file"] for row in ran.rows] == [str(path)]
    assert ran.rows[0]["repair"].startswith("none")
    assert contents(directory) == before


def test_compaction_may_leave_a_gap_between_segments(directory: Path) -> None:
    remove_a_segment(directory)
    (directory / checkpoint_files.CLEANER_OFFSETS).write_text("0\n1\norders 0 40\n")
    assert verify(directory).exit_code == 0


def drop_all_records(directory: Path) -> None:
    """As retention does, and stops cleanly: an empty active segment is left."""
    running = open_logs(directory)
    for log in running.logs.values():
        log.roll()
        for path in log.drop_segments(len(log.segments) - 1):
            Path(path).unlink()
    running.close(broker_epoch=2)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_log_that_retention_emptied_has_no_damage(is_clean: bool, directory: Path) -> None:
    drop_all_records(directory)
    if not is_clean:
        unclean(directory)
    assert [path.stat().st_size for path in segments(directory)] == [0]
    ran = verify(directory)
    assert (ran.exit_code, ran.stdout) == (0, "")
    assert ran.stderr == "2 partitions, 0 batches: no damage\n"


@pytest.mark.parametrize(
    ("suffix", "entry", "what"),
    [
        (".index", bytes([0, 0, 0, 1, 0, 0, 0, 9]), "position 9 is after the last batch"),
        (".timeindex", bytes([*([0] * 7), 9, 0, 0, 0, 1]), "offset 41 is listed"),
    ],
)
def test_an_index_entry_of_an_empty_segment_is_damage(
    suffix: str, entry: bytes, what: str, directory: Path
) -> None:
    drop_all_records(directory)
    path = segments(directory)[0].with_suffix(suffix)
    path.write_bytes(entry)
    (row,) = verify(directory).rows
    assert row["file"] == str(path)
    assert row["what"].startswith(what)


def test_a_lost_tail_is_found_by_the_recovery_point(directory: Path) -> None:
    for file in segments(directory)[-1].parent.glob(f"{segments(directory)[-1].stem}.*"):
        file.unlink()
    unclean(directory)
    rows = verify(directory).rows
    assert any("below its recovery point 40" in row["what"] for row in rows)
    assert ottla("log", "verify", directory, "--repair", "--yes").exit_code == 0
    log = open_logs(directory).logs[ORDERS]
    assert log.end_offset < 40


def test_a_directory_in_use_is_refused(directory: Path) -> None:
    running = open_logs(directory)
    ran = ottla("log", "verify", directory, "--repair", "--yes")
    running.close(broker_epoch=2)
    assert ran.exit_code == 1
    assert f"{directory} is in use" in ran.stderr


def test_yes_without_repair_is_a_usage_error(directory: Path) -> None:
    assert ottla("log", "verify", directory, "--yes").exit_code == 2
    assert ottla("log", "verify", segments(directory)[0]).exit_code == 2


def test_the_metadatas_log_is_judged_by_its_own_recovery_point(tmp_path: Path) -> None:
    data = unpack("records", tmp_path)
    assert ottla("log", "adopt", data, "--data", data, "--yes").exit_code == 0
    (path,) = (data / "__ottla_metadata-0").glob("*.log")
    flip(path, batch_positions(path)[1][1] + 70)
    (row,) = verify(data).rows
    assert row["file"] == str(path)
    assert row["below_recovery_point"]


def test_a_metadata_log_that_starts_after_its_snapshot_has_no_damage(tmp_path: Path) -> None:
    """Its first segment may hold entries that the snapshot stands for, and epochs begin later."""

    async def story() -> None:
        data = str(tmp_path)
        for name in ("one", "two"):
            store = EmbeddedStore.open(RealFiles(), data, RealClock())
            fence = await store.campaign()
            for number in range(3):
                n = await store.append((DeletedName(name=f"{name}{number}", epoch=1),), fence)
            await store.save(Snapshot(n - 1, ()), fence)
            await store.append((DeletedName(name=f"{name} last", epoch=1),), fence)
            await store.close()
        await EmbeddedStore.open(RealFiles(), data, RealClock()).close()

    asyncio.run(story())
    ran = verify(tmp_path)
    assert (ran.exit_code, ran.stdout) == (0, "")
