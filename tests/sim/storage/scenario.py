"""What happens to one log under one seed: a random row of operations, each checked."""

from collections.abc import Callable

from ottla.errors import LogOffline
from ottla.protocol.batch import read_header
from ottla.storage.directory.checkpoint_task import Checkpoint
from ottla.storage.log import retention
from ottla.storage.log.flush import Flush
from tests.sim.storage import checks
from tests.sim.storage.appends import Appending
from tests.sim.storage.machine import (
    PARTITION_PATH,
    BeyondRepair,
    InProgress,
    Killed,
    is_full,
)

OPERATIONS_PER_SEED = 80
KILL_RATE = 0.04


class Scenario(Appending):
    """Each public method is one operation; how often it comes is in the table below."""

    def __init__(self, seed: int, history: list[str]) -> None:
        super().__init__(seed, history)
        self._to_purge: list[str] = []
        self._flush: Flush | None = None
        self._flush_covers = 0
        self._flush_has_run = False
        self._trim: Checkpoint | None = None
        self._trim_has_run = False

    def run(self, operations: int = OPERATIONS_PER_SEED) -> str:
        """Does that many operations; the hash of all that reached the disk."""
        try:
            for _ in range(operations):
                self.clock.advance(ms=self.entropy.below(200))
                self._step(self.entropy.pick(_LOT))
            self._end_faults()
            self.power_loss()
            self.rot_what_was_flushed()
        except BeyondRepair:
            self.note("beyond repair")
        return self.disk.trace_hash()

    def _step(self, operation: Callable[["Scenario"], None]) -> None:
        if self.log.offline is not None:
            self._stays_offline()
            operation = self.entropy.pick((Scenario.clean_stop, Scenario.crash_, _POWER_LOSS))
        self.note(f"{operation.__name__} at [{self.model.start_offset}, {self.model.end_offset})")
        if operation in _MORTAL and self.entropy.chance(KILL_RATE):
            self.kill_switch.arm(self.entropy.below(25))
        try:
            operation(self)
        except Killed:
            self.note("  killed")
            self._die_and_come_back(lose_power=self.entropy.chance(0.5))
        finally:
            self.kill_switch.disarm()
        self.in_progress = InProgress()
        self._follow_plan()

    # Making durable

    def flush(self) -> None:
        self.unless_full(lambda: self.log.flush())
        if self.log.recovery_point == self.log.end_offset:
            self.model.flush_to(self.model.end_offset)

    def flush_in_a_thread(self) -> None:
        """Begins, runs or ends a flush, whichever is next: other operations come in between."""
        if self._flush is None:
            self._flush = self.unless_full(self.log.begin_flush)
            self._flush_covers = self.model.end_offset
            self._flush_has_run = False
        elif not self._flush_has_run:
            run = self._flush.run
            self._flush_has_run = bool(self.unless_full(lambda: run() is None))
            if not self._flush_has_run:
                self._flush = None
        else:
            self.log.end_flush(self._flush)
            self.model.flush_to(self._flush_covers)
            assert self.log.messages_unflushed >= 0
            self._flush = None

    def roll(self) -> None:
        self.unless_full(lambda: self.log.roll())

    def checkpoint(self) -> None:
        self.unless_full(self.directory.checkpoint)

    def checkpoint_high_watermark(self) -> None:
        """It rises, and is checkpointed."""
        span = self.model.end_offset - self.high_watermark
        self.high_watermark += max(0, self.entropy.below(span + 1))
        checkpoint = self.directory.begin_checkpoint()

        def run() -> None:
            checkpoint.run()
            self.directory.end_checkpoint(checkpoint)
            self.saved_high_watermark = self.high_watermark

        self.unless_full(run)

    # Shrinking

    def truncate(self) -> None:
        model, bases = self.model, [segment.base_offset for segment in self.log.segments]
        span = model.end_offset - bases[0]
        offset = bases[0] + self.entropy.below(span + 1)
        if self.entropy.chance(0.5):
            offset = max(offset, model.end_offset - 10)
        if self.entropy.chance(0.1):
            offset = max(0, bases[0] - self.entropy.below(5))
        if offset >= model.end_offset:
            return
        self.note(f"  to {offset} of {model.end_offset}")
        if offset >= bases[0]:
            base = max(base for base in bases if base <= offset)
            end_offset = max(base, model.boundary_at_or_before(offset))
        else:
            self.kill_switch.disarm()
            end_offset = offset
        self.in_progress.cutting_to = end_offset
        # What is lost on the way is lost for good: the cut has begun.
        model.flushed = min(model.flushed, end_offset)
        self._flush_covers = min(self._flush_covers, end_offset)
        try:
            self.log.truncate(offset)
        except LogOffline:
            if self.is_full:
                self._die_and_come_back(lose_power=self.entropy.chance(0.5))
                return
            raise
        except OSError as error:
            if not is_full(error):
                raise
            return
        model.cut(end_offset)
        self._lower_high_watermark()
        model.rebuilt_from(self.log.segments[0].base_offset)
        assert self.log.end_offset == end_offset
        checks.settle_producers(self.log, model)
        checks.check_epochs(self.log, model)

    def _lower_high_watermark(self) -> None:
        self.high_watermark = min(self.high_watermark, self.model.end_offset)
        self.saved_high_watermark = min(self.saved_high_watermark, self.model.end_offset)

    def restart_at(self) -> None:
        """The leader has nothing left of what this log has, and would have next."""
        offset = self.model.end_offset + self.entropy.between(1, 60)
        self.note(f"  {offset}")
        self.in_progress.restarting_at = offset
        # What is lost on the way is lost for good: the restart has begun.
        self.model.flushed = min(self.model.flushed, self.model.start_offset)
        self._flush_covers = 0
        try:
            self.log.restart_at(offset)
        except (LogOffline, OSError) as error:
            if not self.is_full or (isinstance(error, OSError) and not is_full(error)):
                raise
            self._die_and_come_back(lose_power=self.entropy.chance(0.5))
            return
        self.model.begin_again(offset)
        self.half_trimmed.clear()
        checks.check_everything(self.log, self.model, self.entropy)
        # The fetch that follows may begin within a batch.
        self.in_progress = InProgress()
        if self.entropy.chance(0.5):
            self.flush_in_a_thread()
        if self.entropy.chance(0.7):
            self.append_replicated()

    def advance_start(self) -> None:
        span = self.model.end_offset - self.model.start_offset
        offset = self.model.start_offset + self.entropy.below(span // 3 + 2)
        if not self.model.start_offset < offset <= self.model.end_offset:
            return
        self.in_progress.trimming_to = offset
        self.unless_full(lambda: self.log.advance_start(offset))
        self._accept_start(offset)

    def drop_segments(self) -> None:
        bases = [segment.base_offset for segment in self.log.segments]
        count = self.entropy.below(len(bases))
        start_offset = max(self.model.start_offset, bases[count])
        if count:
            self.in_progress.trimming_to = start_offset
        self._to_purge += self.unless_full(lambda: self.log.drop_segments(count)) or []
        self._accept_start(start_offset)

    def trim_in_a_thread(self) -> None:
        """Begins, runs or ends a checkpoint that moves the start; segments go at its end."""
        if self._trim is None:
            bases = [segment.base_offset for segment in self.log.segments]
            offset = self.entropy.pick((*bases, self.model.end_offset))
            if offset <= self.model.start_offset:
                return
            self.half_trimmed.add(offset)
            self.log.plan_start(offset)
            self._trim = self.directory.begin_checkpoint()
            self._trim_has_run = False
        elif not self._trim_has_run:
            try:
                self._trim.run()
            except OSError as error:
                if not (self.is_full and is_full(error)):
                    raise
                self.note("  no room")
                self.log.planned_start = None
                self._trim = None
            self._trim_has_run = True
        else:
            self.directory.end_checkpoint(self._trim)
            self._trim = None
            self._follow_plan()
            start_offset = self.log.start_offset
            count = retention.below_start(self.log.summaries(), log_start_offset=start_offset)
            self._to_purge += self.log.drop_segments(count)
            assert self.log.start_offset == start_offset

    def _follow_plan(self) -> None:
        """Any checkpoint puts a planned start in force."""
        start_offset = self.log.start_offset
        if self.log.offline is None and start_offset != self.model.start_offset:
            assert start_offset in self.half_trimmed
            self.model.trim(start_offset)

    def _accept_start(self, offset: int) -> None:
        if self.log.start_offset != self.model.start_offset:
            assert self.log.start_offset in (offset, *self.half_trimmed)
            self.model.trim(self.log.start_offset)
        elif offset > self.model.start_offset:
            self.half_trimmed.add(offset)
        assert self.log.start_offset == self.model.start_offset

    def purge(self) -> None:
        for path in self._to_purge:
            self.files.remove(path)
        self._to_purge.clear()

    # Reading

    def read(self) -> None:
        span = self.model.end_offset - self.model.start_offset
        for _ in range(3):
            offset = self.model.start_offset + self.entropy.below(span + 1)
            checks.check_read(self.log, self.model, offset, self.entropy)

    def look_up_times(self) -> None:
        checks.check_times(self.log, self.model, self.entropy)

    # Failing

    def fill_disk(self) -> None:
        self.is_full = True
        self.fill(self.entropy.pick((0, 50, 300, 1000)))

    def free_disk(self) -> None:
        self.is_full = False
        self.free()

    def write_partly(self) -> None:
        """The disk takes a part of a batch, and then maybe nothing more."""
        self.disk.faults.shorten_next_write(f"{PARTITION_PATH}/*.log", self.entropy.below(100) + 1)
        if self.entropy.chance(0.6):
            self.is_full = True
            self.disk.faults.fail_next_write(f"{PARTITION_PATH}/*.log", after=1)
        self.append_plain()
        self.disk.faults.clear()
        self.free_disk()

    def fail_write(self) -> None:
        self.free_disk()
        self.disk.faults.fail_next_write(f"{PARTITION_PATH}/*.log", error=5)
        try:
            self.append_plain()
        except LogOffline:
            assert self.log.offline is not None
        else:
            raise AssertionError("a batch was appended though its write failed")

    def fail_sync(self) -> None:
        self.disk.faults.fail_next("sync", f"{PARTITION_PATH}/*", after=self.entropy.below(2))
        try:
            self.flush()
        except LogOffline:
            assert self.log.offline is not None
            self.model.in_doubt = True
        self.disk.faults.clear()

    def fail_read(self) -> None:
        self.disk.faults.fail_next_read(f"{PARTITION_PATH}/*")
        try:
            self.read()
        except (LogOffline, OSError):
            self.disk.faults.clear()
        self.disk.faults.clear()

    def _stays_offline(self) -> None:
        """Whatever failed is not tried again behind our backs."""
        batch = self.traffic.plain(self.now_ms)
        for use in (
            lambda: self.log.append(batch, read_header(batch), leader_epoch=self.leader_epoch),
            lambda: self.log.read(self.log.start_offset, bytes_max=1),
            lambda: self.log.flush(),
        ):
            try:
                use()
            except LogOffline:
                continue
            raise AssertionError("a log that is offline was used")

    # Dying

    def clean_stop(self) -> None:
        self._end_faults()
        self.stop_cleanly()
        lose_power = self.entropy.chance(0.3)
        self._die_and_come_back(lose_power=lose_power)

    def crash_(self) -> None:
        self._die_and_come_back(lose_power=False)

    def power_loss(self) -> None:
        self._die_and_come_back(lose_power=True)

    def flip_a_bit(self) -> None:
        self._die_and_come_back(lose_power=self.entropy.chance(0.5), flip=True)

    def _die_and_come_back(self, *, lose_power: bool, flip: bool = False) -> None:
        self.kill_switch.disarm()
        self._end_faults()
        self._flush = self._trim = None
        self._to_purge.clear()
        self.crash()
        if lose_power:
            self.note("  the power was lost")
            self.lose_power()
        flipped = self.flip_beyond(self.durable_recovery_point()) if flip else None
        if flipped is not None:
            self.note(f"  a bit flipped in the batch at {flipped.header.base_offset}")
        self.come_back(lost_power=lose_power, flipped=flipped)
        self.leader_epoch = max(self.leader_epoch, *(e.epoch for e in self.log.epochs.entries), 0)

    def _end_faults(self) -> None:
        self.disk.faults.clear()
        self.free_disk()


_POWER_LOSS = Scenario.power_loss
_WEIGHTS: dict[Callable[[Scenario], None], int] = {
    Scenario.append_plain: 16,
    Scenario.append_idempotent: 12,
    Scenario.append_transactional: 10,
    Scenario.end_transaction: 6,
    Scenario.append_replicated: 6,
    Scenario.append_again: 4,
    Scenario.append_out_of_order: 1,
    Scenario.new_leader: 2,
    Scenario.flush: 5,
    Scenario.flush_in_a_thread: 9,
    Scenario.roll: 3,
    Scenario.checkpoint: 4,
    Scenario.checkpoint_high_watermark: 3,
    Scenario.truncate: 3,
    Scenario.restart_at: 1,
    Scenario.advance_start: 2,
    Scenario.drop_segments: 1,
    Scenario.trim_in_a_thread: 9,
    Scenario.purge: 1,
    Scenario.read: 4,
    Scenario.look_up_times: 2,
    Scenario.fill_disk: 1,
    Scenario.free_disk: 2,
    Scenario.write_partly: 2,
    Scenario.fail_write: 1,
    Scenario.fail_sync: 1,
    Scenario.fail_read: 1,
    Scenario.clean_stop: 2,
    Scenario.crash_: 2,
    Scenario.power_loss: 3,
    Scenario.flip_a_bit: 1,
}
_LOT = tuple(operation for operation, weight in _WEIGHTS.items() for _ in range(weight))
_MORTAL = frozenset(
    {
        Scenario.append_plain,
        Scenario.append_replicated,
        Scenario.append_transactional,
        Scenario.end_transaction,
        Scenario.flush,
        Scenario.roll,
        Scenario.checkpoint,
        Scenario.checkpoint_high_watermark,
        Scenario.truncate,
        Scenario.restart_at,
        Scenario.advance_start,
        Scenario.drop_segments,
        Scenario.trim_in_a_thread,
    }
)
