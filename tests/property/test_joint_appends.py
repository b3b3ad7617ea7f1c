"""A joint append leaves the same log as appending its batches one by one."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.batch import Record, build, read_header
from ottla.seams.files import RealFiles
from ottla.storage.log.config import LogConfig
from ottla.storage.log.log import Log
from tests.support.storage.workbench import NOW_MS, Workbench, append, content
from tests.support.time_searches import largest_timestamp, offset_for_time

CONFIG = LogConfig(segment_bytes=3000, index_interval_bytes=200, tail_batches_max=16)


def batch(times: list[int], value_bytes: int, producer: tuple[int, int] | None) -> bytearray:
    records = [Record(offset, time, None, b"v" * value_bytes) for offset, time in enumerate(times)]
    if producer is None:
        return build(records)
    return build(records, producer_id=producer[0], producer_epoch=0, base_sequence=producer[1])


@st.composite
def turns(draw: st.DrawFn) -> list[list[bytearray]]:
    """The batches of several turns; producers number them, and sometimes retry."""
    sequences: dict[int, int] = {}
    latest: dict[int, bytearray] = {}
    found = []
    for _ in range(draw(st.integers(1, 8))):
        turn = []
        for _ in range(draw(st.integers(1, 6))):
            producer = draw(st.sampled_from([None, None, 1, 2]))
            if producer in latest and draw(st.booleans()):
                turn.append(latest[producer])
                continue
            times = draw(st.lists(st.integers(NOW_MS - 50, NOW_MS + 50), min_size=1, max_size=3))
            sequence = sequences.get(producer or 0, 0)
            number = None if producer is None else (producer, sequence)
            made = batch(times, draw(st.integers(0, 120)), number)
            if producer is not None:
                sequences[producer] = sequence + len(times)
                latest[producer] = made
            turn.append(made)
        found.append(turn)
    return found


def append_together(log: Log, turn: list[bytearray]) -> None:
    batches = [(memoryview(each), read_header(each)) for each in turn]
    end_offset = log.end_offset
    appended = log.append_together(batches, leader_epoch=0)
    if appended is None:
        assert log.end_offset == end_offset
        for each in turn:
            append(log, each)
        return
    first_offsets = []
    for each in turn:
        first_offsets.append(end_offset)
        end_offset += read_header(each).count
    assert appended.first_offsets == first_offsets
    assert appended.record_count == end_offset - first_offsets[0]
    assert appended.size_bytes == sum(map(len, turn))


def state(log: Log) -> tuple[object, ...]:
    return (
        log.end_offset,
        log.messages_unflushed,
        content(log),
        [(each.base_offset, each.size_bytes, each.largest_timestamp) for each in log.segments],
        largest_timestamp(log),
        [offset_for_time(log, NOW_MS + each) for each in range(-60, 60, 7)],
    )


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


@settings(derandomize=True, deadline=None, max_examples=60)
@given(arrivals=turns())
def test_a_turn_appended_together_leaves_what_its_batches_would_leave_one_by_one(
    arrivals: list[list[bytearray]],
) -> None:
    with TemporaryDirectory() as place:
        together = Workbench(RealFiles(), f"{place}/together").open(CONFIG)
        alone = Workbench(RealFiles(), f"{place}/alone").open(CONFIG)
        for turn in arrivals:
            append_together(together, turn)
            for each in turn:
                append(alone, each)
        assert state(together) == state(alone)
        for log in (together, alone):
            log.roll()
        assert files_of(Path(place, "together")) == files_of(Path(place, "alone"))
