"""The log of one partition: appends, flushes, truncation, and removal of segments.

A log has one owner and awaits nothing. A PeerError (a client's fault) changes nothing, and neither
does the OSError of a full disk. After any other disk fault the log is offline: it raises LogOffline
until it is opened again.
"""

from collections.abc import Callable, Sequence
from typing import NoReturn

from ottla.errors import LogOffline, OffsetOutOfRange, StorageError
from ottla.protocol.batch import (
    HEADER_BYTES,
    PREFIX_BYTES,
    UNCOUNTED_BYTES,
    BatchHeader,
    Marker,
    prefix,
    read_header,
)
from ottla.seams.clock import Clock
from ottla.seams.files import Buffer
from ottla.storage.admission.follower_checks import check_replicated, marker_of
from ottla.storage.compaction import segment_swap
from ottla.storage.directory.full_disk import FULL
from ottla.storage.log import retention
from ottla.storage.log.append_result import Appended, make_appended
from ottla.storage.log.config import LogConfig
from ottla.storage.log.file_pool import FilePool
from ottla.storage.log.flush import FirstSync, Flush
from ottla.storage.log.joint_append import JointAppend, join, make_joint_append
from ottla.storage.log.leader_epoch_file import EpochFile, NoRoomForEpochs
from ottla.storage.log.reading import ReadableLog
from ottla.storage.log.segment import Segment
from ottla.storage.log.state import LogState
from ottla.storage.log.tail import Tail
from ottla.storage.log.writeback import WritebackDue
from ottla.storage.producers import snapshot_files
from ottla.storage.producers.entry import SEQUENCE_MAX

DELETED = ".deleted"


class Log(ReadableLog):
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
        super().__init__(
            pool,
            directory,
            state.segments,
            Tail(config.tail_batches_max, state.end_offset),
            start_offset=state.start_offset,
            end_offset=state.end_offset,
        )
        self._clock = clock
        self._config = config
        self.flush_messages = config.flush_messages
        self._room = retention.NO_ROOM
        self.epochs = state.epochs
        self.producers = state.producers
        # The log start offset that the next checkpoint puts in force.
        self.planned_start: int | None = None
        self.recovery_point = state.recovery_point
        # Records of a crashed process may be in the page cache only.
        self.messages_unflushed = state.end_offset - state.recovery_point
        self._last_flush_ms = self._steady_ms()
        # The cleaner offset: the log is compacted below it.
        self.cleaned_offset = state.cleaned_offset
        self.truncations = 0
        self._epoch_file = EpochFile(pool.files, directory, state.epochs, state.saved_epoch)
        self.first_sync: FirstSync | None = None
        self._active_since_ms = self._last_flush_ms
        self._checkpoint = checkpoint
        self.writeback = WritebackDue(state.segments[-1])

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self.flush_messages = config.flush_messages
        self._room = retention.NO_ROOM

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(self._segments)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    # Appending

    def append(
        self,
        batch: Buffer,
        header: BatchHeader,
        *,
        leader_epoch: int,
        from_client: bool = True,
        first_sequence_max: int = SEQUENCE_MAX,
    ) -> Appended:
        """Appends an admitted batch as the leader, with new offsets and the leader epoch.

        A duplicate of an idempotent producer is not appended again. Batches of this broker's own
        coordinators (`from_client` false) are never duplicates. `first_sequence_max` is as in
        `ProducerStates.check`.
        """
        if self.offline is not None:
            self._require_online()
        if header.producer_id >= 0:
            duplicate = self.producers.check(
                header, from_client=from_client, first_sequence_max=first_sequence_max
            )
            if duplicate:
                return Appended(duplicate.first_offset, duplicate.last_offset, duplicate.timestamp)
        return self._append_stamped(batch, header, None, leader_epoch)

    def append_together(
        self, batches: list[tuple[memoryview, BatchHeader]], *, leader_epoch: int
    ) -> JointAppend | None:
        """Appends admitted batches by one write.

        Returns None, and does nothing, if a batch may be a duplicate or out of order, the segment
        would roll, or the leader epoch is new. Then the caller appends each batch by itself.
        """
        self._require_online()
        if leader_epoch > self._epoch_file.written or not self.producers.all_continue(batches):
            return None
        active, offset = self._segments[-1], self.end_offset
        joint = join(batches, active.size_bytes, offset, leader_epoch)
        size_bytes, end_offset = len(joint.content), joint.last_offsets[-1] + 1
        end = active.size_bytes + size_bytes
        if not self._room.takes(end, end_offset - 1, max(joint.timestamps)):
            return None
        try:
            active.append_together(joint)
        except (OSError, StorageError) as error:
            self._give_up_unless_full(error)
        # The batches are in the log. No step from here on can fail.
        self.end_offset = end_offset
        self._tail.add_all(joint.last_offsets, joint.positions, active.size_bytes)
        for (_, header), first_offset in zip(batches, joint.first_offsets, strict=True):
            if header.producer_id >= 0:
                self.producers.replay(header.placed(first_offset, leader_epoch))
        self.producers.map_end_offset = end_offset
        self.messages_unflushed += end_offset - offset
        if active.size_bytes >= self.writeback.due_bytes:
            self.writeback.offer(active)
        return make_joint_append((joint.first_offsets, end_offset - offset, size_bytes))

    def append_marker(
        self,
        batch: Buffer,
        header: BatchHeader,
        marker: Marker,
        *,
        leader_epoch: int,
        transaction_version: int,
    ) -> Appended:
        """Appends the control batch of a transaction marker."""
        self._require_online()
        self.producers.check_marker(header, marker, transaction_version=transaction_version)
        return self._append_stamped(batch, header, marker, leader_epoch)

    def _append_stamped(
        self,
        batch: Buffer,
        header: BatchHeader,
        marker: Marker | None,
        leader_epoch: int,
    ) -> Appended:
        offset = self.end_offset
        stamped = header.placed(offset, leader_epoch)
        rest = memoryview(batch)[PREFIX_BYTES : header.length + UNCOUNTED_BYTES]
        self._write((prefix(offset, header.length, leader_epoch), rest), stamped, marker)
        return make_appended((offset, offset + header.last_offset_delta, None))

    def append_replicated(self, batches: Buffer) -> None:
        """Appends batches as the leader wrote them, as a follower does.

        The last batch may be incomplete, because a fetch ends after so many bytes: it is left out.
        """
        self._require_online()
        view = memoryview(batches)
        position = 0
        while len(view) - position >= HEADER_BYTES:
            header = read_header(view, position)
            if header.size > len(view) - position:
                return
            check_replicated(view, position, header, self.end_offset)
            batch = view[position : position + header.size]
            self._write((batch,), header, marker_of(batch, header))
            position += header.size

    def _write(self, parts: Sequence[Buffer], header: BatchHeader, marker: Marker | None) -> None:
        room = self._room
        active = self._segments[-1]
        try:
            if not (
                active.size_bytes + header.length + UNCOUNTED_BYTES <= room.size_bytes
                and header.base_offset + header.last_offset_delta <= room.last_offset
                and header.max_timestamp <= room.timestamp_ms
            ):
                self._roll_if_due(header)
                active = self._segments[-1]
            position = active.append(parts, header)
        except (OSError, StorageError) as error:
            self._give_up_unless_full(error)
        # The batch is in the log. No step from here on can fail.
        if header.partition_leader_epoch > self._epoch_file.written:
            self._epoch_file.begin(header.partition_leader_epoch, self.end_offset)
        last_offset = header.base_offset + header.last_offset_delta
        size = header.length + UNCOUNTED_BYTES
        self.end_offset = last_offset + 1
        self._tail.add(last_offset, position, size)
        if header.producer_id < 0:
            self.producers.map_end_offset = last_offset + 1
        elif aborted := self.producers.replay(header, marker):
            if not len(active.aborted):
                self._aborting = None
            active.aborted.add(aborted)
        self.messages_unflushed += header.count
        if position + size >= self.writeback.due_bytes:
            self.writeback.offer(self._segments[-1])

    @property
    def last_written_epoch(self) -> int:
        """The leader epoch of the last batch; -1 if there was none."""
        return self._epoch_file.written

    def begin_epoch(self, epoch: int) -> None:
        """A new leader epoch starts at the log end offset. The flush of its first batch saves it.

        It is not saved sooner: opening a log drops an epoch without a batch, and the leader begins
        it again. So the start of a broker with thousands of partitions writes nothing for them.
        """
        self._require_online()
        self.epochs.assign(epoch, self.end_offset)

    def _roll_if_due(self, header: BatchHeader) -> None:
        active = self._segments[-1].roll_state(self._active_since_ms)
        rules = self._config.roll_rules
        if retention.should_roll(
            active,
            rules,
            batch_bytes=header.size,
            batch_last_offset=header.last_offset,
            batch_max_timestamp_ms=header.max_timestamp,
            now_ms=self._steady_ms(),
        ):
            self.roll()
        else:
            self._room = retention.room(active, rules, self._config.index_interval_bytes)

    def roll(self) -> None:
        """Rolls: closes the active segment and begins a new one at the log end offset."""
        self._require_online()
        if self._segments[-1].base_offset == self.end_offset:
            return
        files, offset = self._pool.files, self.end_offset
        try:
            # Otherwise a power loss might leave the new segment only, as if it were the first.
            self._run_first_sync()
            self._segments[-1].seal()
            snapshot_files.write_snapshot(files, self.directory, offset, self.producers)
            self._segments.append(Segment.create(self._pool, self.directory, offset, self.config))
        except OSError as error:
            self._give_up_unless_full(error)
        self._tail.clear(offset)
        self._room = retention.NO_ROOM
        self._active_since_ms = self._steady_ms()
        self.writeback.begin_at(0)

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

    def _run_first_sync(self) -> None:
        """Makes the directory and the first segment's name durable, if no flush has yet."""
        if self.first_sync is not None:
            self.first_sync.sync(self._pool.files)
            self.first_sync = None

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
        # A recovery point above the cut would cover records that are appended later.
        self._save(recovery_point=min(flushed, offset, kept.base_offset))
        self.truncations += 1
        with self._disk_faults():
            if offset < self._segments[0].base_offset:
                self._restart_at(offset)
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
        self._tail.clear(self.end_offset)
        self._aborting = None
        self._room = retention.NO_ROOM
        self.writeback.begin_at(self._segments[-1].size_bytes)
        self.messages_unflushed = min(
            self.messages_unflushed, self.end_offset - self.recovery_point
        )

    def restart_at(self, offset: int) -> None:
        """Removes all records, and continues at an offset beyond the log end, durably."""
        self._require_online()
        raise NotImplementedError(offset)

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

    def _restart_at(self, offset: int) -> None:
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

    def _save(self, *, start_offset: int | None = None, recovery_point: int | None = None) -> None:
        """Changes these offsets and makes them durable. A full disk leaves them unchanged."""
        before = self.start_offset, self.recovery_point
        if start_offset is not None:
            self.start_offset = start_offset
        if recovery_point is not None:
            self.recovery_point = recovery_point
        try:
            # A power loss must not leave a checkpoint of a log that is gone.
            self._run_first_sync()
            self._checkpoint()
        except (OSError, StorageError) as error:
            self.start_offset, self.recovery_point = before
            self._give_up_unless_full(error)

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

    def _steady_ms(self) -> int:
        return self._clock.steady_ns() // 1_000_000

    def _give_up_unless_full(self, error: Exception) -> NoReturn:
        if isinstance(error, LogOffline) or (isinstance(error, OSError) and error.errno in FULL):
            raise error
        self.fail(error)
