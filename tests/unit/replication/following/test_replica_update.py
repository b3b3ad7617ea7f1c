"""The leader's answers, applied to a follower's log."""

from typing import Any

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.fetch import DivergingEpoch, PartitionResult
from ottla.replication.following.replica_update import FollowerLogs, position_of, update_replica
from ottla.replication.following.session import Position
from ottla.replication.replica import Replica
from tests.support.broker.produce_and_fetch import batch
from tests.support.replication.partitions import ME, OTHER, Partitions


def stored(offset: int, epoch: int, *values: bytes) -> bytes:
    """A batch as the leader's log has it."""
    made = batch(*values)
    made[0:8] = offset.to_bytes(8, "big")
    made[12:16] = epoch.to_bytes(4, "big")
    return bytes(made)


def result(records: bytes = b"", *, high_watermark: int = 0, start: int = 0) -> PartitionResult:
    return PartitionResult(
        partition_index=0,
        error_code=ErrorCode.NONE,
        high_watermark=high_watermark,
        log_start_offset=start,
        aborted_transactions=None,
        records=records,
    )


def failure(code: ErrorCode, start: int = -1) -> PartitionResult:
    return PartitionResult(
        partition_index=0,
        error_code=code,
        high_watermark=-1,
        log_start_offset=start,
        aborted_transactions=None,
        records=b"",
    )


def diverging(epoch: int, end_offset: int) -> PartitionResult:
    return PartitionResult(
        partition_index=0,
        error_code=ErrorCode.NONE,
        high_watermark=0,
        log_start_offset=0,
        diverging_epoch=DivergingEpoch(epoch=epoch, end_offset=end_offset),
        aborted_transactions=None,
        records=b"",
    )


class Follower:
    """A replica that another broker leads."""

    def __init__(self) -> None:
        self.partitions = Partitions()
        self.replica: Replica = self.partitions.create(leader=OTHER, isr=(OTHER, ME))
        self.starts: list[int] = []
        self.logs = FollowerLogs(
            self.partitions.replicas.create_followers_log,
            lambda _replica, offset: self.starts.append(offset),
        )

    def take(self, answer: PartitionResult) -> None:
        update_replica(self.replica, answer, self.logs)

    @property
    def ends(self) -> tuple[int, int]:
        return self.replica.end_offset, self.replica.high_watermark


def test_records_are_appended_as_they_are_and_the_high_watermark_follows() -> None:
    follower = Follower()
    assert position_of(follower.replica) == Position(0, 0, -1, 0)
    follower.take(result(stored(0, 0, b"a", b"b"), high_watermark=0))
    assert follower.ends == (2, 0)
    assert position_of(follower.replica) == Position(0, 2, 0, 0)
    follower.take(result(stored(2, 0, b"c"), high_watermark=2))
    assert follower.ends == (3, 2)
    follower.take(result(high_watermark=9))
    assert follower.ends == (3, 3), "at most its own end"


def test_an_empty_answer_creates_no_log() -> None:
    follower = Follower()
    follower.take(result())
    assert follower.replica.log is None


def test_a_batch_that_the_fetch_cut_is_left_out() -> None:
    follower = Follower()
    whole, cut = stored(0, 0, b"a"), stored(1, 0, b"b")
    for size in (len(cut) - 1, 61, 60, 1):
        follower = Follower()
        follower.take(result(whole + cut[:size]))
        assert follower.ends == (1, 0)


def test_a_follower_truncates_to_the_end_of_the_epoch_that_the_leader_has() -> None:
    follower = Follower()
    follower.take(result(stored(0, 0, b"a", b"b", b"c"), high_watermark=1))
    follower.take(diverging(0, 2))
    assert follower.ends == (0, 0), "a batch is removed as a whole"
    follower.take(result(stored(0, 0, b"a") + stored(1, 0, b"b") + stored(2, 1, b"c")))
    assert position_of(follower.replica).last_epoch == 1
    follower.take(diverging(0, 2))
    assert follower.ends == (2, 0)
    assert position_of(follower.replica).last_epoch == 0


def test_it_truncates_to_the_end_of_its_own_epoch_if_that_comes_first() -> None:
    follower = Follower()
    follower.take(result(stored(0, 0, b"a") + stored(1, 2, b"b") + stored(2, 4, b"c")))
    # The leader's epoch 3 ends at 3. This log has nothing of it: epoch 2 ends at 2.
    follower.take(diverging(3, 3))
    assert follower.ends[0] == 2
    assert position_of(follower.replica).last_epoch == 2


def test_a_log_that_ends_before_the_leaders_starts_continues_there() -> None:
    for records in (b"", stored(0, 0, b"a")):
        follower = Follower()
        follower.take(result(records))
        follower.take(failure(ErrorCode.OFFSET_OUT_OF_RANGE, start=40))
        assert follower.ends == (40, 40)
        assert follower.replica.start_offset == 40
        assert position_of(follower.replica) == Position(0, 40, -1, 40)
        follower.take(result(stored(40, 3, b"b"), high_watermark=41, start=40))
        assert follower.ends == (41, 41)


def test_a_leader_whose_log_starts_earlier_restarts_nothing() -> None:
    follower = Follower()
    follower.take(result(stored(0, 0, b"a")))
    for start in (-1, 0, 1):
        with pytest.raises(PeerError):
            follower.take(failure(ErrorCode.OFFSET_OUT_OF_RANGE, start=start))
    assert follower.ends == (1, 0)


def test_the_leaders_log_start_is_followed() -> None:
    follower = Follower()
    follower.take(result(stored(0, 0, b"a") + stored(1, 0, b"b"), high_watermark=2, start=0))
    follower.take(result(high_watermark=2, start=1))
    assert follower.starts == [1]
    follower.take(result(high_watermark=2, start=5))
    assert follower.starts == [1], "not beyond its own end"


@pytest.mark.parametrize(
    "answer",
    [
        failure(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        failure(ErrorCode.FENCED_LEADER_EPOCH),
        result(stored(1, 0, b"a")[:-1] + b"?"),
        result(stored(0, 0, b"again")),
        result(b"\0" * 100),
    ],
)
def test_an_answer_that_cannot_be_applied_changes_nothing(answer: Any) -> None:
    follower = Follower()
    follower.take(result(stored(0, 0, b"a")))
    with pytest.raises(PeerError):
        follower.take(answer)
    assert follower.ends == (1, 0)


def test_consumers_that_wait_are_told_when_the_high_watermark_moves() -> None:
    follower = Follower()
    told: list[int] = []

    class Watcher:
        def count(self, amount: int) -> None:
            told.append(amount)

        def wake(self) -> None:
            told.append(-1)

    follower.replica.waiting.enter(Watcher())
    first, second = stored(0, 0, b"a"), stored(1, 0, b"bb")
    follower.take(result(first, high_watermark=0))
    assert told == []
    follower.take(result(second, high_watermark=1))
    assert told == [len(first)]
    follower.take(result(high_watermark=2))
    assert told == [len(first), len(second)]
