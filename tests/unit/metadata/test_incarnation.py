"""Which brokers inherit from their previous incarnation."""

import pytest

from ottla.metadata.incarnation import (
    DAMAGED_MAX,
    UNSERVED_MAX,
    SavedIncarnation,
    epoch_of_id,
    id_of_epoch,
    inherited_ids,
    is_intact,
    read_incarnation,
    serving,
    starting,
    write_incarnation,
)
from ottla.metadata.json_codec import JsonMismatch
from ottla.metadata.values import PartitionId
from ottla.seams.files import Files, replace_file
from tests.sim.seams.disk import SimDisk
from tests.support.metadata.sample_records import topic_id

DIRECTORY = "/data"
PATH = f"{DIRECTORY}/incarnation.json"
KILLED = SavedIncarnation("a", boot_id="monday", clean=False)
STOPPED = SavedIncarnation("a", boot_id="monday", clean=True)
DAMAGED = (PartitionId(topic_id(1), 0), PartitionId(topic_id(2), 3))


def new_disk(seed: int = 0) -> tuple[SimDisk, Files]:
    disk = SimDisk(seed)
    files = disk.process()
    files.make_dir(DIRECTORY)
    files.sync_dir("/")
    return disk, files


def started(previous: SavedIncarnation, *ids: str) -> SavedIncarnation:
    """After starts under these ids, on the same boot, that ended before they served."""
    for incarnation_id in ids:
        previous = starting(previous, incarnation_id, previous.boot_id)
    return previous


@pytest.mark.parametrize(
    ("previous", "boot_id", "ids"),
    [
        (KILLED, "monday", ("a",)),
        (KILLED, "tuesday", ()),
        (STOPPED, "monday", ("a",)),
        (STOPPED, "tuesday", ("a",)),
        (started(STOPPED, "b", "c"), "tuesday", ("a", "b", "c")),
        (started(KILLED, "b"), "monday", ("a", "b")),
        (started(KILLED, "b"), "tuesday", ()),
        (starting(KILLED, "b", "tuesday"), "tuesday", ("b",)),
        (starting(None, "b", "monday"), "monday", ("b",)),
        (starting(None, "b", "monday"), "tuesday", ()),
        (None, "monday", ()),
    ],
    ids=[
        *("killed", "power lost", "stopped", "stopped, then rebooted"),
        *("stopped, then died at two starts", "killed, then died at a start"),
        *("power lost before a start", "died at a start after a power loss"),
        *("died at the first start", "power lost at the first start", "new"),
    ],
)
def test_an_intact_broker_inherits(
    previous: SavedIncarnation | None, boot_id: str, ids: tuple[str, ...]
) -> None:
    assert inherited_ids(previous, boot_id) == ids
    assert previous is None or is_intact(previous, boot_id) == bool(ids)


def test_damage_is_remembered_until_the_broker_serves() -> None:
    first = starting(KILLED, "b", "monday", DAMAGED[:1])
    # The recovery that cut the log has left one that looks sound.
    second = starting(first, "c", "monday", DAMAGED[1:])
    assert second.damaged == DAMAGED
    assert starting(second, "d", "monday", DAMAGED).damaged == DAMAGED
    assert serving("c", "monday", clean=False).damaged == ()


def test_an_incarnation_that_registers_twice_is_remembered_once() -> None:
    first = starting(KILLED, "b", "monday", DAMAGED)
    assert starting(first, "b", "monday", DAMAGED) == first
    alone = starting(None, "b", "monday")
    assert starting(alone, "b", "monday") == alone


def test_all_incarnations_that_may_still_be_registered_are_remembered() -> None:
    """A power loss breaks the inheritance, and the session of the lost process goes on."""
    saved = starting(started(KILLED, "b"), "c", "tuesday")
    saved = starting(saved, "d", "tuesday")
    assert inherited_ids(saved, "tuesday") == ("c", "d")
    saved = starting(saved, "e", "wednesday")
    assert inherited_ids(saved, "wednesday") == ("e",)
    assert set(saved.replaced_ids) == set("abcde")
    assert serving("e", "wednesday", clean=False).replaced_ids == ("e",)


def test_a_broker_with_too_many_damaged_logs_is_not_intact() -> None:
    many = [PartitionId(topic_id(1), index) for index in range(DAMAGED_MAX + 500)]
    saved = starting(KILLED, "b", "monday", many[:DAMAGED_MAX])
    assert inherited_ids(saved, "monday") == ("a", "b")
    saved = starting(KILLED, "b", "monday", many)
    assert inherited_ids(saved, "monday") == ()
    _, files = new_disk()
    write_incarnation(files, DIRECTORY, saved)
    assert read_incarnation(files, DIRECTORY) == saved


def test_unserved_incarnations_are_bounded() -> None:
    saved = started(STOPPED, *map(str, range(8, 3_000)))
    assert saved.unserved == tuple(map(str, range(2_000, 3_000)))
    _, files = new_disk()
    write_incarnation(files, DIRECTORY, saved)
    assert read_incarnation(files, DIRECTORY) == saved


def test_earlier_versions_have_epochs_for_ids() -> None:
    assert epoch_of_id(id_of_epoch(17)) == 17
    for other in ("", "17", "epoch-", "epoch-x", "epoch-1\u0661", "0123456789abcdef"):
        assert epoch_of_id(other) is None
    _, files = new_disk()
    content = b'{"broker_epoch":7,"boot_id":"monday","clean":true,"unserved":[8,9]}'
    assert damaged(files, content) == SavedIncarnation(
        "epoch-7", "monday", clean=True, unserved=("epoch-8", "epoch-9")
    )


def test_an_incarnation_survives_a_round_trip() -> None:
    _, files = new_disk()
    assert read_incarnation(files, DIRECTORY) is None
    for saved in (KILLED, STOPPED, starting(KILLED, "b", "monday", DAMAGED)):
        write_incarnation(files, DIRECTORY, saved)
        assert read_incarnation(files, DIRECTORY) == saved


def test_it_is_durable_and_readable() -> None:
    disk, files = new_disk(3)
    write_incarnation(files, DIRECTORY, KILLED)
    disk.power_loss()
    assert disk.files()[PATH] == b'{"boot_id":"monday","clean":false,"incarnation_id":"a"}'
    assert read_incarnation(disk.process(), DIRECTORY) == KILLED


@pytest.mark.parametrize("seed", range(20))
def test_a_power_loss_while_it_is_replaced_leaves_the_old_or_the_new(seed: int) -> None:
    disk, files = new_disk(seed)
    write_incarnation(files, DIRECTORY, KILLED)
    disk.faults.fail_next("rename" if seed % 2 else "sync_dir")
    with pytest.raises(OSError, match="error"):
        write_incarnation(files, DIRECTORY, STOPPED)
    disk.power_loss()
    assert read_incarnation(disk.process(), DIRECTORY) in (KILLED, STOPPED)


def damaged(files: Files, content: bytes) -> SavedIncarnation | None:
    replace_file(files, PATH, content)
    return read_incarnation(files, DIRECTORY)


def test_a_damaged_file_is_no_incarnation() -> None:
    _, files = new_disk()
    assert damaged(files, b"") is None
    assert damaged(files, b"\x00" * 40) is None
    for content in (
        b'{"broker_epoch":7,"boot_id":"monday"}',
        b'{"broker_epoch":-7,"boot_id":"monday","clean":true}',
        b'{"broker_epoch":7,"boot_id":"monday","clean":true,"incarnation_id":"a"}',
        b'{"incarnation_id":"","boot_id":"monday","clean":true}',
        b'{"incarnation_id":"a","boot_id":"monday","clean":1}',
        b'["broker_epoch"]',
    ):
        assert damaged(files, content) is None
    assert damaged(files, b'{"incarnation_id":"a","boot_id":"monday","clean":true}') == STOPPED


def test_a_broker_without_a_boot_id_is_our_own_fault() -> None:
    _, files = new_disk()
    with pytest.raises(JsonMismatch, match="boot_id"):
        write_incarnation(files, DIRECTORY, SavedIncarnation("a", "", clean=False))


def test_the_newest_of_many_former_incarnations_are_kept() -> None:
    """The last one is the most likely to be registered still."""
    former = tuple(f"former-{number}" for number in range(UNSERVED_MAX))
    previous = SavedIncarnation("last", "boot-1", clean=False, former=former)
    saved = starting(previous, "new", "boot-2")
    assert saved.former == (*former[1:], "last")
