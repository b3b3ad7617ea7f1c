"""The tail in memory and the index on disk give the same answers."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.storage.log.config import LogConfig
from ottla.storage.log.tail import Found, Tail
from tests.support.storage.workbench import Workbench, batch_of


def test_the_tail_finds_the_first_batch_that_ends_at_or_beyond() -> None:
    tail = Tail(10, 100)
    tail.add(104, 0, 50)
    tail.add(105, 50, 10)
    tail.add(120, 60, 40)
    assert tail.find(100) == tail.find(104) == Found(0, 50)
    assert tail.find(105) == Found(50, 10)
    assert tail.find(106) == tail.find(120) == Found(60, 40)


def test_the_tail_knows_nothing_before_its_start_nor_behind_its_end() -> None:
    tail = Tail(10, 100)
    tail.add(104, 0, 50)
    assert tail.find(99) is None
    assert tail.find(105) is None


def test_the_tail_knows_the_offset_behind_the_batches_before_a_position() -> None:
    tail = Tail(10, 100)
    tail.add(104, 1000, 50)
    tail.add(105, 1050, 10)
    found = [tail.offset_behind(position) for position in (999, 1000, 1001, 1050, 1051, 2000)]
    assert found == [None, None, 105, 105, 106, 106]


def test_a_full_tail_forgets_its_older_half() -> None:
    tail = Tail(4, 0)
    for offset in range(5):
        tail.add(offset, 10 * offset, 10)
    assert len(tail) == 3
    assert tail.start_offset == 2
    assert tail.find(1) is None
    assert [tail.find(offset) for offset in (2, 4)] == [Found(20, 10), Found(40, 10)]


def test_a_cleared_tail_begins_anew() -> None:
    tail = Tail(4, 0)
    tail.add(0, 0, 10)
    tail.clear(50)
    assert tail.find(0) is None
    tail.add(55, 0, 30)
    assert tail.find(50) == Found(0, 30)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 300)), min_size=1, max_size=40))
@settings(derandomize=True, deadline=None)
def test_every_offset_of_the_tail_is_where_it_was_put(batches: list[tuple[int, int]]) -> None:
    tail = Tail(8, 0)
    placed: list[tuple[int, Found]] = []
    offset = position = 0
    for count, size in batches:
        offset += count
        tail.add(offset - 1, position, size)
        placed += [(offset - 1, Found(position, size))] * count
        position += size
    for looked_for, (_, expected) in enumerate(placed):
        assert tail.find(looked_for) == (expected if looked_for >= tail.start_offset else None)


def test_the_tail_and_the_index_agree_at_every_offset(bench: Workbench) -> None:
    config = LogConfig(index_interval_bytes=200)
    log = bench.open(config)
    for base_offset in range(0, 400, 4):
        batch = batch_of(1, 2, base_offset=base_offset, leader_epoch=0)
        log.append_replicated(batch)
    by_tail = [log.read(offset, bytes_max=1) for offset in range(398)]
    reopened = bench.open(config)
    by_index = [reopened.read(offset, bytes_max=1) for offset in range(398)]
    assert all(found is not None for found in by_tail)
    assert [(f.position, f.size) for f in by_tail if f] == [
        (f.position, f.size) for f in by_index if f
    ]
