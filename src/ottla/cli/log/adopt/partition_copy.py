"""Copies a partition's directory: whole and durable under its name, or not there at all."""

from contextlib import closing

from ottla.cli.log.adopt.survey import SurveyedPartition
from ottla.cli.log.broker_files import UNFINISHED
from ottla.cli.log.progress import Advance
from ottla.seams.files import Files, write_all
from ottla.storage.opening.recovery import LEFTOVERS

COPY_BYTES = 1 << 20
ZEROS = bytes(COPY_BYTES)


def copy_partition(
    files: Files, source: SurveyedPartition, target_directory: str, advance: Advance
) -> str:
    """The path of the copy. What an earlier attempt finished is not copied again."""
    target = f"{target_directory}/{source.partition}"
    if files.exists(target):
        return target
    unfinished = f"{target}{UNFINISHED}"
    if files.exists(unfinished):
        for name in files.list(unfinished):
            files.remove(f"{unfinished}/{name}")
    else:
        files.make_dir(unfinished)
    for name in files.list(source.path):
        if not name.endswith(LEFTOVERS):
            _copy_file(files, f"{source.path}/{name}", f"{unfinished}/{name}", advance)
    files.sync_dir(unfinished)
    files.rename(unfinished, target)
    files.sync_dir(target_directory)
    return target


def _copy_file(files: Files, source_path: str, target_path: str, advance: Advance) -> None:
    """Durable on return. Room that an index set aside stays a hole."""
    with (
        closing(files.open(source_path, writable=False)) as source,
        closing(files.create(target_path)) as target,
    ):
        size = source.size()
        for position in range(0, size, COPY_BYTES):
            chunk = source.read_at(position, COPY_BYTES)
            if chunk != ZEROS[: len(chunk)]:
                write_all(target, position, [chunk])
            advance(len(chunk))
        target.truncate(size)
        target.sync()
