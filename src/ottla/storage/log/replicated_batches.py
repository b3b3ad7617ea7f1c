"""The batches of a leader's answer to a replica fetch, checked and split for writing. Does no I/O.

A follower writes them as they came, many by one write. `native.replicated` reads the ordinary ones,
nearly all, and `check_all` the rest.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ottla.errors import PeerError
from ottla.native import replicated as native_replicated
from ottla.native.produce import Fields
from ottla.protocol.batch import HEADER_BYTES, MAGIC, BatchHeader, CorruptBatch, Marker, read_header
from ottla.storage.admission.follower_checks import check_replicated, marker_of
from ottla.storage.log.joint_append import Joint, make_joint
from ottla.storage.log.retention import Room
from ottla.tuples import maker


class ReplicatedBatch(NamedTuple):
    """A batch that passed the checks, with its position in the leader's answer."""

    position: int
    header: BatchHeader
    marker: Marker | None


class ReplicatedBatches(NamedTuple):
    """The batches that may be appended, and the error of the one behind them, if any."""

    batches: list[ReplicatedBatch]
    fault: PeerError | None


class ReplicatedRun(NamedTuple):
    """Ordinary batches that passed the checks, for one write at the end of a segment."""

    joint: Joint
    record_count: int
    # The headers of the batches that have a producer.
    of_producers: list[Fields]


_batch: Callable[[Iterable[object]], ReplicatedBatch] = maker(ReplicatedBatch)
_run: Callable[[Iterable[object]], ReplicatedRun] = maker(ReplicatedRun)


def read_run(
    content: memoryview, segment_bytes: int, end_offset: int, leader_epoch: int
) -> ReplicatedRun | None:
    """The ordinary batches at the front of `content`; None if the first is none.

    They follow a log that ends at `end_offset` in this leader epoch, and passed the same checks as
    those of `check_all`. The active segment has `segment_bytes`.
    """
    size, positions, first_offsets, last_offsets, timestamps, record_count, of_producers = (
        native_replicated.read(content, segment_bytes, end_offset, leader_epoch)
    )
    if not size:
        return None
    joint = make_joint((content[:size], positions, first_offsets, last_offsets, timestamps))
    return _run((joint, record_count, of_producers))


def check_all(content: memoryview, end_offset: int, position: int = 0) -> ReplicatedBatches:
    """Checks the batches from `position` on, which are to follow a log that ends at `end_offset`.

    Stops at the first bad one. An incomplete last batch is left out: a leader cuts its answer at
    the fetch limits.
    """
    found: list[ReplicatedBatch] = []
    size = len(content)
    try:
        while size - position >= HEADER_BYTES:
            header = read_header(content, position)
            if header.magic != MAGIC or header.size < HEADER_BYTES:
                raise CorruptBatch(position, "an impossible header")
            end = position + header.size
            if end > size:
                break
            check_replicated(content, position, header, end_offset)
            marker = marker_of(content[position:end], header) if header.is_control else None
            found.append(_batch((position, header, marker)))
            end_offset = header.next_offset
            position = end
    except PeerError as fault:
        return ReplicatedBatches(found, fault)
    return ReplicatedBatches(found, None)


def count_fitting(
    batches: Sequence[ReplicatedBatch], first: int, size_bytes: int, room: Room
) -> int:
    """The number of batches from `first` on that a segment of `size_bytes` takes without a roll."""
    count = 0
    begin = size_bytes - batches[first].position
    for position, header, _ in batches[first:]:
        if not room.takes(begin + position + header.size, header.last_offset, header.max_timestamp):
            break
        count += 1
    return count


def join_replicated(
    content: memoryview, batches: Sequence[ReplicatedBatch], segment_bytes: int
) -> Joint:
    """Consecutive batches of an answer, for one write at the end of a segment of this size."""
    begin, last = batches[0].position, batches[-1]
    moved = segment_bytes - begin
    headers = [batch.header for batch in batches]
    return make_joint(
        (
            content[begin : last.position + last.header.size],
            [batch.position + moved for batch in batches],
            [header.base_offset for header in headers],
            [header.base_offset + header.last_offset_delta for header in headers],
            [header.max_timestamp for header in headers],
        )
    )
