"""Producer state snapshots beside the segments, and the rebuild of producer state from them.

A snapshot is named by the offset up to which it covers the log. The log alone is enough to rebuild
the state, and a snapshot has a checksum, so it is written without a sync.
"""

import contextlib
from collections.abc import Sequence

from ottla.errors import CorruptLog
from ottla.seams.files import Files, read_file, write_all
from ottla.storage.log.segment import Segment
from ottla.storage.producers.state import ProducerStates

SUFFIX = ".snapshot"


def snapshot_offsets(files: Files, directory: str) -> list[int]:
    """The offsets of the snapshots in a directory, ascending."""
    names = (name.removesuffix(SUFFIX) for name in files.list(directory) if name.endswith(SUFFIX))
    return sorted(int(name) for name in names if name.isdecimal())


def write_snapshot(files: Files, directory: str, offset: int, producers: ProducerStates) -> None:
    path = _path(directory, offset)
    with contextlib.suppress(FileNotFoundError):
        files.remove(path)
    file = files.create(path)
    try:
        write_all(file, 0, [producers.encode_snapshot()])
    finally:
        file.close()


def remove_snapshots_below(files: Files, directory: str, end_offset: int) -> None:
    for offset in snapshot_offsets(files, directory):
        if offset < end_offset:
            files.remove(_path(directory, offset))


def rebuild_producers(
    files: Files,
    directory: str,
    segments: Sequence[Segment],
    start_offset: int,
    end_offset: int,
    *,
    trusted_offset: int,
    producers_max: int,
) -> ProducerStates:
    """Producer state at `end_offset`: the newest valid snapshot, and the log from there on.

    Snapshots beyond `trusted_offset` may cover records that are gone, and are removed. Aborted
    transactions that are missing in the transaction indexes are added.
    """
    first_offset = segments[0].base_offset
    producers = ProducerStates(first_offset, producers_max=producers_max)
    for offset in reversed(snapshot_offsets(files, directory)):
        path = _path(directory, offset)
        if offset > trusted_offset:
            files.remove(path)
        elif offset >= first_offset:
            try:
                producers = ProducerStates.decode_snapshot(
                    read_file(files, path), offset, path=path, producers_max=producers_max
                )
                break
            except CorruptLog:
                files.remove(path)
    for index, segment in enumerate(segments):
        is_last = index + 1 == len(segments)
        if is_last or segments[index + 1].base_offset > producers.map_end_offset:
            _replay(producers, segment, end_offset)
    producers.truncate_start(start_offset)
    return producers


def _replay(producers: ProducerStates, segment: Segment, end_offset: int) -> None:
    """Replays the batches of a segment that the state does not cover yet."""
    found = segment.find(max(producers.map_end_offset, segment.base_offset))
    if found is None:
        return
    walk = segment.walk(found.position)
    for placed in walk:
        header = placed.header
        if header.base_offset >= end_offset:
            return
        aborted = producers.replay(header, walk.marker(placed))
        if aborted and aborted.last_offset > segment.aborted.last_offset:
            segment.aborted.add(aborted)


def _path(directory: str, offset: int) -> str:
    return f"{directory}/{offset:020d}{SUFFIX}"
