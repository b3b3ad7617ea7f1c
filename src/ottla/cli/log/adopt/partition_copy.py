"""Copies a partition directory. Its final name appears only when the copy is whole and durable."""

from contextlib import closing

from ottla.cli.log.adopt.survey import SurveyedPartition
from ottla.cli.log.broker_files import ADOPTING_SUFFIX
from ottla.cli.log.progress import Advance
from ottla.seams.files import Files, write_all
from ottla.storage.opening.recovery import LEFTOVERS

COPY_CHUNK_BYTES = 1 << 20
ZEROS = bytes(COPY_CHUNK_BYTES)


def copy_partition(
    files: Files, source: SurveyedPartition, target_directory: str, advance: Advance
) -> str:
    """Returns the path of the copy. A finished copy of an earlier attempt is kept."""
    target = f"{target_directory}/{source.partition}"
    if files.exists(target):
        return target
    unfinished = f"{target}{ADOPTING_SUFFIX}"
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
    """Durable on return. Preallocated space of an index stays sparse."""
    with (
        closing(files.open(source_path, writable=False)) as source,
        closing(files.create(target_path)) as target,
    ):
        size = source.size()
        for position in range(0, size, COPY_CHUNK_BYTES):
            chunk = source.read_at(position, COPY_CHUNK_BYTES)
            if chunk != ZEROS[: len(chunk)]:
                write_all(target, position, [chunk])
            advance(len(chunk))
        target.truncate(size)
        target.sync()
