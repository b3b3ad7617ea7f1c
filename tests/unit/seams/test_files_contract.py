"""The contract of `Files`, tested on the kernel's and on the simulated file system."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.seams.files import Files, RealFiles, read_file, replace_file, write_all
from tests.sim.seams.disk import SimDisk

ROOT = "/simulated"


@pytest.fixture(params=["real", "simulated"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    if request.param == "real":
        return RealFiles(), str(tmp_path)
    files = SimDisk(seed_of(request)).process()
    files.make_dir(ROOT)
    return files, ROOT


def seed_of(request: pytest.FixtureRequest) -> int:
    return len(request.node.name)


def refused(action: Callable[[], object], code: int, *names: str) -> OSError:
    """The action's OSError, which must have this errno and these file names."""
    with pytest.raises(OSError) as caught:
        action()
    error = caught.value
    assert errno.errorcode[error.errno or 0] == errno.errorcode[code]
    assert [name for name in (error.filename, error.filename2) if name is not None] == list(names)
    assert type(error) is type(OSError(code, ""))
    return error


def put(files: Files, path: str, content: bytes = b"") -> None:
    file = files.create(path)
    write_all(file, 0, [content])
    file.close()


def test_parts_are_written_one_after_another_and_read_back(place: tuple[Files, str]) -> None:
    files, root = place
    file = files.create(f"{root}/a")
    assert file.path == f"{root}/a"
    assert file.write_at(0, [b"one", bytearray(b"two"), memoryview(b"three")]) == 11
    assert file.read_at(0, 11) == b"onetwothree"
    assert file.read_at(3, 3) == b"two"
    assert file.read_at(6, 100) == b"three"
    assert file.read_at(11, 5) == b""
    assert file.read_at(100, 5) == b""
    assert file.size() == files.size(f"{root}/a") == 11
    file.close()


def test_a_warmed_range_is_warm_and_unchanged(place: tuple[Files, str]) -> None:
    files, root = place
    content = bytes(range(256)) * 2_000
    file = files.create(f"{root}/a")
    write_all(file, 0, [content])
    file.sync()
    file.warm(0, len(content))
    file.warm(len(content) - 10, 1_000_000)  # as far as there is anything
    assert file.is_warm(0)
    assert file.is_warm(len(content) - 1)
    assert file.read_at(0, len(content)) == content
    file.close()


def test_a_write_beyond_the_end_leaves_a_hole_of_zeros(place: tuple[Files, str]) -> None:
    files, root = place
    file = files.create(f"{root}/a")
    assert file.write_at(4, [b"x"]) == 1
    assert file.read_at(0, 10) == b"\0\0\0\0x"
    file.close()


def test_an_overwrite_changes_only_its_own_bytes(place: tuple[Files, str]) -> None:
    files, root = place
    put(files, f"{root}/a", b"0123456789")
    file = files.open(f"{root}/a")
    assert file.write_at(3, [b"xyz"]) == 3
    assert file.read_at(0, 99) == b"012xyz6789"
    file.close()


def test_truncate_cuts_and_extends_with_zeros(place: tuple[Files, str]) -> None:
    files, root = place
    put(files, f"{root}/a", b"0123456789")
    file = files.open(f"{root}/a")
    file.truncate(4)
    assert file.read_at(0, 99) == b"0123"
    file.truncate(6)
    assert file.read_at(0, 99) == b"0123\0\0"
    file.truncate(50 << 20)
    assert file.size() == 50 << 20
    assert file.read_at((50 << 20) - 2, 9) == b"\0\0"
    file.close()


def test_no_parts_write_nothing_and_empty_reads_are_empty(place: tuple[Files, str]) -> None:
    files, root = place
    file = files.create(f"{root}/a")
    assert file.write_at(7, []) == 0
    assert file.write_at(7, [b"", b""]) == 0
    assert file.size() == 0
    assert file.read_at(0, 0) == b""
    file.close()


def test_bad_positions_are_refused(place: tuple[Files, str]) -> None:
    files, root = place
    file = files.create(f"{root}/a")
    refused(lambda: file.read_at(-1, 1), errno.EINVAL)
    refused(lambda: file.read_at(0, -1), errno.EINVAL)
    refused(lambda: file.write_at(-2, [b"x"]), errno.EINVAL)
    refused(lambda: file.truncate(-1), errno.EINVAL)
    file.close()


def test_more_parts_than_the_kernel_takes_are_refused(place: tuple[Files, str]) -> None:
    files, root = place
    file = files.create(f"{root}/a")
    assert file.write_at(0, [b"x"] * 1024) == 1024
    refused(lambda: file.write_at(0, [b"x"] * 1025), errno.EINVAL)
    file.close()


def test_a_file_opened_for_reading_cannot_be_changed(place: tuple[Files, str]) -> None:
    files, root = place
    put(files, f"{root}/a", b"abc")
    file = files.open(f"{root}/a", writable=False)
    assert file.read_at(0, 3) == b"abc"
    refused(lambda: file.write_at(0, [b"x"]), errno.EBADF)
    refused(lambda: file.truncate(0), errno.EINVAL)
    file.sync()
    file.close()


def test_a_closed_file_refuses_everything_but_another_close(place: tuple[Files, str]) -> None:
    files, root = place
    file = files.create(f"{root}/a")
    file.close()
    file.close()
    refused(file.size, errno.EBADF)
    refused(lambda: file.read_at(0, 1), errno.EBADF)
    refused(lambda: file.write_at(0, [b"x"]), errno.EBADF)
    refused(lambda: file.truncate(0), errno.EBADF)


def test_open_and_create_know_whether_the_name_is_taken(place: tuple[Files, str]) -> None:
    files, root = place
    refused(lambda: files.open(f"{root}/a"), errno.ENOENT, f"{root}/a")
    refused(lambda: files.size(f"{root}/a"), errno.ENOENT, f"{root}/a")
    put(files, f"{root}/a")
    refused(lambda: files.create(f"{root}/a"), errno.EEXIST, f"{root}/a")
    refused(lambda: files.open(root), errno.EISDIR, root)
    refused(lambda: files.create(root), errno.EEXIST, root)


def test_the_way_to_a_name_must_be_directories(place: tuple[Files, str]) -> None:
    files, root = place
    put(files, f"{root}/file")
    for below, code in ((f"{root}/none/x", errno.ENOENT), (f"{root}/file/x", errno.ENOTDIR)):
        refused(lambda path=below: files.open(path), code, below)
        refused(lambda path=below: files.create(path), code, below)
        refused(lambda path=below: files.make_dir(path), code, below)
        refused(lambda path=below: files.remove(path), code, below)
        refused(lambda path=below: files.remove_dir(path), code, below)
        refused(lambda path=below: files.list(path), code, below)
        refused(lambda path=below: files.lock(path), code, below)
        refused(lambda path=below: files.free_bytes(path), code, below)
        refused(lambda path=below: files.total_bytes(path), code, below)
        refused(lambda path=below: files.rename(path, f"{root}/y"), code, below, f"{root}/y")
        assert not files.exists(below)
        assert not files.is_dir(below)


def test_a_name_too_long_is_refused(place: tuple[Files, str]) -> None:
    files, root = place
    longest = f"{root}/{'n' * 255}"
    put(files, longest)
    assert files.exists(longest)
    refused(lambda: files.create(f"{longest}n"), errno.ENAMETOOLONG, f"{longest}n")
    accented = f"{root}/{'é' * 128}"
    refused(lambda: files.make_dir(accented), errno.ENAMETOOLONG, accented)


def test_a_directory_lists_its_names_sorted(place: tuple[Files, str]) -> None:
    files, root = place
    files.make_dir(f"{root}/d")
    assert files.list(f"{root}/d") == []
    for name in ("b", "a", "c10", "c9"):
        put(files, f"{root}/d/{name}")
    assert files.list(f"{root}/d") == ["a", "b", "c10", "c9"]
    assert files.is_dir(f"{root}/d")
    assert not files.is_dir(f"{root}/d/a")
    refused(lambda: files.make_dir(f"{root}/d"), errno.EEXIST, f"{root}/d")
    refused(lambda: files.make_dir(f"{root}/d/a"), errno.EEXIST, f"{root}/d/a")
    refused(lambda: files.list(f"{root}/d/a"), errno.ENOTDIR, f"{root}/d/a")


def test_remove_takes_files_and_remove_dir_empty_directories(place: tuple[Files, str]) -> None:
    files, root = place
    files.make_dir(f"{root}/d")
    put(files, f"{root}/d/a")
    refused(lambda: files.remove(f"{root}/d"), errno.EISDIR, f"{root}/d")
    refused(lambda: files.remove_dir(f"{root}/d"), errno.ENOTEMPTY, f"{root}/d")
    refused(lambda: files.remove_dir(f"{root}/d/a"), errno.ENOTDIR, f"{root}/d/a")
    files.remove(f"{root}/d/a")
    refused(lambda: files.remove(f"{root}/d/a"), errno.ENOENT, f"{root}/d/a")
    files.remove_dir(f"{root}/d")
    refused(lambda: files.remove_dir(f"{root}/d"), errno.ENOENT, f"{root}/d")


def test_rename_replaces_a_file_and_moves_a_directory_whole(place: tuple[Files, str]) -> None:
    files, root = place
    put(files, f"{root}/new", b"new")
    put(files, f"{root}/old", b"old")
    files.rename(f"{root}/new", f"{root}/old")
    assert read_file(files, f"{root}/old") == b"new"
    assert files.list(root) == ["old"]
    files.rename(f"{root}/old", f"{root}/old")
    files.make_dir(f"{root}/d")
    files.rename(f"{root}/old", f"{root}/d/x")
    files.make_dir(f"{root}/empty")
    files.rename(f"{root}/d", f"{root}/empty")
    assert files.list(root) == ["empty"]
    assert read_file(files, f"{root}/empty/x") == b"new"


def test_rename_refuses_targets_that_would_break_the_tree(place: tuple[Files, str]) -> None:
    files, root = place
    for directory in ("d", "d/inner", "full"):
        files.make_dir(f"{root}/{directory}")
    put(files, f"{root}/file")
    put(files, f"{root}/full/x")

    def check(source: str, target: str, code: int) -> None:
        paths = f"{root}/{source}", f"{root}/{target}"
        refused(lambda: files.rename(*paths), code, *paths)

    check("none", "file", errno.ENOENT)
    check("file", "d", errno.EISDIR)
    check("d", "file", errno.ENOTDIR)
    check("d", "full", errno.ENOTEMPTY)
    check("d", "d/inner/deeper", errno.EINVAL)
    check("d", "d/inner", errno.EINVAL)
    check("d/inner", "d", errno.ENOTEMPTY)
    check("full/x", "full", errno.ENOTEMPTY)
    assert files.list(root) == ["d", "file", "full"]


def test_a_removed_or_replaced_file_stays_readable_through_open_descriptors(
    place: tuple[Files, str],
) -> None:
    files, root = place
    put(files, f"{root}/a", b"first")
    put(files, f"{root}/b", b"second")
    first = files.open(f"{root}/a")
    files.rename(f"{root}/b", f"{root}/a")
    second = files.open(f"{root}/a")
    files.remove(f"{root}/a")
    assert (first.read_at(0, 9), second.read_at(0, 9)) == (b"first", b"second")
    assert first.write_at(5, [b"!"]) == 1
    assert first.read_at(0, 9) == b"first!"
    put(files, f"{root}/a", b"third")
    assert first.read_at(0, 9) == b"first!"
    first.close()
    second.close()


def test_a_lock_is_one_holders_until_released(place: tuple[Files, str]) -> None:
    files, root = place
    lock = files.lock(f"{root}/.lock")
    assert files.size(f"{root}/.lock") == 0
    refused(lambda: files.lock(f"{root}/.lock"), errno.EAGAIN)
    with pytest.raises(BlockingIOError):
        files.lock(f"{root}/.lock")
    lock.release()
    lock.release()
    files.lock(f"{root}/.lock").release()
    refused(lambda: files.lock(root), errno.EISDIR, root)


def test_a_lock_whose_file_or_directory_was_moved_or_replaced_is_not_in_place(
    place: tuple[Files, str],
) -> None:
    files, root = place
    files.make_dir(f"{root}/a")
    lock = files.lock(f"{root}/a/.lock")
    assert lock.is_in_place()
    files.rename(f"{root}/a", f"{root}/b")
    assert not lock.is_in_place(), "its directory is gone"
    put(files, f"{root}/a")
    assert not lock.is_in_place(), "a file is in the place of its directory"
    files.remove(f"{root}/a")
    files.make_dir(f"{root}/a")
    put(files, f"{root}/a/.lock")
    assert not lock.is_in_place(), "another file has its name"
    files.remove(f"{root}/a/.lock")
    files.remove_dir(f"{root}/a")
    files.rename(f"{root}/b", f"{root}/a")
    assert lock.is_in_place(), "it is back"
    files.remove(f"{root}/a/.lock")
    assert not lock.is_in_place()
    lock.release()
    assert not lock.is_in_place()


def test_sync_dir_wants_a_directory(place: tuple[Files, str]) -> None:
    files, root = place
    put(files, f"{root}/a")
    files.sync_dir(root)
    refused(lambda: files.sync_dir(f"{root}/a"), errno.ENOTDIR, f"{root}/a")
    refused(lambda: files.sync_dir(f"{root}/none"), errno.ENOENT, f"{root}/none")


def test_free_bytes_are_those_of_the_file_system(place: tuple[Files, str]) -> None:
    files, root = place
    assert files.free_bytes(root) > 0
    refused(lambda: files.free_bytes(f"{root}/none"), errno.ENOENT, f"{root}/none")
    assert files.total_bytes(root) >= files.free_bytes(root)
    refused(lambda: files.total_bytes(f"{root}/none"), errno.ENOENT, f"{root}/none")


def test_read_file_reads_a_small_file_and_refuses_a_large_one(place: tuple[Files, str]) -> None:
    files, root = place
    put(files, f"{root}/a", b"12345")
    assert read_file(files, f"{root}/a", size_max=5) == b"12345"
    refused(lambda: read_file(files, f"{root}/a", size_max=4), errno.EFBIG, f"{root}/a")


def test_replace_file_puts_the_new_content_and_leaves_nothing_beside(
    place: tuple[Files, str],
) -> None:
    files, root = place
    put(files, f"{root}/a.tmp", b"left by a crash, and longer")
    replace_file(files, f"{root}/a", b"first")
    assert read_file(files, f"{root}/a") == b"first"
    replace_file(files, f"{root}/a", b"second")
    assert read_file(files, f"{root}/a") == b"second"
    assert files.list(root) == ["a"]


def test_an_embedded_null_byte_is_no_path(place: tuple[Files, str]) -> None:
    files, root = place
    with pytest.raises(ValueError, match="null"):
        files.open(f"{root}/a\0b")
