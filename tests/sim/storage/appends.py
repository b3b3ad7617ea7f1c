"""Appending, as leaders and followers do it: each batch that was taken is in the model, too."""

from collections.abc import Callable
from typing import TypeVar

from ottla.errors import PeerError
from ottla.protocol.batch import read_header
from ottla.storage.log.append_result import Appended
from tests.sim.storage.machine import Machine, is_full
from tests.sim.storage.model import ModelBatch
from tests.sim.storage.traffic import Traffic
from tests.support.protocol.stamping import stamp

Result = TypeVar("Result")


class Appending(Machine):
    def __init__(self, seed: int, history: list[str]) -> None:
        super().__init__(seed, history)
        self.traffic = Traffic(self.entropy.fork("traffic"))
        self.leader_epoch = 0
        self.is_full = False

    def append_plain(self) -> None:
        self._append(self.traffic.plain(self.now_ms))

    def append_idempotent(self) -> None:
        self._append(self.traffic.idempotent(self.model.producers, self.now_ms))

    def append_transactional(self) -> None:
        self._append(self.traffic.transactional(self.model.producers, self.now_ms))

    def end_transaction(self) -> None:
        found = self.traffic.marker(self.model.producers, self.now_ms)
        if found is None:
            return
        batch, marker, version = found
        self._append_as(
            batch,
            lambda: self.log.append_marker(
                batch,
                read_header(batch),
                marker,
                leader_epoch=self.leader_epoch,
                transaction_version=version,
            ),
        )

    def _append(self, batch: bytearray) -> None:
        self._append_as(
            batch,
            lambda: self.log.append(batch, read_header(batch), leader_epoch=self.leader_epoch),
        )

    def _append_as(self, batch: bytearray, append: Callable[[], Appended]) -> None:
        stamped = bytearray(batch)
        stamp(stamped, self.model.end_offset, self.leader_epoch)
        expected = ModelBatch.of(bytes(stamped))
        self.in_progress.appending = [expected]
        appended = self.unless_full(append)
        if appended is None:
            self.accept_epoch()
        else:
            header = expected.header
            assert appended == Appended(header.base_offset, header.last_offset)
            self.model.append(expected)
        assert self.log.end_offset == self.model.end_offset

    def append_replicated(self) -> None:
        """One fetch of batches as a leader has them, holes of its compaction included.

        It may have many batches, of several leaders, with producers and markers; its last batch
        may be cut, or a batch may be damaged on its way.
        """
        batches = self._leaders_batches()
        whole = len(batches)
        sent = b"".join(batch.content for batch in batches)
        is_damaged = self.entropy.chance(0.1)
        if self.entropy.chance(0.3):
            whole -= 1
            sent = sent[: -(1 + self.entropy.below(len(batches[-1].content)))]
        elif is_damaged:
            whole = self.entropy.below(len(batches))
            spoiled = bytearray(sent)
            spoiled[sum(len(batch.content) for batch in batches[: whole + 1]) - 1] ^= 1
            sent = bytes(spoiled)
        self.in_progress.appending = batches[:whole]
        try:
            self.unless_full(lambda: self.log.append_replicated(sent))
        except PeerError:
            assert is_damaged
        for batch in batches[:whole]:
            if self.log.end_offset >= batch.header.next_offset:
                self.model.append(batch)
        end_offset = batches[whole - 1].header.next_offset if whole else self.model.end_offset
        assert self.is_full or self.log.end_offset == end_offset
        assert self.log.end_offset == self.model.end_offset
        self.leader_epoch = max(self.leader_epoch, self.log.last_written_epoch)
        self.accept_epoch()

    def _leaders_batches(self) -> list[ModelBatch]:
        batches: list[ModelBatch] = []
        producers = self.model.producers.copy()
        next_offset, leader_epoch = self.model.end_offset, self.leader_epoch
        across = self._batch_across_the_start()
        if across is not None:
            batches.append(across)
            next_offset = across.header.next_offset
        for _ in range(self.entropy.pick((1, 2, 3, 12))):
            next_offset += self.entropy.pick((0, 0, 0, 3, 40))
            if self.entropy.chance(0.05):
                leader_epoch += 1
            content = self.traffic.any(producers, self.now_ms, next_offset, leader_epoch)
            batch = ModelBatch.of(bytes(content))
            producers.replay(batch.header, batch.marker)
            batches.append(batch)
            next_offset = batch.header.next_offset
        return batches

    def _batch_across_the_start(self) -> ModelBatch | None:
        """The first batch of a leader whose log starts within it, for a log that is empty."""
        end_offset = self.model.end_offset
        is_empty = self.model.start_offset == end_offset > 4 and not self.model.batches
        if not is_empty or self.entropy.chance(0.5):
            return None
        base_offset = end_offset - self.entropy.between(1, 4)
        content = self.traffic.plain(
            self.now_ms, base_offset=base_offset, leader_epoch=self.leader_epoch
        )
        batch = ModelBatch.of(bytes(content))
        return batch if batch.header.last_offset >= end_offset else None

    def append_again(self) -> None:
        """A retry of a batch that is in the log: it must not be there twice."""
        sent = [
            batch
            for batch in self.model.from_offset(self.model.start_offset)
            if batch.header.has_producer and not batch.header.is_control
        ]
        if not sent:
            return
        batch = self.entropy.pick(sent)
        header = batch.header
        entry = self.model.producers.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch:
            return
        try:
            appended = self.log.append(batch.content, header, leader_epoch=self.leader_epoch)
        except PeerError:
            is_last = entry.batches and entry.batches[-1].last_offset == header.last_offset
            assert not is_last, "the last batch of a producer is not known as a duplicate"
        else:
            assert appended[:2] == (header.base_offset, header.last_offset)
        assert self.log.end_offset == self.model.end_offset

    def append_out_of_order(self) -> None:
        known = [entry for entry in self.model.producers if entry.batches]
        if known:
            batch = self.traffic.out_of_order(self.entropy.pick(sorted(known)), self.now_ms)
            try:
                self._append(batch)
            except PeerError:
                assert self.log.end_offset == self.model.end_offset
            else:
                raise AssertionError("a hole in a producer's sequence was taken")

    def new_leader(self) -> None:
        self.leader_epoch += self.entropy.between(1, 3)
        if self.entropy.chance(0.5):
            self.unless_full(lambda: self.log.begin_epoch(self.leader_epoch))
            self.accept_epoch()

    def accept_epoch(self) -> None:
        """A leader may have begun although its first batch found no room."""
        latest = self.log.epochs.latest
        if latest is not None and latest.epoch == self.leader_epoch:
            known = self.model.epochs.latest
            if known is None or known.epoch < self.leader_epoch:
                self.model.epochs.assign(self.leader_epoch, self.model.end_offset)
        assert self.log.epochs == self.model.epochs

    def unless_full(self, action: Callable[[], Result]) -> Result | None:
        """What `action` returns; None if the disk was too full for it."""
        try:
            return action()
        except OSError as error:
            if not (self.is_full and is_full(error)):
                raise
            self.note("  no room")
            return None
