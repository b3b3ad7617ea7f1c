"""DeleteRecords: advances log start offsets, with one checkpoint per log directory.

The answer is the low watermark, the least log start offset of the replicas on live brokers.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ottla.errors import ErrorCode, PeerError, StorageError
from ottla.protocol.primitives import NO_OFFSET
from ottla.replication.housekeeping.checkpointer import Checkpointer, NewStart
from ottla.replication.offsets import start_after_deletion
from ottla.replication.purgatory import Waiter
from ottla.replication.replica import Replica
from ottla.storage.directory.directories import LogDirectories


class Deletion(NamedTuple):
    """A request to delete the records of a partition below an offset."""

    replica: Replica
    offset: int


async def delete_before(
    deletions: Sequence[Deletion], directories: LogDirectories, checkpointer: Checkpointer
) -> list[int | PeerError]:
    """The new log start offset of each partition, durable on return; or its error.

    The next round of retention drops the segments below.
    """
    answers = [_start_of(each) for each in deletions]
    starts: dict[str, list[NewStart]] = {}
    for deletion, answer in zip(deletions, answers, strict=True):
        log = deletion.replica.log
        if log is not None and isinstance(answer, int):
            home = directories.directory_of(log)
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


async def until_deleted(
    replica: Replica, start_offset: int, is_live: Callable[[int], bool], wait_ms: int
) -> int | PeerError:
    """Waits until the logs of all replicas on live brokers start at `start_offset` or later."""
    waiter = Waiter(wait_ms)
    replica.waiting.enter(waiter)
    try:
        while True:
            waiter.expect(1)
            replica.partition.check_leadership()
            low_watermark = _low_watermark(replica, is_live)
            if low_watermark >= start_offset:
                return low_watermark
            if waiter.is_over:
                raise PeerError(ErrorCode.REQUEST_TIMED_OUT, f"not deleted in {wait_ms} ms")
            await waiter.wait()
    except PeerError as error:
        return error
    finally:
        replica.waiting.leave(waiter)
        waiter.close()


def _low_watermark(replica: Replica, is_live: Callable[[int], bool]) -> int:
    partition = replica.partition
    starts = [replica.start_offset]
    for broker_id in partition.replicas:
        if broker_id != partition.leader_id and is_live(broker_id):
            progress = partition.followers.get(broker_id)
            starts.append(NO_OFFSET if progress is None else progress.start_offset)
    return min(starts)


def _start_of(deletion: Deletion) -> int | PeerError:
    try:
        return start_after_deletion(deletion.replica, deletion.offset)
    except PeerError as error:
        return error


def _outcome(replica: Replica, start_offset: int, faults: dict[str, Exception]) -> int | PeerError:
    log = replica.log
    if replica.start_offset >= start_offset and (log is None or log.offline is None):
        # Parked fetches below the new log start offset must be answered, and followers be told.
        replica.wake_all()
        return replica.start_offset
    if log is None:
        return PeerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic was deleted meanwhile")
    fault = log.offline or faults.get(log.directory.rpartition("/")[0])
    return PeerError(ErrorCode.KAFKA_STORAGE_ERROR, str(fault or "the log was truncated meanwhile"))
