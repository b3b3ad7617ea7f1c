"""A limited number of files is open, and whoever holds one keeps it."""

import gc
import os
from pathlib import Path

import pytest

from ottla.seams.files import RealFiles
from ottla.storage.log.file_pool import FilePool
from ottla.storage.log.log import Log
from tests.support.storage.workbench import Workbench, content, fill


def test_a_file_is_opened_once_and_handed_out_again(bench: Workbench) -> None:
    pool = FilePool(bench.files)
    created = pool.create(bench.path("a"))
    assert pool.get(bench.path("a")) is created
    with pytest.raises(FileNotFoundError):
        pool.get(bench.path("b"))


def test_the_least_recently_used_file_is_forgotten_first(bench: Workbench) -> None:
    pool = FilePool(bench.files, open_max=2)
    first, second = pool.create(bench.path("a")), pool.create(bench.path("b"))
    pool.get(bench.path("a"))
    pool.create(bench.path("c"))
    assert pool.get(bench.path("a")) is first
    assert pool.get(bench.path("b")) is not second


def test_a_forgotten_name_is_opened_anew(bench: Workbench) -> None:
    pool = FilePool(bench.files)
    old = pool.create(bench.path("a"))
    pool.forget(bench.path("a"))
    bench.files.remove(bench.path("a"))
    assert pool.create(bench.path("a")) is not old
    pool.forget_below(bench.directory)
    assert pool.get(bench.path("a")) is not old


def test_a_slice_stays_good_when_its_file_is_evicted(bench: Workbench) -> None:
    log = bench.open(open_files_max=1)
    fill(log, 3)
    expected = content(log)
    found = log.read(0, bytes_max=1 << 20)
    assert found is not None
    fill(log, 50)
    content(log)
    assert found.read() == expected


def test_a_slice_stays_good_when_its_segment_is_deleted(bench: Workbench) -> None:
    log = bench.open()
    fill(log, 30)
    found = log.read(0, bytes_max=1 << 20)
    assert found is not None
    expected = found.read()
    for path in log.drop_segments(len(log.segments) - 1):
        bench.files.remove(path)
    assert found.read() == expected


def test_a_log_of_many_segments_is_used_with_few_files_open(bench: Workbench) -> None:
    log = bench.open(open_files_max=2)
    fill(log, 100)
    assert len(log.segments) > 5
    log.flush()
    log.truncate(40)
    assert content(log) == content(bench.open())


def open_below(directory: Path) -> list[str]:
    """The files there that this process has open; who else runs in it opens others."""
    descriptors = Path("/proc/self/fd").iterdir()
    paths = [os.path.realpath(descriptor) for descriptor in descriptors]
    return [path for path in paths if path.startswith(f"{directory}/")]


def test_descriptors_of_forgotten_files_are_given_back(tmp_path: Path) -> None:
    def use() -> Log:
        log = Workbench(RealFiles(), f"{tmp_path}/t-{len(os.listdir(tmp_path))}").open(
            open_files_max=4
        )
        fill(log, 100)
        content(log)
        return log

    logs = [use() for _ in range(3)]
    gc.collect()
    assert 0 < len(open_below(tmp_path)) <= 3 * 4
    for log in logs:
        log.close()
    del logs
    gc.collect()
    assert open_below(tmp_path) == []
