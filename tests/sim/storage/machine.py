"""One log directory on a simulated disk: how it is opened, how it dies, what it must come back as.

A process crash loses nothing that was written. A power loss loses what was not flushed, from some
batch on. What was in progress when the process died may have happened, or not.
"""

import errno
from dataclasses import dataclass, field

from ottla.errors import CorruptLog, LogOffline
from ottla.protocol.batch import crc_is_valid, read_header
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.directory import checkpoint_files
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.directory_opening import open_directory
from ottla.storage.log.config import LogConfig
from ottla.storage.log.log import Log
from tests.sim.seams.clock import SimClock
from tests.sim.seams.disk import SimDisk
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.faults import Faults, Operation
from tests.sim.seams.files import SimFiles
from tests.sim.storage.checks import check_everything
from tests.sim.storage.model import LogModel, ModelBatch

ROOT = "/logs"
PARTITION = TopicPartition("t", 0)
TOPIC_ID = Uuid(b"\1" * 16)
PARTITION_PATH = f"{ROOT}/{PARTITION}"
CAPACITY_BYTES = 1 << 30


class Killed(BaseException):
    """The process dies here, in the middle of what it was doing."""


class KillSwitch:
    """Ends the process before one of its next operations on the disk."""

    def __init__(self, faults: Faults) -> None:
        self._error_for = faults.error_for
        self._spared: int | None = None
        setattr(faults, "error_for", self.error_for)  # noqa: B010 - the disk asks here first

    def arm(self, spared: int) -> None:
        self._spared = spared

    def disarm(self) -> None:
        self._spared = None

    def error_for(self, operation: Operation, path: str) -> int:
        if self._spared is not None:
            if self._spared == 0:
                self._spared = None
                raise Killed
            self._spared -= 1
        return self._error_for(operation, path)


@dataclass(slots=True)
class InProgress:
    """What a process that died may or may not have done."""

    appending: list[ModelBatch] = field(default_factory=list)
    cutting_to: int | None = None
    trimming_to: int | None = None
    restarting_at: int | None = None


class Machine:
    """See the module. `log` is the log in use, `model` what it must be."""

    def __init__(self, seed: int, history: list[str]) -> None:
        self.entropy = SimEntropy(seed).fork("workload")
        self.disk = SimDisk(SimEntropy(seed).fork("disk"), CAPACITY_BYTES)
        self.kill_switch = KillSwitch(self.disk.faults)
        self.clock = SimClock()
        self.model = LogModel()
        self.in_progress = InProgress()
        # Starts that were refused for want of space, though half of the work was done.
        self.half_trimmed: set[int] = set()
        self.history = history
        # The high watermark, and that of the last checkpoint that has it.
        self.high_watermark = 0
        self.saved_high_watermark = 0
        self.config = LogConfig(
            segment_bytes=self.entropy.pick((700, 1500, 4000)),
            segment_ms=self.entropy.pick((1 << 40, 3000)),
            index_interval_bytes=self.entropy.pick((1, 100, 300)),
            tail_batches_max=self.entropy.pick((2, 8, 1024)),
        )
        self._open_files_max = self.entropy.pick((2, 512))
        self.files: SimFiles = self.disk.process()
        self.files.make_dir(ROOT)
        self.files.sync_dir("/")
        self.directory: LogDirectory = self._open_directory()
        self.log: Log = self.directory.create(PARTITION, TOPIC_ID)

    @property
    def now_ms(self) -> int:
        return self.clock.wall_ms()

    def note(self, event: str) -> None:
        self.history.append(event)

    # Dying and coming back

    def stop_cleanly(self) -> None:
        was_online = self.log.offline is None
        self.directory.close(broker_epoch=7)
        if was_online:
            self.model.flush_to(self.model.end_offset)
        marker = f"{ROOT}/{checkpoint_files.CLEAN_SHUTDOWN}"
        assert (marker in self.disk.files()) == was_online, "the marker of a clean stop lies"

    def crash(self) -> None:
        self.files.crash()

    def lose_power(self) -> None:
        self.disk.power_loss()

    def come_back(self, *, lost_power: bool, flipped: ModelBatch | None = None) -> None:
        """Opens the directory again and checks all of it against the model."""
        self.disk.faults.clear()
        high_watermark = self._offset_on_disk(checkpoint_files.HIGH_WATERMARKS)
        # Rot in the page cache goes with the power, and would puzzle the model.
        if flipped is None and self.entropy.chance(0.1) and self._die_while_opening():
            lost_power = True
            # The first start may have lowered it, and noted the damage for this boot only.
            high_watermark = self._offset_on_disk(checkpoint_files.HIGH_WATERMARKS)
            self.saved_high_watermark = min(self.saved_high_watermark, high_watermark)
        if lost_power and self.model.misled:
            raise BeyondRepair
        self.files = self.disk.process()
        self.directory = self._open_directory()
        unusable = self.directory.unusable.get(PARTITION)
        if unusable is not None:
            raise unusable
        self._claim(lost_power=lost_power)
        self.log = self.directory.logs[PARTITION]
        self._check_high_watermark(high_watermark)
        self._reconcile(lost_power=lost_power, flipped=flipped)
        self.in_progress = InProgress()
        check_everything(self.log, self.model, self.entropy)

    def _check_high_watermark(self, on_disk: int) -> None:
        """It is what a checkpoint said; a log that ends before it is reported as damaged."""
        cuts = self.in_progress.cutting_to
        allowed = (
            self.saved_high_watermark if cuts is None else min(self.saved_high_watermark, cuts)
        )
        assert allowed <= on_disk <= self.high_watermark, (
            f"high watermark {on_disk}, though {self.saved_high_watermark} was saved"
        )
        if PARTITION in self.directory.recoveries:
            recovery = self.directory.recoveries[PARTITION]
            if self.log.end_offset < on_disk:
                assert recovery.cut_because, f"it lost committed records: {recovery}"
                assert not recovery.is_torn_write
                self.note("  damaged")
            if self.entropy.chance(0.7):
                self.directory.damage_recorded()
        self.high_watermark = self.directory.high_watermark(PARTITION)
        assert self.high_watermark == min(on_disk, self.log.end_offset)
        self.saved_high_watermark = 0

    def _claim(self, *, lost_power: bool) -> None:
        """As a broker does, which knows the topic: a directory has its id, or is made anew."""
        directory = self.directory
        assert directory.topic_ids.get(PARTITION, TOPIC_ID) == TOPIC_ID
        if PARTITION not in directory.logs:
            assert lost_power, "a process that dies takes no directory with it"
            assert self.model.flushed == 0, "a flushed log was lost"
            directory.create(PARTITION, TOPIC_ID)
        elif PARTITION not in directory.topic_ids:
            assert directory.logs[PARTITION].recovery_point == 0, "a flushed log lost its topic"
            directory.write_topic_id(PARTITION, TOPIC_ID)

    def _die_while_opening(self) -> bool:
        """Whether the power was lost, too."""
        self.kill_switch.arm(self.entropy.below(60))
        self.files = self.disk.process()
        try:
            self._open_directory()
        except Killed:
            self.note("  killed while opening")
        self.kill_switch.disarm()
        self.crash()
        if self.entropy.chance(0.5):
            self.note("  and the power was lost")
            self.lose_power()
            return True
        return False

    def _open_directory(self) -> LogDirectory:
        directory = open_directory(
            self.files,
            ROOT,
            cluster_id="c",
            node_id=1,
            directory_id=Uuid(b"\2" * 16),
            config_of=lambda _: self.config,
            clock=self.clock,
            open_files_max=self._open_files_max,
        )
        directory.high_watermark_of = lambda _: self.high_watermark
        return directory

    # What it must have come back as

    def _reconcile(self, *, lost_power: bool, flipped: ModelBatch | None) -> None:
        model, log = self.model, self.log
        if log.start_offset == self.in_progress.restarting_at:
            model.begin_again(log.start_offset)
        if log.start_offset in (self.in_progress.trimming_to, *self.half_trimmed):
            model.trim(log.start_offset)
        self.half_trimmed.clear()
        end_offset_min = model.flushed if lost_power else model.end_offset
        for batch in self.in_progress.appending:
            if log.end_offset >= batch.header.next_offset:
                model.append(batch)
        if self.in_progress.cutting_to is not None:
            end_offset_min = min(end_offset_min, self.in_progress.cutting_to)
        if flipped is not None:
            end_offset = model.boundary_at_or_before(flipped.header.base_offset)
            end_offset_min = min(end_offset_min, end_offset)
        # Deliberate trimming outlives what it was to leave over.
        restarted = end_offset_min < model.start_offset == log.end_offset
        if restarted and log.size_bytes == 0:
            model.restart(model.start_offset)
        else:
            low = max(end_offset_min, 0)
            allowed = model.boundaries(low, model.end_offset)
            assert log.end_offset in allowed, (
                f"the log ends at {log.end_offset}, which is none of {allowed}"
            )
            is_before_start = flipped and flipped.header.next_offset <= log.start_offset
            if flipped and not is_before_start and log.end_offset > flipped.header.base_offset:
                raise AssertionError(f"a damaged batch is served: {flipped.header}")
            model.cut(log.end_offset)
        if lost_power:
            # What was read back after it lies on the medium.
            model.in_doubt = False
            model.flushed = model.end_offset
        model.epochs.truncate_end(model.end_offset)
        model.epochs.truncate_start(model.start_offset)
        model.rebuilt_from(log.segments[0].base_offset)

    # Damage

    def durable_recovery_point(self) -> int:
        return self._offset_on_disk(checkpoint_files.RECOVERY_POINTS)

    def _offset_on_disk(self, name: str) -> int:
        for line in self.disk.files().get(f"{ROOT}/{name}", b"").decode().splitlines()[2:]:
            topic, _, offset = line.split(" ")
            if topic == PARTITION.topic:
                return int(offset)
        return 0

    def flip_beyond(self, offset: int) -> ModelBatch | None:
        """Damages a batch at or beyond `offset` that is whole on disk, where its CRC can tell."""
        files = self.disk.files()
        places = [
            (batch, path, position)
            for batch, path, position in self._places(files)
            if batch.header.base_offset >= max(offset, self.model.start_offset)
        ]
        if not places:
            return None
        batch, path, position = self.entropy.pick(places)
        # Base offset and leader epoch lie outside of the CRC.
        within = self.entropy.pick((*range(8, 12), *range(16, batch.header.size)))
        self.disk.flip_bit(path, position + within)
        return batch

    def _places(self, files: dict[str, bytes]) -> list[tuple[ModelBatch, str, int]]:
        """Where the model's batches lie, as far as they do."""
        found = []
        for path, content in files.items():
            if path.startswith(PARTITION_PATH) and path.endswith(".log"):
                base_offset = int(path.rpartition("/")[2].removesuffix(".log"))
                position = 0
                for batch in self.model.batches:
                    if batch.header.base_offset >= base_offset and content.startswith(
                        batch.content, position
                    ):
                        found.append((batch, path, position))
                        position += batch.header.size
        return found

    def rot_what_was_flushed(self) -> None:
        """Damages a flushed batch or an index. Then the log may refuse, but it serves no garbage.

        A consumer checks a batch's CRC: one that is served damaged must not pass for whole.
        """
        self.directory.close(broker_epoch=7)
        self.crash()
        try:
            flipped = self._flip_batch_or_index()
        except FileNotFoundError:
            return
        self.note(f"rot in {flipped}")
        self.files = self.disk.process()
        self.directory = self._open_directory()
        log = self.directory.logs.get(PARTITION)
        if log is None:
            assert isinstance(self.directory.unusable[PARTITION], CorruptLog)
            return
        for batch in self.model.from_offset(self.model.start_offset):
            try:
                found = log.read(max(batch.header.base_offset, log.start_offset), bytes_max=1)
            except LogOffline:
                return
            assert found is not None, f"nothing is served at {batch.header.base_offset}"
            served = found.read()
            whole = crc_is_valid(served, read_header(served))
            assert served == batch.content or not whole, f"garbage at {batch.header.base_offset}"

    def _flip_batch_or_index(self) -> str:
        if self.entropy.chance(0.5):
            path, position = self.disk.flip_bit(f"{PARTITION_PATH}/*.index")
            return f"{path}, byte {position}"
        flipped = self.flip_beyond(0)
        return f"the batch at {flipped.header.base_offset}" if flipped else "nothing"

    # A full disk

    def fill(self, left_bytes: int) -> None:
        used = CAPACITY_BYTES - self.files.free_bytes("/")
        self.disk.resize(used + left_bytes)

    def free(self) -> None:
        self.disk.resize(CAPACITY_BYTES)


class BeyondRepair(Exception):
    """A sync failed, a later one did not, and the power was lost: what the first was to save may
    be gone, and no log can know."""


def is_full(error: OSError) -> bool:
    return error.errno == errno.ENOSPC
