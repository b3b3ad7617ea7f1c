"""The batches of an offsets topic partition: the state that they mean, and legal compactions."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.coordinators.group.records import OffsetCommitted, OffsetTombstone, decode
from ottla.protocol import batch
from ottla.protocol.batch import BatchHeader, MarkerKind
from ottla.storage.log.log import Log

Key = tuple[str, str, int]


class Written(NamedTuple):
    """A batch as bytes, with its header and its records."""

    content: bytes
    header: BatchHeader
    records: tuple[batch.Record, ...]

    @property
    def marker(self) -> MarkerKind | None:
        found = batch.read_marker(self.content) if self.header.is_control else None
        return None if found is None else found.kind


def batches_from(log: Log, offset: int) -> Iterator[Written]:
    """The batches of a log from an offset on."""
    piece = log.read(offset, bytes_max=1 << 30) if offset < log.end_offset else None
    content = b"" if piece is None else piece.read()
    position = 0
    while position < len(content):
        header = batch.read_header(content, position)
        yield _written(content[position : position + header.size])
        position += header.size


def _written(content: bytes) -> Written:
    return Written(content, batch.read_header(content), tuple(batch.records(content)))


class PendingValue(NamedTuple):
    """A pending offset; it takes effect on commit unless something later has taken effect."""

    committed: OffsetCommitted
    is_overtaken: bool


class State(NamedTuple):
    """Committed offsets by key, and pending offsets by producer id and key."""

    committed: dict[Key, OffsetCommitted]
    pending: dict[tuple[int, Key], PendingValue]


def state_of(history: Iterable[Written]) -> State:
    """By Kafka's rule: of two offsets that took effect, the one with the later record counts.

    A tombstone removes the pending offsets that were written before it.
    """
    committed: dict[Key, tuple[int, OffsetCommitted]] = {}
    pending: dict[tuple[int, Key], tuple[int, OffsetCommitted]] = {}

    def commit(key: Key, offset: int, value: OffsetCommitted) -> None:
        if key not in committed or committed[key][0] < offset:
            committed[key] = offset, value

    for each in history:
        if each.header.is_control:
            ended = [place for place in pending if place[0] == each.header.producer_id]
            for place in ended:
                offset, value = pending.pop(place)
                if each.marker is MarkerKind.COMMIT:
                    commit(place[1], offset, value)
            continue
        for row in each.records:
            record = decode(row.key or b"", row.value)
            if isinstance(record, OffsetTombstone):
                key = record.group, record.topic, record.partition
                committed.pop(key, None)
                pending = {place: value for place, value in pending.items() if place[1] != key}
            elif isinstance(record, OffsetCommitted):
                if each.header.is_transactional:
                    pending[each.header.producer_id, record[:3]] = row.offset, record
                else:
                    commit(record[:3], row.offset, record)
    return State(
        {key: value for key, (_, value) in committed.items()},
        {
            (producer_id, key): PendingValue(value, key in committed and committed[key][0] > offset)
            for (producer_id, key), (offset, value) in pending.items()
        },
    )


def compacted(
    batches: list[Written], end_offset: int, *, drops_tombstones: bool, drops_batches: bool
) -> list[Written]:
    """A legal compaction below `end_offset`, which must not be beyond the last stable offset.

    It keeps the last record of each key, no record of an aborted transaction, the markers of
    transactions that still have records, and the last batch.
    """
    dirty = [each for each in batches if each.header.next_offset <= end_offset]
    aborted = _aborted(batches)
    latest = {
        row.key: row.offset
        for each in dirty
        if each.header.base_offset not in aborted and not each.header.is_control
        for row in each.records
    }
    output: list[Written] = []
    with_records: set[int] = set()
    for each in dirty:
        producer_id = each.header.producer_id
        if each.header.is_control:
            is_kept = producer_id in with_records or each is dirty[-1] or not drops_batches
            with_records.discard(producer_id)
            output += [each] if is_kept else []
            continue
        rows = [
            row
            for row in each.records
            if each.header.base_offset not in aborted
            and latest[row.key] == row.offset
            and not (row.value is None and drops_tombstones)
        ]
        if rows and each.header.is_transactional:
            with_records.add(producer_id)
        if rows or each is dirty[-1] or not drops_batches:
            output.append(_rebuilt(each.header, rows))
    return output + batches[len(dirty) :]


def _aborted(batches: list[Written]) -> set[int]:
    """The base offsets of the batches of aborted transactions."""
    aborted: set[int] = set()
    open_batches: dict[int, list[int]] = {}
    for each in batches:
        if each.header.is_control:
            ended = open_batches.pop(each.header.producer_id, [])
            aborted.update(ended if each.marker is MarkerKind.ABORT else ())
        elif each.header.is_transactional:
            open_batches.setdefault(each.header.producer_id, []).append(each.header.base_offset)
    return aborted


def _rebuilt(header: BatchHeader, rows: list[batch.Record]) -> Written:
    """The batch with fewer records and the same range of offsets."""
    content = batch.build(
        rows,
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        leader_epoch=header.partition_leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
    )
    return _written(bytes(content))
