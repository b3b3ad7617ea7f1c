import pytest

from ottla.storage.log.segment import OFFSETS, TIMES
from ottla.storage.opening.index_repair import mend_indexes
from tests.support.storage.workbench import Workbench, fill


def closed(bench: Workbench) -> None:
    log = bench.open()
    fill(log, 30)
    log.close()


@pytest.mark.parametrize("suffix", [OFFSETS, TIMES])
def test_a_missing_index_is_rebuilt_as_it_was(sim_bench: Workbench, suffix: str) -> None:
    closed(sim_bench)
    name = sim_bench.names(suffix)[0]
    file = sim_bench.files.open(sim_bench.path(name))
    before = file.read_at(0, file.size())
    sim_bench.files.remove(sim_bench.path(name))
    log = sim_bench.open(is_clean=True)
    index = log.segments[0].offsets if suffix == OFFSETS else log.segments[0].times
    index.write()
    assert index.file.read_at(0, index.size_bytes) == before


@pytest.mark.parametrize("suffix", [OFFSETS, TIMES])
def test_an_index_of_no_whole_entries_is_rebuilt(sim_bench: Workbench, suffix: str) -> None:
    closed(sim_bench)
    log = sim_bench.open(is_clean=True)
    first = log.segments[0]
    assert mend_indexes(sim_bench.files, list(log.segments), len(log.segments)) == []
    path = first.path(suffix)
    sim_bench.files.open(path).write_at(sim_bench.files.size(path), [b"?"])
    assert mend_indexes(sim_bench.files, list(log.segments), len(log.segments)) == [first]


def test_segments_beyond_the_trusted_ones_are_left_to_the_scan(sim_bench: Workbench) -> None:
    closed(sim_bench)
    log = sim_bench.open(is_clean=True)
    last = log.segments[-1]
    sim_bench.files.remove(last.path(OFFSETS))
    all_but_last = len(log.segments) - 1
    assert mend_indexes(sim_bench.files, list(log.segments), all_but_last) == []
    assert mend_indexes(sim_bench.files, list(log.segments), len(log.segments)) == [last]
