"""Marks the copy of a log that moves to another log directory, with the name of its partition.

The mark is in the copy from its beginning, and stays until the original is removed durably. If a
start finds a partition in two log directories, the log with the mark is the one in use: the copy
gets the partition's name only when it has all records.
"""

from ottla.seams.files import Files, put_file, read_file

MARK = "moved-here"

_SIZE_MAX = 4096


def write_move_mark(files: Files, directory: str, name: str) -> None:
    """The first flush of the copy makes it durable. OSError."""
    put_file(files, mark_path(directory), name.encode())


def read_move_mark(files: Files, directory: str) -> str | None:
    """The name of the partition; None without a mark."""
    path = mark_path(directory)
    if not files.exists(path):
        return None
    return read_file(files, path, _SIZE_MAX).decode(errors="replace")


def remove_move_mark(files: Files, directory: str) -> None:
    """Durable on return. OSError."""
    if files.exists(mark_path(directory)):
        files.remove(mark_path(directory))
        files.sync_dir(directory)


def mark_path(directory: str) -> str:
    return f"{directory}/{MARK}"
