"""Appends to a log, by a leader and by a follower, and rolls of its active segment.

A PeerError (a client's fault) changes nothing, and neither does the OSError of a full disk.
"""

from collections.abc import Callable, Sequence
from typing import NoReturn

from ottla.errors import LogOffline, StorageError
from ottla.protocol.batch import (
    HEADER_BYTES,
    PREFIX_BYTES,
    UNCOUNTED_BYTES,
    BatchHeader,
    Marker,
    crc_is_valid,
    make_header,
    prefix,
    read_header,
)
from ottla.seams.clock import Clock
from ottla.seams.files import Buffer
from ottla.storage.directory.full_disk import FULL
from ottla.storage.log import replicated_batches, retention
from ottla.storage.log.append_result import Appended, make_appended
from ottla.storage.log.config import LogConfig
from ottla.storage.log.file_pool import FilePool
from ottla.storage.log.flush import FirstSync
from ottla.storage.log.joint_append import Joint, JointAppend, join, make_joint_append
from ottla.storage.log.leader_epoch_file import EpochFile
from ottla.storage.log.reading import ReadableLog
from ottla.storage.log.replicated_batches import ReplicatedBatch, join_replicated
from ottla.storage.log.segment import Segment
from ottla.storage.log.state import LogState
from ottla.storage.log.tail import Tail
from ottla.storage.log.writeback import WritebackDue
from ottla.storage.producers import snapshot_files
from ottla.storage.producers.entry import SEQUENCE_MAX


class AppendableLog(ReadableLog):
    """The growing half of a log."""

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
        self.recovery_point = state.recovery_point
        # Records of a crashed process may be in the page cache only.
        self.messages_unflushed = state.end_offset - state.recovery_point
        # Flushes and checkpoints that began before a truncation do not apply.
        self.truncations = 0
        self._epoch_file = EpochFile(pool.files, directory, state.epochs, state.saved_epoch)
        self.first_sync: FirstSync | None = None
        self._active_since_ms = self._steady_ms()
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

    # By a leader

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
        for (_, header), first_offset in zip(batches, joint.first_offsets, strict=True):
            if header.producer_id >= 0:
                self.producers.replay(header.placed(first_offset, leader_epoch))
        self._joined(active, joint, end_offset - offset)
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

    # By a follower

    def append_replicated(self, batches: Buffer) -> None:
        """Appends batches as the leader wrote them, as a follower does. One write where possible.

        An incomplete last batch is left out. Batches before a bad one are appended, then PeerError
        is raised. A full disk may leave the first of them appended.
        """
        self._require_online()
        content = memoryview(batches)
        end_offset = self._begin_within_first(content)
        position = self._write_run(content) if end_offset == self.end_offset else 0
        if len(content) - position < HEADER_BYTES:
            return
        found, fault = replicated_batches.check_all(
            content, self.end_offset if position else end_offset, position
        )
        if len(found) == 1:
            begin, header, marker = found[0]
            self._write((content[begin : begin + header.size],), header, marker)
        else:
            first = 0
            while first < len(found):
                first += self._write_replicated(content, found, first)
        if fault is not None:
            raise fault

    def _write_run(self, content: memoryview) -> int:
        """Writes the ordinary batches at the front, if the active segment takes all of them.

        Returns their size. Nearly all answers of a leader consist of such batches only.
        """
        active = self._segments[-1]
        run = replicated_batches.read_run(
            content, active.size_bytes, self.end_offset, self._epoch_file.written
        )
        if run is None:
            return 0
        joint, record_count, of_producers = run
        size_bytes, last_offset = len(joint.content), joint.last_offsets[-1]
        end = active.size_bytes + size_bytes
        if not self._room.takes(end, last_offset, max(joint.timestamps)):
            return 0
        try:
            active.append_together(joint)
        except (OSError, StorageError) as error:
            self._give_up_unless_full(error)
        # The batches are in the log. No step from here on can fail.
        for fields in of_producers:
            self._replay(active, make_header(fields), None)
        self._joined(active, joint, record_count)
        return size_bytes

    def _begin_within_first(self, content: memoryview) -> int:
        """The offset from which the leader's first batch may begin: the log end offset, or before
        it if an empty log begins within that batch, as the leader's log does after DeleteRecords.
        """
        end_offset = self.end_offset
        if self.start_offset < end_offset or len(content) < HEADER_BYTES:
            return end_offset
        header = read_header(content)
        begins_within = 0 <= header.base_offset < end_offset <= header.last_offset
        if not begins_within or any(segment.size_bytes for segment in self._segments):
            return end_offset
        if crc_is_valid(content, header):
            self._begin_earlier(header.base_offset)
        return header.base_offset

    def _begin_earlier(self, base_offset: int) -> None:
        """Replaces the segments of an empty log by one that begins before the log start offset.

        Until it has records, opening the log begins it at the log start offset again.
        """
        # Otherwise recovery would take a batch that was not flushed for a flushed one.
        self.truncations += 1
        if self.recovery_point > base_offset:
            self._save(recovery_point=base_offset)
        if base_offset >= self._segments[0].base_offset:
            return  # an earlier attempt found no room for the batch
        try:
            earlier = Segment.create(self._pool, self.directory, base_offset, self.config)
        except OSError as error:
            self._give_up_unless_full(error)
        with self._disk_faults():
            replaced, self._segments = self._segments, [earlier]
            for segment in replaced:
                segment.remove()
        self._tail.clear(base_offset)
        self.writeback.begin_at(0)

    def _write_replicated(
        self, content: memoryview, batches: list[ReplicatedBatch], first: int
    ) -> int:
        """Writes the next batches that the active segment takes. Returns their number."""
        _, header, marker = batches[first]
        active = self._segments[-1]
        if not self._room.takes(
            active.size_bytes + header.size, header.last_offset, header.max_timestamp
        ):
            try:
                self._roll_if_due(header)
            except (OSError, StorageError) as error:
                self._give_up_unless_full(error)
            active = self._segments[-1]
        count = replicated_batches.count_fitting(batches, first, active.size_bytes, self._room)
        if count <= 1:
            position = batches[first].position
            self._write((content[position : position + header.size],), header, marker)
            return 1
        written = batches[first : first + count]
        joint = join_replicated(content, written, active.size_bytes)
        try:
            active.append_together(joint)
        except (OSError, StorageError) as error:
            self._give_up_unless_full(error)
        # The batches are in the log. No step from here on can fail.
        for _, header, marker in written:
            if header.partition_leader_epoch > self._epoch_file.written:
                self._epoch_file.begin(header.partition_leader_epoch, self.end_offset)
            self.end_offset = header.next_offset
            if header.producer_id >= 0:
                self._replay(active, header, marker)
        self._joined(active, joint, sum([header.count for _, header, _ in written]))
        return count

    def _replay(self, active: Segment, header: BatchHeader, marker: Marker | None) -> None:
        """Takes a batch of the active segment into the producer state."""
        if aborted := self.producers.replay(header, marker):
            if not len(active.aborted):
                self._aborting = None
            active.aborted.add(aborted)

    # By both

    def _joined(self, active: Segment, joint: Joint, record_count: int) -> None:
        """The batches of one write are in the active segment, and their producers are replayed."""
        self.end_offset = self.producers.map_end_offset = joint.last_offsets[-1] + 1
        self._tail.add_all(joint.last_offsets, joint.positions, active.size_bytes)
        self.messages_unflushed += record_count
        if active.size_bytes >= self.writeback.due_bytes:
            self.writeback.offer(active)

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
        else:
            self._replay(active, header, marker)
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

    def _run_first_sync(self) -> None:
        """Makes the directory and the first segment's name durable, if no flush has yet."""
        if self.first_sync is not None:
            self.first_sync.sync(self._pool.files)
            self.first_sync = None

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

    def _steady_ms(self) -> int:
        return self._clock.steady_ns() // 1_000_000

    def _give_up_unless_full(self, error: Exception) -> NoReturn:
        if isinstance(error, LogOffline) or (isinstance(error, OSError) and error.errno in FULL):
            raise error
        self.fail(error)
