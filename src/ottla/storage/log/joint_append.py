"""Several batches that are appended by one write. Does no I/O."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ottla.native import produce as native_produce
from ottla.protocol.batch import BatchHeader
from ottla.tuples import maker


class Joint(NamedTuple):
    """Batches as they stand in a segment, one after another."""

    content: bytearray
    # Of each batch.
    positions: list[int]
    first_offsets: list[int]
    last_offsets: list[int]
    timestamps: list[int]


class JointAppend(NamedTuple):
    """Where batches went."""

    first_offsets: list[int]
    record_count: int
    size_bytes: int


_joint: Callable[[Iterable[object]], Joint] = maker(Joint)
make_joint_append = maker(JointAppend)


def join(
    batches: list[tuple[memoryview, BatchHeader]], position: int, offset: int, leader_epoch: int
) -> Joint:
    """Admitted batches in the order in which they follow each other from a place on."""
    return _joint(native_produce.join(batches, position, offset, leader_epoch))
