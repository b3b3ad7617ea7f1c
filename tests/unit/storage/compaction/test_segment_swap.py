"""A compaction that was cut short is finished at the next start, or undone, wherever it stopped."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from ottla.errors import CorruptLog
from ottla.protocol.batch import read_header
from ottla.seams.files import Files, read_file, write_all
from ottla.storage.compaction.segment_swap import CLEANED, SWAP, settle_compaction
from ottla.storage.log.config import LogConfig
from ottla.storage.log.log import Log
from ottla.storage.log.segment import LOG, SUFFIXES, segment_path
from tests.sim.seams.disk import SimDisk
from tests.sim.seams.files import SimFiles
from tests.support.storage.workbench import Workbench, content, fill, offsets

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=100)
RECORDS = 60


class Cut(Exception):
    """The process dies here."""


def filled(bench: Workbench) -> Log:
    """A log of several segments, all flushed."""
    log = bench.open(CONFIG)
    fill(log, RECORDS)
    log.flush()
    bench.checkpoint(log)
    bench.files.sync_dir(bench.directory.rpartition("/")[0] or "/")
    assert len(log.segments) > 4
    return log


def output_of(bench: Workbench, bases: list[int], *, empty: bool = False) -> dict[int, bytes]:
    """What a compaction of these segments could make: every other batch, and always the last."""
    kept = b""
    for base in bases:
        batches = read_file(bench.files, segment_path(bench.directory, base, LOG))
        position = 0
        while position < len(batches):
            header = read_header(batches, position)
            is_last = base == bases[-1] and position + header.size == len(batches)
            if header.base_offset % 2 == 0 or is_last:
                kept += batches[position : position + header.size]
            position += header.size
    return {bases[0]: b"" if empty else kept}


def write_output(files: Files, directory: str, output: dict[int, bytes], suffix: str) -> None:
    for base, batches in output.items():
        for kind in SUFFIXES[:3]:
            file = files.create(segment_path(directory, base, kind) + suffix)
            write_all(file, 0, [batches if kind == LOG else b""])
            file.sync()
            file.close()


def compact(files: Files, directory: str, bases: list[int], output: dict[int, bytes]) -> None:
    """The steps of a compaction, as they are promised to be done."""
    write_output(files, directory, output, CLEANED)
    files.sync_dir(directory)
    for base in sorted(output, reverse=True):
        for kind in SUFFIXES[:3]:
            path = segment_path(directory, base, kind)
            files.rename(path + CLEANED, path + SWAP)
    files.sync_dir(directory)
    for base in bases:
        for kind in SUFFIXES:
            path = segment_path(directory, base, kind)
            if files.exists(path):
                files.rename(path, path + ".deleted")
    files.sync_dir(directory)
    for base in output:
        for kind in SUFFIXES[:3]:
            path = segment_path(directory, base, kind)
            files.rename(path + SWAP, path)
    files.sync_dir(directory)


def under_way(bench: Workbench) -> list[str]:
    return bench.names(SWAP) + bench.names(CLEANED) + bench.names(".deleted")


def test_a_complete_output_takes_the_place_of_what_it_was_made_from(bench: Workbench) -> None:
    log = filled(bench)
    bases = [segment.base_offset for segment in log.segments[1:3]]
    output = output_of(bench, bases)
    write_output(bench.files, bench.directory, output, SWAP)
    reopened = bench.open(CONFIG)
    expected = [
        offset
        for offset in range(RECORDS)
        if not bases[0] <= offset < log.segments[3].base_offset - 1 or offset % 2 == 0
    ]
    assert offsets(reopened) == expected
    assert [each.base_offset for each in reopened.segments] == [
        each.base_offset for each in log.segments if each.base_offset != bases[1]
    ]
    assert under_way(bench) == []
    assert read_file(bench.files, segment_path(bench.directory, bases[0], LOG)) == output[bases[0]]


def test_an_output_that_is_not_complete_is_undone_with_all_that_belongs_to_it(
    bench: Workbench,
) -> None:
    """The last segments of an output are swapped in first: those before are still `.cleaned`."""
    log = filled(bench)
    before = content(log)
    bases = [segment.base_offset for segment in log.segments[1:4]]
    write_output(bench.files, bench.directory, output_of(bench, bases[:1]), CLEANED)
    write_output(bench.files, bench.directory, output_of(bench, bases[1:2]), SWAP)
    write_output(bench.files, bench.directory, output_of(bench, bases[2:]), CLEANED)
    reopened = bench.open(CONFIG)
    assert content(reopened) == before
    assert under_way(bench) == []


def test_an_output_before_the_one_that_is_not_complete_is_finished(bench: Workbench) -> None:
    log = filled(bench)
    bases = [segment.base_offset for segment in log.segments]
    first = output_of(bench, bases[:1])
    write_output(bench.files, bench.directory, first, SWAP)
    write_output(bench.files, bench.directory, output_of(bench, bases[2:3]), CLEANED)
    reopened = bench.open(CONFIG)
    assert read_file(bench.files, segment_path(bench.directory, 0, LOG)) == first[0]
    assert offsets(reopened)[-40:] == list(range(RECORDS - 40, RECORDS))
    assert under_way(bench) == []


def test_an_empty_output_takes_the_place_of_its_segment_and_its_indexes(bench: Workbench) -> None:
    log = filled(bench)
    second, third = (segment.base_offset for segment in log.segments[1:3])
    write_output(bench.files, bench.directory, output_of(bench, [second], empty=True), SWAP)
    reopened = bench.open(CONFIG)
    assert offsets(reopened) == [*range(second), *range(third, RECORDS)]


def test_the_hole_before_the_next_segment_is_no_damage_though_nothing_vouches_for_it(
    bench: Workbench,
) -> None:
    """Kafka compacts what it has not flushed."""
    log = filled(bench)
    bench.recovery_point = 0
    second, third = (segment.base_offset for segment in log.segments[1:3])
    write_output(bench.files, bench.directory, output_of(bench, [second], empty=True), SWAP)
    assert offsets(bench.open(CONFIG)) == [*range(second), *range(third, RECORDS)]


def test_an_output_that_cannot_be_read_replaces_nothing(bench: Workbench) -> None:
    log = filled(bench)
    second = log.segments[1].base_offset
    write_output(bench.files, bench.directory, {second: b"garbage" * 20}, SWAP)
    with pytest.raises(CorruptLog, match="swap"):
        bench.open(CONFIG)
    assert bench.files.exists(segment_path(bench.directory, second, LOG))


def test_files_of_other_names_are_left_alone(bench: Workbench) -> None:
    filled(bench)
    bench.files.create(bench.path("notes.swap")).close()
    assert settle_compaction(bench.files, bench.directory) == 0
    assert bench.names(".swap") == ["notes.swap"]


@pytest.mark.parametrize("loses_power", [False, True])
def test_wherever_a_compaction_stops_its_log_is_as_before_or_as_after(loses_power: bool) -> None:
    """Every operation of the compaction, and every one of the start, is once the last."""
    outcomes = {
        settles(steps, steps_of_start, loses_power=loses_power)
        for steps in range(1, 44)
        for steps_of_start in (1_000, *range(2, 16, 2 if steps % 2 else 3))
    }
    assert outcomes == {"before", "after"}


def settles(steps: int, steps_of_start: int, *, loses_power: bool) -> str:
    """What is left of a compaction, and of the start after it, that end after so many steps."""
    disk = SimDisk(steps * 100 + steps_of_start)
    bench = Workbench(disk.process(), "/t-0")
    log = filled(bench)
    before = offsets(log)
    bases = [segment.base_offset for segment in log.segments[1:3]]
    end = log.segments[3].base_offset - 1
    after = [each for each in before if not bases[0] <= each < end or each % 2 == 0]
    output = output_of(bench, bases)
    for count, work in (
        (steps, lambda files: compact(files, "/t-0", bases, output)),
        (steps_of_start, lambda files: settle_compaction(files, "/t-0")),
    ):
        die_after(disk.process(), count, work)
        if loses_power:
            disk.power_loss(reordering=True)
    bench.restart(disk.process())
    found = offsets(bench.open(CONFIG))
    assert found in (before, after), (steps, steps_of_start)
    assert under_way(bench) == []
    return "before" if found == before else "after"


def die_after(files: SimFiles, steps: int, work: Callable[[Any], object]) -> None:
    """Does `work` in a process that dies when it wants the disk once more than so many times."""
    left = steps

    class Dying:
        def __getattr__(self, name: str) -> Callable[..., Any]:
            def operate(*args: Any, **named: Any) -> Any:
                nonlocal left
                if left == 0:
                    raise Cut
                left -= 1
                return getattr(files, name)(*args, **named)

            return operate

    with suppress(Cut):
        work(Dying())
    files.crash()
