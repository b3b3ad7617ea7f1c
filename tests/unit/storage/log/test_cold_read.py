import pytest

from ottla.seams.files import File
from ottla.storage.log.cold_read import ColdBytes, ColdRead, read_waiting, read_warm, reader
from tests.sim.seams.disk import SimDisk
from tests.support.storage.workbench import Workbench, fill


def log_file(bench: Workbench) -> File:
    log = bench.open()
    fill(log, 1)
    return log.segments[-1].file


def test_each_read_after_a_stop_is_larger_up_to_a_limit(sim_bench: Workbench) -> None:
    needed = ColdBytes(log_file(sim_bench), 100, 50)
    sizes = [needed.after(tries).size for tries in range(12)]
    assert sizes[:3] == [64 << 10, 128 << 10, 256 << 10]
    assert sizes[-1] == sizes[-2] == 16 << 20
    assert ColdBytes(needed.file, 0, 1 << 30).after(0).size == 1 << 30


def test_a_warm_read_stops_where_bytes_are_not_in_the_page_cache(
    sim_bench: Workbench, disk: SimDisk
) -> None:
    file = log_file(sim_bench)
    file.sync()
    assert read_warm(file, 0, 20) == read_waiting(file, 0, 20)
    disk.chill()
    with pytest.raises(ColdRead) as cold:
        read_warm(file, 0, 20)
    assert cold.value.needed == ColdBytes(file, 0, 20)
    cold.value.needed.warm()
    assert read_warm(file, 0, 20) == read_waiting(file, 0, 20)


def test_the_reader_is_chosen_by_one_flag() -> None:
    assert reader(warm_only=True) is read_warm
    assert reader(warm_only=False) is read_waiting
