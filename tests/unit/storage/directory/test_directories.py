"""Several log directories share a broker's logs, and each fails for itself."""

import errno

import pytest

from ottla.errors import StorageError
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.directory.directories import LogDirectories
from tests.sim.seams.disk import SimDisk
from tests.support.storage.workbench import fill, offsets
from tests.unit.storage.directory.test_directory import open_at

TOPIC_ID = Uuid(b"\5" * 16)
PARTITIONS = [TopicPartition("t", index) for index in range(6)]


@pytest.fixture
def both(disk: SimDisk) -> LogDirectories:
    files = disk.process()
    for path in ("/a", "/b"):
        files.make_dir(path)
    return LogDirectories([open_at(files, path) for path in ("/a", "/b")], {})


def test_new_logs_go_to_the_directory_that_has_the_fewest(both: LogDirectories) -> None:
    homes = [both.create(name, TOPIC_ID).directory[:2] for name in PARTITIONS]
    assert sorted(homes) == ["/a"] * 3 + ["/b"] * 3
    assert all(both.get(name) is not None for name in PARTITIONS)
    assert both.get(TopicPartition("u", 0)) is None


def test_a_directory_that_breaks_leaves_the_other_at_work(
    disk: SimDisk, both: LogDirectories
) -> None:
    logs = [both.create(name, TOPIC_ID) for name in PARTITIONS[:2]]
    disk.faults.fail_next("make_dir", "/a/*", error=errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        both.create(PARTITIONS[2], TOPIC_ID)
    assert [log.offline is None for log in logs] == [False, True]
    fill(logs[1], 2)
    assert offsets(logs[1]) == [0, 1]
    assert both.create(PARTITIONS[3], TOPIC_ID).directory.startswith("/b")


def test_a_full_directory_is_not_a_broken_one(disk: SimDisk, both: LogDirectories) -> None:
    disk.faults.fail_next("make_dir", "*", error=errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        both.create(PARTITIONS[0], TOPIC_ID)
    assert all(directory.offline is None for directory in both.directories)
    assert both.create(PARTITIONS[0], TOPIC_ID).end_offset == 0


def test_without_a_directory_that_works_nothing_is_created(both: LogDirectories) -> None:
    for directory in both.directories:
        directory.fail(OSError(errno.EIO, "gone"))
    with pytest.raises(StorageError, match="every log directory"):
        both.create(PARTITIONS[0], TOPIC_ID)
    with pytest.raises(StorageError, match="no log directory"):
        LogDirectories([], {"/a": OSError(errno.EIO, "gone")})


def test_closing_closes_every_directory(disk: SimDisk, both: LogDirectories) -> None:
    both.close(broker_epoch=3)
    clean = [path for path in disk.files() if path.endswith(".kafka_cleanshutdown")]
    assert clean == ["/a/.kafka_cleanshutdown", "/b/.kafka_cleanshutdown"]
