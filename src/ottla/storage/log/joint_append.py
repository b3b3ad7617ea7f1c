"""Batches of several requests, joined for one write. Does no I/O."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ottla.native import produce as native_produce
from ottla.protocol.batch import BatchHeader
from ottla.tuples import maker


class Joint(NamedTuple):
    """Consecutive batches with their final offsets, and the index fields of each."""

    content: bytearray | memoryview
    # One item per batch.
    positions: list[int]
    first_offsets: list[int]
    last_offsets: list[int]
    timestamps: list[int]


class JointAppend(NamedTuple):
    """The result of a joint append."""

    first_offsets: list[int]
    record_count: int
    size_bytes: int


make_joint: Callable[[Iterable[object]], Joint] = maker(Joint)
make_joint_append = maker(JointAppend)


def join(
    batches: list[tuple[memoryview, BatchHeader]], position: int, offset: int, leader_epoch: int
) -> Joint:
    """Gives admitted batches consecutive offsets from `offset` on, at `position`."""
    return make_joint(native_produce.join(batches, position, offset, leader_epoch))
