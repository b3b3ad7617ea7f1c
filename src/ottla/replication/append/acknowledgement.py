"""Waits for appends to be committed, for `acks=all` and for the coordinators."""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.errors import ErrorCode, PeerError
from ottla.replication.append.appender import AppendResult
from ottla.replication.purgatory import Waiter
from ottla.replication.replica import Replica


class Unacknowledged(NamedTuple):
    """An append that may not be committed yet, and its partition."""

    replica: Replica
    appended: AppendResult


def is_committed(append: Unacknowledged) -> bool:
    """Whether the high watermark has passed the append. PeerError if leadership was lost."""
    partition, appended = append.replica.partition, append.appended
    partition.check_leadership()
    if partition.leader_epoch != appended.leader_epoch:
        raise PeerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another leader came in between")
    if partition.high_watermark >= appended.committed_offset:
        return True
    if len(partition.isr) < partition.min_isr_in_force:
        raise PeerError(
            ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            f"{len(partition.isr)} in sync where {partition.min_isr_in_force} are needed",
        )
    return False


async def until_committed(
    appends: Sequence[Unacknowledged], wait_ms: int
) -> list[PeerError | None]:
    """Waits up to `wait_ms`. The result of an append is None if it is committed, else its error."""
    waiter = Waiter(wait_ms)
    errors: dict[int, PeerError] = {}
    left = dict(enumerate(appends))
    try:
        for append in appends:
            append.replica.waiting.enter(waiter)
        while True:
            waiter.expect(1)
            for number, append in list(left.items()):
                try:
                    if is_committed(append):
                        del left[number]
                except PeerError as error:
                    errors[number] = error
                    del left[number]
            if not left or waiter.is_over:
                break
            await waiter.wait()
    finally:
        for append in appends:
            append.replica.waiting.leave(waiter)
        waiter.close()
    for number in left:
        errors[number] = PeerError(ErrorCode.REQUEST_TIMED_OUT, f"not committed in {wait_ms} ms")
    return [errors.get(number) for number in range(len(appends))]
