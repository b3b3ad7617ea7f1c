"""The batches that producers send and a leader would have written, drawn from one entropy."""

from ottla.protocol.batch import (
    Marker,
    MarkerKind,
    Record,
    build,
    build_marker,
    stamp_log_append_time,
)
from ottla.storage.producers.entry import SEQUENCE_MAX, ProducerEntry
from ottla.storage.producers.state import ProducerStates
from tests.sim.seams.entropy import SimEntropy
from tests.support.protocol.stamping import stamp

IDEMPOTENT = (1, 2, 3)
TRANSACTIONAL = (11, 12)
COORDINATOR_EPOCH = 5


class Traffic:
    """Draws what is sent next. `producers` is what the log knows of those who send."""

    def __init__(self, entropy: SimEntropy) -> None:
        self._entropy = entropy

    def plain(self, now_ms: int, *, base_offset: int = 0, leader_epoch: int = -1) -> bytearray:
        batch = build(
            self._records(now_ms, base_offset), base_offset=base_offset, leader_epoch=leader_epoch
        )
        if self._entropy.chance(0.1):
            stamp_log_append_time(batch, now_ms)
        return batch

    def any(
        self, producers: ProducerStates, now_ms: int, base_offset: int, leader_epoch: int
    ) -> bytearray:
        """A batch as a leader has it, of any kind."""
        luck = self._entropy.below(10)
        if luck < 4:
            return self.plain(now_ms, base_offset=base_offset, leader_epoch=leader_epoch)
        marker = self.marker(producers, now_ms) if luck < 6 else None
        if marker is not None:
            batch = marker[0]
        elif luck < 8:
            batch = self.transactional(producers, now_ms)
        else:
            batch = self.idempotent(producers, now_ms)
        stamp(batch, base_offset, leader_epoch)
        return batch

    def idempotent(self, producers: ProducerStates, now_ms: int) -> bytearray:
        return self._sequenced(producers, self._entropy.pick(IDEMPOTENT), now_ms)

    def transactional(self, producers: ProducerStates, now_ms: int) -> bytearray:
        producer_id = self._entropy.pick(TRANSACTIONAL)
        return self._sequenced(producers, producer_id, now_ms, transactional=True)

    def marker(
        self, producers: ProducerStates, now_ms: int
    ) -> tuple[bytearray, Marker, int] | None:
        """The end of an open transaction, and the transaction version; None if none is open."""
        opened = [entry for entry in producers if entry.has_open_transaction]
        if not opened:
            return None
        entry = self._entropy.pick(sorted(opened))
        kind = MarkerKind.COMMIT if self._entropy.chance(0.4) else MarkerKind.ABORT
        version = self._entropy.pick((0, 2))
        marker = Marker(kind, COORDINATOR_EPOCH)
        batch = build_marker(
            marker,
            producer_id=entry.producer_id,
            producer_epoch=entry.epoch + (1 if version >= 2 else 0),
            timestamp_ms=now_ms,
        )
        return batch, marker, version

    def out_of_order(self, entry: ProducerEntry, now_ms: int) -> bytearray:
        """A batch that leaves a hole in its producer's sequence."""
        return build(
            self._records(now_ms, 0),
            producer_id=entry.producer_id,
            producer_epoch=entry.epoch,
            base_sequence=(entry.last_sequence + 7) & SEQUENCE_MAX,
            transactional=entry.has_open_transaction,
        )

    def _sequenced(
        self,
        producers: ProducerStates,
        producer_id: int,
        now_ms: int,
        *,
        transactional: bool = False,
    ) -> bytearray:
        entry = producers.get(producer_id)
        epoch, sequence = 0, 0
        if entry is not None:
            epoch = entry.epoch
            sequence = (entry.last_sequence + 1) & SEQUENCE_MAX
            if not entry.has_open_transaction and self._entropy.chance(0.05):
                epoch, sequence = epoch + 1, 0
        elif self._entropy.chance(0.3):
            # Its earlier batches may be long gone; numbers wrap.
            sequence = SEQUENCE_MAX - 2
        return build(
            self._records(now_ms, 0),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )

    def _records(self, now_ms: int, base_offset: int) -> list[Record]:
        size = self._entropy.pick((0, 10, 10, 60, 200))
        count = self._entropy.pick((1, 1, 2, 5))
        return [
            Record(
                base_offset + index,
                self._timestamp_ms(now_ms),
                b"k",
                self._entropy.token(size),
            )
            for index in range(count)
        ]

    def _timestamp_ms(self, now_ms: int) -> int:
        """Mostly rising, often equal, sometimes far back, now and then none at all."""
        luck = self._entropy.below(20)
        if luck == 0:
            return -1
        if luck < 4:
            return now_ms - self._entropy.below(500)
        return now_ms - now_ms % 4
