"""The faults that a simulated disk injects on request."""

import errno
from collections.abc import Callable

import pytest

from ottla.seams.files import read_file, write_all
from tests.sim.seams.clock import SimClock
from tests.sim.seams.disk import SimDisk
from tests.sim.seams.faults import FaultRates


def errno_of(action: Callable[[], object]) -> int | None:
    with pytest.raises(OSError) as caught:
        action()
    return caught.value.errno


def test_a_failed_sync_loses_bytes_that_no_later_sync_restores() -> None:
    for seed in range(50):
        disk = SimDisk(seed)
        files = disk.process()
        file = files.create("/a")
        files.sync_dir("/")
        write_all(file, 0, [b"first"])
        file.sync()
        write_all(file, 5, [b"second"])
        disk.faults.fail_next_sync("/a")
        assert errno_of(file.sync) == errno.EIO
        assert file.read_at(0, 99) == b"firstsecond"
        write_all(file, 11, [b"third"])
        file.sync()
        assert file.read_at(0, 99) == b"firstsecondthird"
        disk.power_loss()
        assert disk.files() == {"/a": b"first" + bytes(6) + b"third"}, f"seed {seed}"


def test_writing_the_bytes_again_after_a_failed_sync_saves_them() -> None:
    disk = SimDisk(3)
    files = disk.process()
    file = files.create("/a")
    files.sync_dir("/")
    write_all(file, 0, [b"content"])
    disk.faults.fail_next_sync()
    assert errno_of(file.sync) == errno.EIO
    write_all(file, 0, [b"content"])
    file.sync()
    disk.power_loss()
    assert disk.files() == {"/a": b"content"}


def test_a_full_disk_accepts_the_bytes_that_fit_and_then_none_until_space_is_freed() -> None:
    disk = SimDisk(4, capacity_bytes=1000)
    files = disk.process()
    other = files.create("/other")
    write_all(other, 0, [b"x" * 400])
    file = files.create("/a")
    assert file.write_at(0, [b"y" * 1000]) == 600
    assert files.free_bytes("/") == 0
    assert errno_of(lambda: file.write_at(600, [b"y"])) == errno.ENOSPC
    assert errno_of(lambda: write_all(file, 600, [b"y" * 9])) == errno.ENOSPC
    assert file.write_at(0, [b"z" * 600]) == 600
    files.remove("/other")
    assert files.free_bytes("/") == 0
    other.close()
    assert files.free_bytes("/") == 400
    file.truncate(100)
    assert files.free_bytes("/") == 900
    disk.resize(2000)
    assert file.write_at(100, [b"y" * 1500]) == 1500


def test_a_hole_takes_no_space() -> None:
    files = SimDisk(5, capacity_bytes=1000).process()
    file = files.create("/a")
    file.truncate(10 << 20)
    assert (file.size(), files.free_bytes("/")) == (10 << 20, 1000)


def test_a_short_write_says_how_much_it_took() -> None:
    disk = SimDisk(6)
    files = disk.process()
    file = files.create("/a")
    disk.faults.shorten_next_write("/a", to_bytes=3)
    assert file.write_at(0, [b"abc", b"def"]) == 3
    assert file.read_at(0, 9) == b"abc"
    disk.faults.rates = FaultRates(short_write=1.0)
    assert 0 < file.write_at(3, [b"def"]) < 3
    write_all(file, 3, [b"defghijklm"])
    assert file.read_at(0, 99) == b"abcdefghijklm"


def test_scheduled_faults_strike_the_operation_the_path_and_the_moment_they_name() -> None:
    disk = SimDisk(7)
    files = disk.process()
    files.make_dir("/d")
    log, index = files.create("/d/0.log"), files.create("/d/0.index")
    disk.faults.fail_next_write("*.log", error=errno.EIO, after=1)
    disk.faults.fail_next_read("*.index")
    disk.faults.fail_next("rename", "/d/*", error=errno.EROFS)
    assert index.write_at(0, [b"x"]) == 1
    assert log.write_at(0, [b"x"]) == 1
    assert errno_of(lambda: log.write_at(1, [b"x"])) == errno.EIO
    assert log.write_at(1, [b"x"]) == 1
    assert errno_of(lambda: index.read_at(0, 1)) == errno.EIO
    assert index.read_at(0, 1) == b"x"
    with pytest.raises(OSError) as caught:
        files.rename("/d/0.log", "/d/1.log")
    assert (caught.value.filename, caught.value.filename2) == ("/d/0.log", "/d/1.log")
    files.rename("/d/0.log", "/d/1.log")
    disk.faults.fail_next_sync()
    disk.faults.clear()
    log.sync()


def test_a_flipped_bit_is_read_and_outlives_a_power_loss() -> None:
    disk = SimDisk(8)
    files = disk.process()
    file = files.create("/a")
    write_all(file, 0, [bytes(100)])
    file.sync()
    files.sync_dir("/")
    assert disk.flip_bit("/a", position=40) == ("/a", 40)
    damaged = file.read_at(0, 100)
    assert damaged[40].bit_count() == 1
    assert damaged.count(0) == 99
    path, position = disk.flip_bit()
    assert path == "/a"
    assert 0 <= position < 100
    damaged = file.read_at(0, 100)
    disk.power_loss()
    assert disk.files() == {"/a": damaged}
    with pytest.raises(FileNotFoundError):
        disk.flip_bit("/none")


def test_rot_found_by_a_read_is_there_for_the_next_one() -> None:
    disk = SimDisk(9)
    files = disk.process()
    file = files.create("/a")
    write_all(file, 0, [bytes(50)])
    disk.faults.rates = FaultRates(bit_flip=1.0)
    damaged = file.read_at(0, 50)
    assert sum(byte.bit_count() for byte in damaged) == 1
    disk.faults.clear()
    assert file.read_at(0, 50) == damaged


def test_faults_at_a_rate_strike_about_as_often_and_follow_the_seed() -> None:
    def run(seed: int) -> tuple[int, str]:
        disk = SimDisk(seed)
        file = disk.process().create("/a")
        disk.faults.rates = FaultRates(read_error=0.2, write_error=0.2, sync_error=0.2)
        failures = 0
        for _ in range(100):
            for action in (file.sync, lambda: file.read_at(0, 1), lambda: file.write_at(0, [b"x"])):
                try:
                    action()
                except OSError:
                    failures += 1
        return failures, disk.trace_hash()

    assert run(10) == run(10)
    assert run(10)[1] != run(11)[1]
    assert 30 < run(10)[0] < 90


def test_a_stalling_disk_lets_virtual_time_pass() -> None:
    clock = SimClock()
    disk = SimDisk(11, clock=clock)
    disk.faults.rates = FaultRates(stall=1.0, stall_ms_max=20)
    disk.process().create("/a")
    assert 1_000_000 <= clock.steady_ns() <= 20_000_000


def test_a_process_that_leaks_handles_runs_out_of_them() -> None:
    files = SimDisk(12).process(descriptors_max=2)
    files.create("/a")
    held = files.create("/b")
    assert errno_of(lambda: files.create("/c")) == errno.EMFILE
    assert not files.exists("/c")
    assert files.open_paths() == ["/a", "/b"]
    held.close()
    files.create("/c").close()
    assert errno_of(held.fileno) == errno.ENOTSUP


def test_a_path_that_is_not_plain_and_absolute_is_our_own_fault() -> None:
    files = SimDisk(13).process()
    for path in ("a", "./a", "/a/../b", "/./a"):
        with pytest.raises(ValueError, match="path"):
            files.exists(path)


def test_a_disk_read_back_through_another_process_is_the_same_disk() -> None:
    disk = SimDisk(14)
    one, other = disk.process(), disk.process()
    write_all(one.create("/a"), 0, [b"shared"])
    assert read_file(other, "/a") == b"shared"
