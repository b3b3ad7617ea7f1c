"""A ghost copy of one partition: what was ever written to it, and what was ever committed.

Each method returns the reason why what it is told must not be, or None.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.sim.replication.stored_batches import StoredBatch


class Stored(NamedTuple):
    """A record's leader epoch, and the digest of its batch."""

    leader_epoch: int
    digest: bytes


@dataclass(slots=True)
class GhostPartition:
    """`written` is by leader epoch and offset, over all replicas that ever existed."""

    name: str
    written: dict[tuple[int, int], bytes] = field(default_factory=dict)
    committed: dict[int, Stored] = field(default_factory=dict)
    # By offset: the least epoch of a leader that committed it.
    committed_in: dict[int, int] = field(default_factory=dict)
    committed_end: int = 0

    def write(self, batch: StoredBatch) -> str | None:
        """A replica has this batch (invariant 2)."""
        epoch, digest = batch.header.partition_leader_epoch, batch.digest
        for offset in batch.offsets:
            if self.written.setdefault((epoch, offset), digest) != digest:
                return f"{self.name}: two batches have offset {offset} of leader epoch {epoch}"
        return None

    def commit(self, offset: int, leader_epoch: int, *, committed_in: int) -> str | None:
        """A leader's high watermark passes a record of this epoch (invariant 5)."""
        digest = self.written.get((leader_epoch, offset))
        if digest is None:
            return f"{self.name}: nobody wrote offset {offset} in leader epoch {leader_epoch}"
        stored = Stored(leader_epoch, digest)
        before = self.committed.setdefault(offset, stored)
        self.committed_in[offset] = min(self.committed_in.get(offset, committed_in), committed_in)
        self.committed_end = max(self.committed_end, offset + 1)
        if before != stored:
            return (
                f"{self.name}: offset {offset} was committed in leader epoch {before.leader_epoch},"
                f" and is committed again in {leader_epoch}"
            )
        return None

    def check_has_committed(
        self, log: Sequence[StoredBatch], start_offset: int, leader_epoch: int
    ) -> str | None:
        """Whether a log has all that leaders up to this epoch have committed (invariant 3)."""
        found = {
            offset: Stored(batch.header.partition_leader_epoch, batch.digest)
            for batch in log
            for offset in batch.offsets
        }
        for offset, stored in self.committed.items():
            is_due = offset >= start_offset and self.committed_in[offset] <= leader_epoch
            if is_due and found.get(offset) != stored:
                where = "is not there" if offset not in found else "is another record"
                return (
                    f"{self.name}: offset {offset} of leader epoch {stored.leader_epoch} was"
                    f" committed, and {where}; the log ends at {max(found, default=-1) + 1}"
                )
        return None

    def excuse(self, from_offset: int = 0) -> None:
        """Nothing is promised of what was committed so far from this offset on."""
        for offset in [each for each in self.committed if each >= from_offset]:
            del self.committed[offset]
            del self.committed_in[offset]
        self.committed_end = min(self.committed_end, from_offset)


def check_producers(name: str, log: Sequence[StoredBatch]) -> str | None:
    """Whether no sequence number of a producer is there twice (invariant 8)."""
    seen: set[tuple[int, int, int]] = set()
    for batch in log:
        header = batch.header
        if header.producer_id < 0 or header.is_control:
            continue
        key = header.producer_id, header.producer_epoch, header.base_sequence
        if key in seen:
            return f"{name}: producer id, epoch and sequence {key} are there twice"
        seen.add(key)
    return None
