"""DeleteRecords: partitions start later from now on, with one checkpoint per directory."""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.errors import ErrorCode, PeerError, StorageError
from ottla.replication.housekeeping.checkpointer import Checkpointer, NewStart
from ottla.replication.offsets import start_after_deletion
from ottla.replication.replica import Replica
from ottla.storage.directory.directories import LogDirectories


class Deletion(NamedTuple):
    """What is to go of a partition: all before an offset."""

    replica: Replica
    offset: int


async def delete_before(
    deletions: Sequence[Deletion], directories: LogDirectories, checkpointer: Checkpointer
) -> list[int | PeerError]:
    """Where each partition starts now, durably; or why it was refused.

    Segments that lie wholly before it go with the next round of retention.
    """
    answers = [_start_of(each) for each in deletions]
    starts: dict[str, list[NewStart]] = {}
    for deletion, answer in zip(deletions, answers, strict=True):
        log = deletion.replica.log
        if log is not None and isinstance(answer, int):
            home = directories.home_of(log)
            starts.setdefault(home.path, []).append(NewStart(log, answer))
    faults: dict[str, Exception] = {}
    for directory in directories.directories:
        try:
            await checkpointer.save_starts(directory, starts.get(directory.path, ()))
        except (OSError, StorageError) as error:
            faults[directory.path] = error
    return [
        answer if isinstance(answer, PeerError) else _outcome(deletion.replica, answer, faults)
        for deletion, answer in zip(deletions, answers, strict=True)
    ]


def _start_of(deletion: Deletion) -> int | PeerError:
    try:
        return start_after_deletion(deletion.replica, deletion.offset)
    except PeerError as error:
        return error


def _outcome(replica: Replica, start_offset: int, faults: dict[str, Exception]) -> int | PeerError:
    log = replica.log
    if replica.start_offset >= start_offset and (log is None or log.offline is None):
        # Whoever waits below the new start must hear of it.
        replica.waiting.wake_all()
        return replica.start_offset
    if log is None:
        return PeerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "it was deleted meanwhile")
    fault = log.offline or faults.get(log.directory.rpartition("/")[0])
    return PeerError(ErrorCode.KAFKA_STORAGE_ERROR, str(fault or "it was cut meanwhile"))
