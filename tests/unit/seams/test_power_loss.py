"""The state of a simulated disk after a crash and after a power loss."""

import errno
from collections import Counter
from collections.abc import Callable

import pytest

from ottla.seams.files import read_file, replace_file, write_all
from tests.sim.seams.clock import SimClock
from tests.sim.seams.disk import SimDisk
from tests.sim.seams.faults import Operation
from tests.sim.seams.files import SimFile, SimFiles

SEEDS = 200
OLD = b"o" * 3000
NEW = b"n" * 3000


def durable_file(files: SimFiles, path: str, content: bytes) -> SimFile:
    file = files.create(path)
    write_all(file, 0, [content])
    file.sync()
    files.sync_dir(path.rpartition("/")[0] or "/")
    return file


def outcomes(
    scenario: Callable[[SimFiles], None], *, reordering: bool | None = None
) -> Counter[tuple[tuple[str, bytes], ...]]:
    """The states that a power loss after the scenario leaves, counted over many seeds."""
    seen: Counter[tuple[tuple[str, bytes], ...]] = Counter()
    for seed in range(SEEDS):
        disk = SimDisk(seed)
        scenario(disk.process())
        disk.power_loss(reordering=reordering)
        seen[tuple(sorted(disk.files().items()))] += 1
    return seen


def test_synced_bytes_survive_any_later_fault() -> None:
    for seed in range(SEEDS):
        disk = SimDisk(seed)
        files = disk.process()
        file = durable_file(files, "/a", OLD)
        write_all(file, 3000, [NEW])
        files.create("/b").close()
        disk.power_loss()
        assert disk.files()["/a"][:3000] == OLD, f"seed {seed}"
        disk.power_loss()
        assert disk.files()["/a"][:3000] == OLD, f"seed {seed}, second loss"


def test_unsynced_appends_are_kept_lost_torn_or_zeroed() -> None:
    def scenario(files: SimFiles) -> None:
        file = durable_file(files, "/a", b"")
        write_all(file, 0, [NEW])

    kinds: Counter[str] = Counter()
    for files, count in outcomes(scenario).items():
        ((_, content),) = files
        kept = content.rstrip(b"\0")
        assert NEW.startswith(kept)
        assert len(content) <= len(NEW)
        if content == NEW:
            kinds["kept"] += count
        elif not content:
            kinds["lost"] += count
        elif not kept:
            kinds["zeroed"] += count
        elif len(kept) == len(content):
            kinds["torn on a sector" if len(kept) % 512 == 0 else "torn anywhere"] += count
        else:
            kinds["torn, then zeros"] += count
    assert sorted(kinds) == [
        "kept",
        "lost",
        "torn anywhere",
        "torn on a sector",
        "torn, then zeros",
        "zeroed",
    ]


def test_a_later_write_may_survive_an_earlier_one() -> None:
    def scenario(files: SimFiles) -> None:
        file = durable_file(files, "/a", b"")
        write_all(file, 0, [b"A" * 600])
        write_all(file, 600, [b"B" * 600])

    holes = [
        content
        for files in outcomes(scenario)
        for _, content in files
        if content.startswith(b"\0" * 600) and content.endswith(b"B" * 600)
    ]
    assert holes


def test_an_unsynced_overwrite_leaves_old_bytes_or_new_ones_but_no_zeros() -> None:
    def scenario(files: SimFiles) -> None:
        write_all(durable_file(files, "/a", OLD), 0, [NEW])

    contents = [content for files in outcomes(scenario) for _, content in files]
    assert {OLD, NEW} <= set(contents)
    assert any(content not in (OLD, NEW) for content in contents)
    for content in contents:
        assert set(content) <= set(OLD + NEW)
        assert len(content) == len(OLD)


def test_an_unsynced_truncate_may_be_undone() -> None:
    def scenario(files: SimFiles) -> None:
        durable_file(files, "/a", OLD).truncate(100)

    assert {content for files in outcomes(scenario) for _, content in files} == {OLD, OLD[:100]}


def test_a_new_name_needs_its_directory_synced_not_only_its_file() -> None:
    def scenario(files: SimFiles) -> None:
        file = files.create("/a")
        write_all(file, 0, [NEW])
        file.sync()

    assert set(outcomes(scenario)) == {(), (("/a", NEW),)}


def test_a_synced_name_stays_even_where_its_bytes_do_not() -> None:
    def scenario(files: SimFiles) -> None:
        write_all(files.create("/a"), 0, [NEW])
        files.sync_dir("/")

    seen = outcomes(scenario)
    assert all([path for path, _ in files] == ["/a"] for files in seen)
    assert (("/a", b""),) in seen


def test_a_rename_is_done_or_not_done_and_never_half() -> None:
    def scenario(files: SimFiles) -> None:
        files.make_dir("/d")
        durable_file(files, "/a", NEW)
        durable_file(files, "/d/a", OLD)
        files.sync_dir("/")
        files.rename("/a", "/d/a")

    for reordering in (False, True):
        before = (("/a", NEW), ("/d/a", OLD))
        assert set(outcomes(scenario, reordering=reordering)) == {before, (("/d/a", NEW),)}


def test_a_rename_synced_in_either_directory_is_durable_in_both() -> None:
    for synced in ("/", "/d"):

        def scenario(files: SimFiles, synced: str = synced) -> None:
            files.make_dir("/d")
            durable_file(files, "/a", NEW)
            files.sync_dir("/")
            files.rename("/a", "/d/b")
            files.sync_dir(synced)

        assert set(outcomes(scenario, reordering=True)) == {(("/d/b", NEW),)}


def test_a_rename_may_survive_although_the_bytes_of_its_file_did_not() -> None:
    def scenario(files: SimFiles) -> None:
        durable_file(files, "/a", OLD)
        write_all(files.create("/a.tmp"), 0, [NEW])
        files.rename("/a.tmp", "/a")

    assert (("/a", b""),) in outcomes(scenario)


@pytest.mark.parametrize("step", ["write", "sync", "rename", "sync_dir"])
def test_replace_file_stopped_at_any_step_leaves_the_old_or_the_new(step: Operation) -> None:
    for seed in range(SEEDS):
        disk = SimDisk(seed)
        files = disk.process()
        files.make_dir("/d")
        files.sync_dir("/")
        durable_file(files, "/d/a", OLD)
        disk.faults.fail_next(step)
        with pytest.raises(OSError, match="error"):
            replace_file(files, "/d/a", NEW)
        disk.power_loss()
        assert disk.files()["/d/a"] in (OLD, NEW), f"seed {seed}"


def test_replace_file_is_durable_on_return() -> None:
    def scenario(files: SimFiles) -> None:
        files.make_dir("/d")
        files.sync_dir("/")
        durable_file(files, "/d/a", OLD)
        replace_file(files, "/d/a", NEW)

    assert set(outcomes(scenario)) == {(("/d/a", NEW),)}


def test_names_survive_in_order_or_with_reordering_in_any() -> None:
    def scenario(files: SimFiles) -> None:
        for name in "abc":
            files.create(f"/{name}").close()

    def names(*, reordering: bool | None) -> set[str]:
        seen = outcomes(scenario, reordering=reordering)
        return {"".join(path[1:] for path, _ in files) for files in seen}

    in_order = {"", "a", "ab", "abc"}
    in_any_order = {"", "a", "b", "c", "ab", "ac", "bc", "abc"}
    assert names(reordering=False) == in_order
    assert names(reordering=True) == in_any_order
    assert in_order < names(reordering=None) <= in_any_order


def test_a_rename_never_survives_the_creation_it_needs() -> None:
    def scenario(files: SimFiles) -> None:
        files.create("/a").close()
        files.rename("/a", "/b")
        files.rename("/b", "/c")

    for files in outcomes(scenario, reordering=True):
        assert [path for path, _ in files] in ([], ["/a"], ["/b"], ["/c"])


def test_a_removed_directory_never_takes_files_with_it() -> None:
    def scenario(files: SimFiles) -> None:
        files.make_dir("/d")
        files.sync_dir("/")
        durable_file(files, "/d/a", OLD)
        files.rename("/d/a", "/kept")
        files.remove_dir("/d")

    for reordering in (False, True):
        seen = set(outcomes(scenario, reordering=reordering))
        assert seen == {(("/d/a", OLD),), (("/kept", OLD),)}


def test_directories_that_swap_places_never_end_up_inside_each_other() -> None:
    def scenario(files: SimFiles) -> None:
        for name in ("/p", "/q", "/r", "/p/b", "/q/a"):
            files.make_dir(name)
        durable_file(files, "/p/b/file", OLD)
        durable_file(files, "/q/a/file", NEW)
        for name in ("/p", "/q", "/"):
            files.sync_dir(name)
        files.rename("/p/b", "/q/a/b")
        files.rename("/q/a/b", "/r/b")
        files.rename("/q/a", "/r/b/a")

    for reordering in (False, True):
        for files in outcomes(scenario, reordering=reordering):
            assert sorted(content for _, content in files) == [NEW, OLD]


def test_a_file_removed_without_sync_may_come_back_whole() -> None:
    def scenario(files: SimFiles) -> None:
        durable_file(files, "/a", OLD).close()
        files.remove("/a")

    assert set(outcomes(scenario)) == {(), (("/a", OLD),)}


def test_a_process_crash_keeps_written_bytes_and_releases_locks() -> None:
    disk = SimDisk(1)
    crashed, other = disk.process(), disk.process()
    file = crashed.create("/a")
    write_all(file, 0, [NEW])
    lock = crashed.lock("/lock")
    with pytest.raises(BlockingIOError):
        other.lock("/lock")
    crashed.crash()
    assert read_file(other, "/a") == NEW
    other.lock("/lock").release()
    for use in (file.size, file.sync, lambda: file.read_at(0, 1), lambda: crashed.open("/a")):
        with pytest.raises(OSError) as caught:
            use()
        assert caught.value.errno == errno.EBADF
    file.close()
    lock.release()
    assert crashed.open_paths() == []


def test_a_power_loss_ends_every_process_and_reboots_the_machine() -> None:
    clock = SimClock()
    disk = SimDisk(2, clock=clock)
    files = disk.process()
    files.lock("/lock")
    files.sync_dir("/")
    clock.advance(ms=500)
    boot_id = clock.boot_id()
    disk.power_loss()
    assert clock.boot_id() != boot_id
    assert clock.steady_ns() == 0
    with pytest.raises(OSError) as caught:
        files.list("/")
    assert caught.value.errno == errno.EBADF
    disk.process().lock("/lock").release()


def test_free_space_is_recounted_from_the_surviving_files() -> None:
    for seed in range(SEEDS):
        disk = SimDisk(seed, capacity_bytes=10_000)
        files = disk.process()
        durable_file(files, "/a", OLD)
        write_all(files.create("/b"), 0, [NEW])
        files.remove("/a")
        disk.power_loss()
        used = 10_000 - disk.process().free_bytes("/")
        kept = sum(len(content.rstrip(b"\0")) for content in disk.files().values())
        assert kept <= used <= sum(map(len, disk.files().values())), f"seed {seed}"


def test_a_seed_run_twice_does_and_leaves_the_same() -> None:
    def run(seed: int) -> tuple[str, dict[str, bytes]]:
        disk = SimDisk(seed)
        for boot in range(3):
            files = disk.process()
            for name in "abcd":
                write_all(files.create(f"/{name}-{boot}"), 0, [NEW, name.encode()])
            files.rename(f"/a-{boot}", f"/b-{boot}")
            files.open(f"/c-{boot}").sync()
            disk.power_loss()
        return disk.trace_hash(), disk.files()

    assert [run(seed) for seed in range(20)] == [run(seed) for seed in range(20)]
    assert len({run(seed)[0] for seed in range(20)}) > 10
