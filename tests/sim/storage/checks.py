"""Whether a log is what its model says. Each check is an AssertionError where it is not."""

from bisect import bisect_right

from ottla.protocol.batch import HEADER_BYTES, read_header
from ottla.storage.log.file_slice import FileSlice
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.log.log import Log
from ottla.storage.log.segment import Segment
from tests.sim.seams.entropy import SimEntropy
from tests.sim.storage.model import Fold, LogModel, ModelBatch, durable_part
from tests.support.time_searches import largest_timestamp, offset_for_time

READS_MAX = 12
"""Offsets that a check of everything reads through the log; every one is looked up besides."""


def check_everything(log: Log, model: LogModel, entropy: SimEntropy) -> None:
    """The whole log, as after it was opened: bytes, indexes, times, producers, epochs."""
    assert (log.start_offset, log.end_offset) == (model.start_offset, model.end_offset)
    check_bytes(log, model)
    check_lookups(log, model)
    offsets = [model.start_offset, model.end_offset]
    if model.end_offset > model.start_offset:
        span = model.end_offset - model.start_offset
        offsets += [model.start_offset + entropy.below(span) for _ in range(READS_MAX)]
    for offset in offsets:
        check_read(log, model, offset, entropy)
    check_times(log, model, entropy)
    check_epochs(log, model)
    settle_producers(log, model)


def check_bytes(log: Log, model: LogModel) -> None:
    """The segments, one after another, are the model's batches: nothing more, nothing else."""
    first = log.segments[0].base_offset
    expected = b"".join(
        batch.content for batch in model.batches if batch.header.base_offset >= first
    )
    found = b"".join(segment.file.read_at(0, segment.file.size()) for segment in log.segments)
    assert found == expected, f"{len(found)} bytes in the segments, {len(expected)} expected"
    assert log.size_bytes == len(expected)
    bases = [segment.base_offset for segment in log.segments]
    assert bases == sorted(set(bases)), f"segments begin at {bases}"
    assert bases[-1] <= log.end_offset, f"the active segment begins behind the end: {bases}"


def check_lookups(log: Log, model: LogModel) -> None:
    """Every offset is found through the index exactly where a walk over all headers finds it."""
    for segment, end_offset in _bounds(log):
        placed = {batch.header.base_offset: batch for batch in _batches_in(segment, model)}
        position = 0
        looked_at = segment.base_offset
        for batch in placed.values():
            for offset in {looked_at, batch.header.base_offset, batch.header.last_offset}:
                found = segment.find(offset)
                assert found is not None, f"offset {offset} is not found"
                assert (found.position, found.header) == (position, batch.header), (
                    f"offset {offset} is found at {found}, not at {position}"
                )
            looked_at = batch.header.next_offset
            position += batch.header.size
        assert segment.size_bytes == position
        assert looked_at >= end_offset or segment.find(looked_at) is None


def _batches_in(segment: Segment, model: LogModel) -> list[ModelBatch]:
    found: list[ModelBatch] = []
    size = 0
    for batch in model.batches:
        if batch.header.base_offset >= segment.base_offset and size < segment.size_bytes:
            found.append(batch)
            size += batch.header.size
    return found


def _bounds(log: Log) -> list[tuple[Segment, int]]:
    segments = log.segments
    ends = [segment.base_offset for segment in segments[1:]] + [log.end_offset]
    return list(zip(segments, ends, strict=True))


def check_read(log: Log, model: LogModel, offset: int, entropy: SimEntropy) -> None:
    """What a reader gets is the batches that were written, up to its bound."""
    bound = model.end_offset
    if entropy.chance(0.3):
        bound = model.start_offset + entropy.below(model.end_offset - model.start_offset + 1)
    bytes_max = entropy.pick((1, 300, 1 << 20))
    found = log.read(offset, bytes_max=bytes_max, end_offset=bound)
    first = model.at(offset)
    if offset >= bound or first is None or first.header.last_offset >= bound:
        assert found is None, f"{found} was served at {offset}, beyond {bound}"
        return
    assert found is not None, f"nothing was served at {offset}, below {bound}"
    served = found.read()
    allowed = b"".join(
        batch.content
        for batch in model.from_offset(offset)
        if batch.header.next_offset <= _stop(log, bound, first)
    )
    size = min(max(bytes_max, first.header.size), len(allowed))
    assert served == allowed[:size], f"other bytes at {offset} than those written"
    check_aborted_in(log, model, found, offset, bound)


def check_aborted_in(log: Log, model: LogModel, found: FileSlice, offset: int, bound: int) -> None:
    """A slice comes with every aborted transaction that has a record in it."""
    served, position, last_offset = found.read(), 0, offset
    while position + HEADER_BYTES <= len(served):
        header = read_header(served, position)
        last_offset = header.last_offset
        position += header.size
    listed = log.aborted_in(found, offset, bound)
    for entry in log.aborted_transactions(model.start_offset, model.end_offset):
        if entry.last_offset >= offset and entry.first_offset <= last_offset:
            assert entry in listed, f"{entry} is not listed for {offset} to {last_offset}"
    assert [entry.first_offset for entry in listed] == sorted(
        entry.first_offset for entry in listed
    )


def _stop(log: Log, bound: int, first: ModelBatch) -> int:
    """A read ends at its bound, or where the segment ends in which it found its first batch."""
    bases = [segment.base_offset for segment in log.segments]
    following = bases[bisect_right(bases, first.header.base_offset) :]
    return min(bound, *following[:1], bound)


def check_times(log: Log, model: LogModel, entropy: SimEntropy) -> None:
    times = sorted({record.timestamp_ms for record, _ in model.visible_records()})
    wanted = [times[0] - 1, times[-1], times[-1] + 1] if times else [0]
    for _ in range(4 if times else 0):
        wanted.append(entropy.pick(times) + entropy.below(3) - 1)
    for timestamp_ms in wanted:
        found = offset_for_time(log, timestamp_ms)
        expected = model.offset_for_time(timestamp_ms)
        assert found == expected, f"time {timestamp_ms}: {found}, not {expected}"
    assert largest_timestamp(log) == model.largest_timestamp()


def check_epochs(log: Log, model: LogModel) -> None:
    """An epoch that has no record (yet) may be known or not; the model goes on with that."""
    found, expected = (
        [entry for entry in epochs.entries if entry.start_offset < model.end_offset]
        for epochs in (log.epochs, model.epochs)
    )
    assert found == expected, f"{log.epochs}, not {model.epochs}"
    model.epochs = LeaderEpochs(log.epochs.entries)
    for batch in model.from_offset(model.start_offset):
        offset = max(batch.header.base_offset, model.start_offset)
        assert log.epochs.epoch_at(offset) == batch.header.partition_leader_epoch


def settle_producers(log: Log, model: LogModel) -> None:
    """The producers' state is one that the log's batches give; the model goes on with it."""
    folds = model.folds()
    fold = next((fold for fold in folds if _same_producers(log, fold)), None)
    assert fold is not None, f"{log.producers}, not {[fold.producers for fold in folds]}"
    model.producers = fold.producers
    check_aborted(log, model, folds)
    for entry in fold.producers:
        if entry.batches:
            header = next(
                batch.header
                for batch in model.batches
                if batch.header.last_offset == entry.batches[-1].last_offset
            )
            duplicate = log.producers.check(header, from_client=True)
            assert duplicate, f"producer {entry.producer_id} could write its last batch twice"
            assert duplicate.first_offset == header.base_offset


def _same_producers(log: Log, fold: Fold) -> bool:
    return (
        durable_part(log.producers) == durable_part(fold.producers)
        and log.producers.first_unstable_offset == fold.producers.first_unstable_offset
    )


def check_aborted(log: Log, model: LogModel, folds: list[Fold]) -> None:
    """Each marker in the log has the entry that one of the possible states gives it."""
    start, end = model.start_offset, model.end_offset
    entries = log.aborted_transactions(start, end)
    found = {entry.last_offset: entry for entry in entries}
    assert len(found) == len(entries), f"a transaction was aborted twice: {entries}"
    for batch in model.from_offset(start):
        if batch.marker is not None:
            offset = batch.header.base_offset
            expected = [fold.aborted.get(offset) for fold in folds]
            entry = found.pop(offset, None)
            assert entry in expected, f"aborted at {offset}: {entry}, not one of {expected}"
    assert not found, f"aborted transactions that never were: {found}"
