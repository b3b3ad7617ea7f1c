"""The log of one partition: appends, flushes, truncation, and removal of segments.

A log has one owner and awaits nothing. A PeerError (a client's fault) changes nothing, and neither
does the OSError of a full disk. After any other disk fault the log is offline: it raises LogOffline
until it is opened again.
"""

from collections.abc import Callable, Sequence

from ottla.errors import LogOffline, OffsetOutOfRange
from ottla.seams.clock import Clock
from ottla.storage.compaction import segment_swap
from ottla.storage.log import retention
from ottla.storage.log.appending import AppendableLog
from ottla.storage.log.config import LogConfig
from ottla.storage.log.file_pool import FilePool
from ottla.storage.log.flush import Flush
from ottla.storage.log.leader_epoch_file import NoRoomForEpochs
from ottla.storage.log.segment import Segment
from ottla.storage.log.state import LogState
from ottla.storage.producers import snapshot_files
from ottla.storage.producers.state import ProducerStates

DELETED = ".deleted"


class Log(AppendableLog):
    """Opened by `recovery.open_log`."""

    def __init__(
        self,
        pool: FilePool,
        directory: str,
        config: LogConfig,
        state: LogState,
        *,
        clock: Clock,
        checkpoint: Callable[[], None],
    ) -> None:
        """`checkpoint` makes start offset and recovery point durable before it returns."""
        super().__init__(pool, directory, config, state, clock=clock, checkpoint=checkpoint)
        # The log start offset that the next checkpoint puts in force.
        self.planned_start: int | None = None
        # The offset to which the log is being truncated.
        self.planned_end: int | None = None
        self._last_flush_ms = self._steady_ms()
        # The cleaner offset: the log is compacted below it.
        self.cleaned_offset = state.cleaned_offset

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(self._segments)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    # Making durable

    def flush_is_due(self) -> bool:
        return retention.flush_due(
            self.messages_unflushed,
            self._last_flush_ms,
            self._steady_ms(),
            self.config.flush_messages,
            self.config.flush_ms,
        )

    @property
    def has_unflushed_segments(self) -> bool:
        """Whether recovery would have to scan closed segments."""
        return self.recovery_point < self._segments[-1].base_offset

    def flush(self) -> None:
        """Makes all records of the log durable."""
        flush = self.begin_flush()
        try:
            flush.run()
        except NoRoomForEpochs:
            raise
        except OSError as error:
            self.fail(error)
        self.end_flush(flush)

    def begin_flush(self) -> Flush:
        """The next flush. A thread may call its `run`; then `end_flush` or `fail` follows.

        Nothing was done if `run` raises NoRoomForEpochs.
        """
        self._require_online()
        try:
            unsynced = tuple(
                item
                for index, segment in enumerate(self._segments)
                if self._end_of(index) >= self.recovery_point
                for item in segment.unsynced()
            )
        except OSError as error:
            self._give_up_unless_full(error)
        return Flush(
            files=self._pool.files,
            directory=self.directory,
            end_offset=self.end_offset,
            truncations=self.truncations,
            messages=self.messages_unflushed,
            epochs=self._epoch_file.begin_save_if_new(),
            unsynced=unsynced,
            # A file that was never synced may have a new name.
            has_new_names=any(item.owner.synced_bytes <= 0 for item in unsynced),
            first_sync=self.first_sync,
        )

    def end_flush(self, flush: Flush) -> None:
        """The flush has run: the recovery point moves to its end offset."""
        if flush.truncations != self.truncations:
            return  # the log was truncated since, and may have been appended to again
        if flush.epochs is not None:
            self._epoch_file.end_save(flush.epochs)
        for item in flush.unsynced:
            item.owner.synced_bytes = item.size_bytes
        if flush.first_sync is self.first_sync:
            self.first_sync = None
        self.recovery_point = min(max(self.recovery_point, flush.end_offset), self.end_offset)
        self.messages_unflushed = max(0, self.messages_unflushed - flush.messages)
        self._last_flush_ms = self._steady_ms()

    def close(self) -> None:
        """Closes the log cleanly: flushes it, seals the active segment, writes a snapshot."""
        if self.offline is None:
            with self._disk_faults():
                self._segments[-1].seal()
                snapshot_files.write_snapshot(
                    self._pool.files, self.directory, self.end_offset, self.producers
                )
            self.flush()
        self.abandon(self.offline)

    # Shrinking

    def truncate(self, offset: int) -> None:
        """Removes the records at or beyond `offset`, durably.

        A batch across `offset` is removed as a whole, so the log may end before it. An epoch that
        starts at the log end offset is removed even if no record is (KAFKA-10706).
        """
        self._require_online()
        if offset >= self.end_offset:
            self._epoch_file.cut(self.end_offset)
            return
        flushed = self.recovery_point
        kept = self._segments[self._segment_index(offset)]
        self.cleaned_offset = min(self.cleaned_offset, offset)
        self.planned_start = None
        with self._disk_faults():
            self.planned_end = min(offset, kept.end_before(offset))
        try:
            # A recovery point above the cut would cover records that are appended later.
            self._save(recovery_point=min(flushed, offset, kept.base_offset))
        finally:
            self.planned_end = None
        self.truncations += 1
        with self._disk_faults():
            if offset < self._segments[0].base_offset:
                self._replace_all(offset)
            else:
                self._cut(offset)
            self.recovery_point = min(flushed, self.end_offset)
            self._epoch_file.cut(self.end_offset)
            self.producers = snapshot_files.rebuild_producers(
                self._pool.files,
                self.directory,
                self._segments,
                min(self.start_offset, self.end_offset),
                self.end_offset,
                trusted_offset=self.end_offset,
                producers_max=self.config.producers_max,
            )
            self._pool.files.sync_dir(self.directory)
            if self.start_offset > self.end_offset:
                self._save(start_offset=self.end_offset)
        self._forget_positions()
        self.messages_unflushed = min(
            self.messages_unflushed, self.end_offset - self.recovery_point
        )

    def restart_at(self, offset: int) -> None:
        """Removes all records and continues at `offset`, above the log end offset. Durable.

        Producers and leader epochs are forgotten. A follower does this if its leader has no
        record below `offset` any more.
        """
        self._require_online()
        if offset <= self.end_offset:
            raise ValueError(f"{offset} is not above log end offset {self.end_offset}")
        self.planned_start = None
        # From here on, opening the log finishes this: all of its records are below its start.
        self._save(start_offset=offset)
        self.truncations += 1
        with self._disk_faults():
            # Before the new segment, which would be taken for a log that was trimmed to its end.
            self._epoch_file.cut(0)
            self._replace_all(offset)
            self.producers = ProducerStates(offset, producers_max=self.config.producers_max)
            snapshot_files.remove_snapshots_below(self._pool.files, self.directory, offset)
            self._pool.files.sync_dir(self.directory)
        self.recovery_point = offset
        self.messages_unflushed = 0
        self._forget_positions()

    def _forget_positions(self) -> None:
        """The segments were cut: what is remembered of their positions is void."""
        self._tail.clear(self.end_offset)
        self._aborting = None
        self._room = retention.NO_ROOM
        self.writeback.begin_at(self._segments[-1].size_bytes)

    def _cut(self, offset: int) -> None:
        while self._segments[-1].base_offset > offset:
            self._segments.pop().remove()
        segment = self._segments[-1]
        placed = segment.find(offset)
        if placed:
            segment.truncate(placed.position, placed.header.base_offset)
            segment.file.sync()
        # Not `offset`, which may lie within a batch or a gap.
        self.end_offset = segment.find_end()

    def _replace_all(self, offset: int) -> None:
        """Replaces all segments by an empty one."""
        while self._segments:
            self._segments.pop().remove()
        self._segments.append(Segment.create(self._pool, self.directory, offset, self.config))
        self.end_offset = offset

    def advance_start(self, offset: int) -> None:
        """Advances the log start offset, durably. `drop_segments` removes segments below it."""
        self._require_online()
        if offset > self.end_offset:
            raise OffsetOutOfRange(offset, self.start_offset, self.end_offset)
        if offset <= self.start_offset:
            return
        self._save(start_offset=offset)
        # In memory only: opening the log trims the epochs of the file, too.
        self.epochs.truncate_start(offset)
        self.producers.truncate_start(offset)

    def plan_start(self, offset: int) -> None:
        """As `advance_start`, but with the next checkpoint. At most the log end offset."""
        self._require_online()
        self.planned_start = max(offset, self.planned_start or 0)

    def planned_start_is_durable(self, offset: int, truncations: int) -> None:
        """A checkpoint with the planned start is durable. Void if the log was truncated since."""
        if self.offline is not None or truncations != self.truncations:
            return
        if offset > self.start_offset:
            self.start_offset = offset
            self.epochs.truncate_start(offset)
            self.producers.truncate_start(offset)
        if self.planned_start is not None and self.planned_start <= self.start_offset:
            self.planned_start = None

    def summaries(self) -> list[retention.SegmentSummary]:
        """The segments as retention and compaction see them."""
        return [
            segment.summary(
                end_offset=self._end_of(index), is_active=index + 1 == len(self._segments)
            )
            for index, segment in enumerate(self._segments)
        ]

    def drop_segments(self, count: int) -> list[str]:
        """Drops the first `count` segments, never the active one.

        Returns the paths of the renamed files, to be removed after file.delete.delay.ms.
        """
        self._require_online()
        if not 0 <= count < len(self._segments):
            raise ValueError(f"{count} of {len(self._segments)} segments cannot be dropped")
        if count == 0:
            return []
        # The start offset first: then it does not matter which renames survive a crash.
        self.advance_start(max(self.start_offset, self._segments[count].base_offset))
        with self._disk_faults():
            dropped, self._segments = self._segments[:count], self._segments[count:]
            self._aborting = None
            snapshot_files.remove_snapshots_below(
                self._pool.files, self.directory, self._segments[0].base_offset
            )
            return [path for segment in dropped for path in segment.mark_deleted(DELETED)]

    def replace_segments(self, sources: Sequence[Segment], truncations: int) -> list[str]:
        """Replaces segments by the output of their compaction (`segment_swap`).

        Returns the paths of the renamed sources, to be removed. OutputIsUseless if the log was
        truncated or trimmed since (`truncations`); nothing was changed then.
        """
        self._require_online()
        first = self._segment_index(sources[0].base_offset)
        end = first + len(sources)
        are_there = end < len(self._segments) and self._segments[first:end] == list(sources)
        if truncations != self.truncations or not are_there:
            raise segment_swap.OutputIsUseless(
                f"{self.directory}: truncated or trimmed during a compaction"
            )
        with self._disk_faults():
            end_offset = self._segments[end].base_offset
            left = segment_swap.swap_in(self._pool, self.directory, sources, end_offset, DELETED)
            output = Segment(self._pool, self.directory, sources[0].base_offset, self.config)
            output.mark_synced()
            self._segments[first:end] = [output]
            self._aborting = None
            return left

    # Failing

    def abandon(self, error: Exception | None = None) -> None:
        """Takes the log offline and leaves the files as they are."""
        self.offline = error or LogOffline(f"{self.directory} is closed")
        self._epoch_file.abandon()
        self._pool.forget_below(self.directory)
