"""A broker with two log directories: the disk under one fails, the logs of the other do not."""

import errno

import pytest

from ottla.errors import LogOffline, StorageError
from ottla.protocol.batch import Record, build, read_header
from ottla.protocol.primitives import Uuid
from ottla.storage.directory.checkpoint_files import TopicPartition
from ottla.storage.directory.directories import LogDirectories
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.directory_opening import open_directory
from ottla.storage.log.config import LogConfig
from tests.sim.seams.clock import SimClock
from tests.sim.seams.disk import SimDisk
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.faults import Operation
from tests.sim.seams.files import SimFiles

FAILING, SOUND = "/failing", "/sound"
PARTITIONS = tuple(TopicPartition("t", index) for index in range(6))
OPERATIONS: tuple[Operation, ...] = ("write", "sync", "create", "truncate", "rename")
TOPIC_ID = Uuid(b"\1" * 16)
NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=100)


class Broker:
    """Two directories, and for each partition what was written and how much of it was flushed."""

    def __init__(self, seed: int) -> None:
        self.entropy = SimEntropy(seed).fork("broker")
        self.disk = SimDisk(SimEntropy(seed).fork("disk"))
        self.written: dict[TopicPartition, list[bytes]] = {name: [] for name in PARTITIONS}
        self.flushed: dict[TopicPartition, int] = dict.fromkeys(PARTITIONS, 0)
        self.homes: dict[TopicPartition, str] = {}
        files = self.disk.process()
        for path in (FAILING, SOUND):
            files.make_dir(path)
        files.sync_dir("/")
        self.directories = self._open(files)
        for name in PARTITIONS:
            log = self.directories.create(name, TOPIC_ID)
            self.homes[name] = log.directory.rpartition("/")[0]

    def restart_after_power_loss(self) -> None:
        self.disk.faults.clear()
        self.disk.power_loss()
        self.directories = self._open(self.disk.process())
        for name in PARTITIONS:
            if self.directories.get(name) is None:
                assert not self.flushed[name]
                self.directories.create(name, TOPIC_ID)
            self.directories.write_topic_id(name, TOPIC_ID)

    def write(self, count: int) -> set[TopicPartition]:
        """Appends and flushes here and there; the partitions that were found offline."""
        refused = set()
        for _ in range(count):
            name = self.entropy.pick(PARTITIONS)
            try:
                self._write_one(name)
            except LogOffline:
                refused.add(name)
        return refused

    def _write_one(self, name: TopicPartition) -> None:
        log = self.directories.get(name)
        assert log is not None
        batch = build([Record(0, NOW_MS, b"k", self.entropy.token(80))])
        appended = log.append(batch, read_header(batch), leader_epoch=0)
        assert appended.first_offset == len(self.written[name])
        self.written[name].append(bytes(batch[61:]))
        if self.entropy.chance(0.2):
            log.flush()
            self.flushed[name] = len(self.written[name])

    def check(self, name: TopicPartition) -> None:
        """The log is what was written, up to somewhere at or beyond what was flushed."""
        log = self.directories.get(name)
        assert log is not None
        assert self.flushed[name] <= log.end_offset <= len(self.written[name])
        for offset in range(log.end_offset):
            found = log.read(offset, bytes_max=1)
            assert found is not None
            assert found.read()[61:] == self.written[name][offset]
        del self.written[name][log.end_offset :]

    def _open(self, files: SimFiles) -> LogDirectories:
        return LogDirectories([_open_one(files, path) for path in (FAILING, SOUND)], {})


def _open_one(files: SimFiles, path: str) -> LogDirectory:
    return open_directory(
        files,
        path,
        cluster_id="c",
        node_id=1,
        directory_id=Uuid(path.encode().ljust(16, b"\0")),
        config_of=lambda _: CONFIG,
        clock=SimClock(),
    )


@pytest.mark.seeds(100)
def test_a_directory_whose_disk_fails_takes_no_other_with_it(seeds: range) -> None:
    for seed in seeds:
        broker = Broker(seed)
        assert not broker.write(60)
        operation = broker.entropy.pick(OPERATIONS)
        for _ in range(40):
            broker.disk.faults.fail_next(operation, f"{FAILING}/*", error=errno.EIO)
        refused = broker.write(60)
        assert {broker.homes[name] for name in refused} <= {FAILING}, f"seed {seed}"
        for name in PARTITIONS:
            if broker.homes[name] == SOUND:
                broker.check(name)
        broker.restart_after_power_loss()
        for name in PARTITIONS:
            broker.check(name)
        assert not broker.write(20), f"seed {seed}"


def test_new_logs_go_where_the_disk_works_and_a_clean_stop_marks_that_alone() -> None:
    broker = Broker(0)
    failing, sound = broker.directories.directories
    failing.fail(OSError(errno.EIO, "gone"))
    added = TopicPartition("u", 0)
    log = broker.directories.create(added, Uuid(b"\3" * 16))
    assert log.directory.startswith(SOUND)
    broker.directories.close(broker_epoch=3)
    stopped_cleanly = [
        path for path in broker.disk.files() if path.endswith("/.kafka_cleanshutdown")
    ]
    assert stopped_cleanly == [f"{SOUND}/.kafka_cleanshutdown"]
    assert failing.offline is not None
    assert sound.offline is None


def test_a_broker_needs_one_directory_at_least() -> None:
    with pytest.raises(StorageError, match="no log directory"):
        LogDirectories([], {FAILING: OSError(errno.EIO, "gone")})
