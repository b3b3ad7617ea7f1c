"""What a leader gives a follower, and what it learns from its fetches."""

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.values import Incarnation
from ottla.protocol.isolation_level import Isolation
from ottla.replication.fetch.fetch import FetchItem, FetchLimits, read_items
from ottla.replication.fetch.reads import ReadResult, read_for_follower
from ottla.replication.replica import Replica
from ottla.replication.throttle import ReplicationThrottle
from ottla.storage.log.leader_epochs import EpochEnd
from tests.support.broker.produce_and_fetch import wanted
from tests.support.replication.partitions import ME, OTHER, Partitions

STRANGER = Incarnation(3, 30)


class Leader:
    """A partition that this broker leads, with one follower in the ISR."""

    def __init__(self) -> None:
        self.partitions = Partitions()
        self.replica: Replica = self.partitions.create(isr=(ME, OTHER))

    def append(self, *values: bytes) -> None:
        for value in values:
            self.partitions.append(self.replica, value)

    def new_epoch(self) -> None:
        """Another broker leads, and then this one again."""
        self.partitions.change(self.replica, leader=OTHER)
        self.partitions.change(self.replica, leader=ME)

    def fetch(
        self,
        offset: int,
        epoch: int = -1,
        *,
        follower: Incarnation = OTHER,
        current: int | None = None,
        bytes_max: int = 1 << 20,
        is_first: bool = True,
    ) -> ReadResult:
        return read_for_follower(
            self.replica,
            follower,
            offset,
            start_offset=0,
            bytes_max=bytes_max,
            is_first=is_first,
            current_leader_epoch=(
                self.replica.partition.leader_epoch if current is None else current
            ),
            last_fetched_epoch=epoch,
        )

    def refused(self, offset: int, epoch: int = -1, *, current: int | None = None) -> ErrorCode:
        with pytest.raises(PeerError) as caught:
            self.fetch(offset, epoch, current=current)
        return caught.value.code


def test_a_follower_reads_to_the_log_end_and_its_fetches_commit() -> None:
    leader = Leader()
    leader.append(b"a", b"b")
    first = leader.fetch(0)
    assert first.records is not None
    assert (first.high_watermark, first.is_caught_up) == (0, False)
    second = leader.fetch(2, 0)
    assert second.records is None
    assert (second.high_watermark, second.is_caught_up) == (2, True)
    assert leader.replica.high_watermark == 2


def test_an_empty_partition_has_nothing_to_read() -> None:
    leader = Leader()
    result = leader.fetch(0)
    assert (result.records, result.is_caught_up, result.diverging) == (None, True, None)
    assert leader.replica.partition.followers[OTHER.broker_id].end_offset == 0


def test_a_follower_outside_of_the_isr_becomes_a_candidate_when_it_has_caught_up() -> None:
    leader = Leader()
    leader.partitions.change(leader.replica, replicas=(1, 2, 3))
    leader.append(b"a")
    leader.fetch(1, 0)
    candidates = leader.replica.isr_candidates
    assert candidates is not None
    leader.fetch(0, follower=STRANGER)
    assert not candidates._replicas
    leader.fetch(1, 0, follower=STRANGER)
    assert list(candidates._replicas) == [leader.replica]


@pytest.mark.parametrize(
    ("epoch", "offset", "diverging"),
    [
        (0, 2, None),
        (0, 3, EpochEnd(0, 2)),
        (1, 2, EpochEnd(0, 2)),
        (2, 4, None),
        (2, 5, EpochEnd(2, 4)),
        (-1, 0, None),
        (-1, 4, None),
        (-1, 5, EpochEnd(0, 4)),
    ],
)
def test_a_log_that_diverges_is_told_where(
    epoch: int, offset: int, diverging: EpochEnd | None
) -> None:
    leader = Leader()
    leader.append(b"a", b"b")
    leader.new_epoch()
    leader.append(b"c", b"d")
    assert leader.fetch(offset, epoch).diverging == diverging
    progress = leader.replica.partition.followers.get(OTHER.broker_id)
    assert (progress is None) == (diverging is not None), "a wrong log is no progress"


def test_a_follower_with_records_truncates_all_if_the_leader_has_none() -> None:
    leader = Leader()
    assert leader.fetch(5, 3).diverging == EpochEnd(3, 0)
    assert leader.fetch(5).diverging == EpochEnd(0, 0)


def test_a_follower_before_the_log_start_is_out_of_range_and_makes_no_progress() -> None:
    leader = Leader()
    leader.append(b"a", b"b")
    assert leader.replica.log is not None
    leader.replica.log.advance_start(1)
    assert leader.refused(0) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert not leader.replica.partition.followers


def test_another_leader_epoch_is_refused() -> None:
    leader = Leader()
    leader.new_epoch()
    assert leader.refused(0, current=1) is ErrorCode.FENCED_LEADER_EPOCH
    assert leader.refused(0, current=3) is ErrorCode.UNKNOWN_LEADER_EPOCH
    leader.partitions.change(leader.replica, leader=OTHER)
    assert leader.refused(0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not leader.replica.partition.followers


def test_a_log_that_is_offline_is_not_read() -> None:
    leader = Leader()
    leader.append(b"a")
    assert leader.replica.log is not None
    leader.replica.log.abandon()
    assert leader.refused(0) is ErrorCode.KAFKA_STORAGE_ERROR


def test_only_the_first_partition_of_an_answer_gives_a_batch_larger_than_the_rest() -> None:
    leader = Leader()
    leader.append(b"a" * 200)
    assert leader.fetch(0, bytes_max=10).records is not None
    assert leader.fetch(0, bytes_max=10, is_first=False).records is None
    assert leader.fetch(0, bytes_max=0, is_first=False).records is None


def test_a_moved_high_watermark_tells_consumers_and_marks_it_for_followers() -> None:
    leader = Leader()
    told: list[tuple[str, int]] = []

    class Watcher:
        def __init__(self, name: str) -> None:
            self._name = name

        def count(self, amount: int) -> None:
            told.append((self._name, amount))

        def wake(self) -> None:
            told.append((self._name, -1))

    leader.append(b"a")
    leader.fetch(0)
    assert leader.replica.log is not None
    size = leader.replica.log.size_bytes
    leader.replica.waiting.enter(Watcher("consumer"))
    leader.replica.waiting_followers.enter(Watcher("follower"))
    leader.append(b"b")
    assert told == [("follower", size)], "an append is news for followers only"
    leader.fetch(1, 0)
    assert told[1:] == [("follower", 0), ("consumer", size)]


def test_a_follower_that_is_not_in_sync_may_be_throttled() -> None:
    leader = Leader()
    leader.partitions.change(leader.replica, replicas=(1, 2, 3))
    leader.append(b"x" * 1_500)
    throttle = ReplicationThrottle(leader.partitions.clock.steady_ns)
    throttle.set_topic("events", None)
    throttle.set_rate(1_000)

    def size(follower: Incarnation) -> int:
        asked = wanted(0, 0, leader_epoch=0)
        limits = FetchLimits(1, 1 << 20, Isolation.READ_UNCOMMITTED, follower, throttle)
        reading = read_items(
            [FetchItem("events", asked)],
            limits,
            lambda topic, _index: leader.partitions.find(topic),
        )
        return reading.size

    assert size(STRANGER) > 1_500, "what was saved up may be overdrawn"
    assert size(STRANGER) == 0
    assert size(OTHER) > 1_500
    leader.partitions.clock.advance(ms=1_000)
    assert size(STRANGER) > 1_500
