"""The markers of partitions that this broker leads."""

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any

import pytest

from ottla.coordinators.txn.partition_leaders import COMMIT_TIMEOUT_MS, LocalPartitionLeaders
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.batch import MarkerKind
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.append.flusher import Flusher
from ottla.replication.append.transaction_marker import TransactionMarker
from ottla.storage.log.config import LogConfig
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.loop import run
from tests.sim.seams.threads import SimThreads
from tests.support.replication.partitions import ME, OTHER, RULES, Partitions

MARKER = TransactionMarker(7, 3, MarkerKind.COMMIT, 1, 2)
E0, E1 = TopicPartition("events", 0), TopicPartition("events", 1)
NONE = ErrorCode.NONE


def leaders(partitions: Partitions, coordinators: Mapping[str, Any] = {}) -> LocalPartitionLeaders:
    flusher = Flusher(SimThreads(SimEntropy()))
    return LocalPartitionLeaders(
        partitions.replicas, partitions.appender, flusher, partitions.clock, coordinators
    )


def test_each_partition_gets_its_marker_or_its_code() -> None:
    async def story() -> None:
        partitions = Partitions()
        partitions.create(partitions=2)
        missing = TopicPartition("events", 9)
        codes = leaders(partitions).write(MARKER, [E0, missing, E1])
        assert codes == {E0: NONE, missing: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, E1: NONE}
        assert [partitions.find("events", index).end_offset for index in range(2)] == [1, 1]

    run(story())


def test_a_partition_that_another_broker_leads_gets_no_marker() -> None:
    async def story() -> None:
        partitions = Partitions()
        replica = partitions.create(leader=OTHER, isr=(ME, OTHER))
        assert leaders(partitions).write(MARKER, [E0]) == {E0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
        assert replica.end_offset == 0

    run(story())


def test_a_marker_is_flushed_where_records_are() -> None:
    async def story() -> None:
        rules = replace(RULES, log=LogConfig(flush_messages=1))
        partitions = Partitions(rules)
        replica = partitions.create()
        coming = leaders(partitions).write(MARKER, [E0])
        assert not isinstance(coming, Mapping)
        assert replica.log is not None
        assert replica.log.recovery_point == 0
        assert await coming == {E0: NONE}
        assert replica.log.recovery_point == 1

    run(story())


def test_nobody_has_to_wait_for_a_marker() -> None:
    """A broker that stops cancels those who would, perhaps before their first step."""

    async def story() -> None:
        partitions = Partitions(replace(RULES, log=LogConfig(flush_messages=1)))
        replica = partitions.create()
        coming = leaders(partitions).write(MARKER, [E0])
        assert not isinstance(coming, Mapping | Coroutine)
        assert replica.end_offset == 1

    # A coroutine that is never awaited is a warning, which fails a test.
    run(story())


def test_a_marker_waits_for_the_in_sync_replicas() -> None:
    async def story() -> None:
        partitions = Partitions()
        replica = partitions.create(isr=(ME, OTHER))
        coming = leaders(partitions).write(MARKER, [E0])
        assert not isinstance(coming, Mapping)
        partitions.change(replica, isr=(ME,))
        assert await coming == {E0: NONE}

    run(story())


def test_a_marker_of_a_coordinators_topic_goes_through_its_shard() -> None:
    class Shard:
        def __init__(self) -> None:
            self.markers: list[TransactionMarker] = []

        def of_partition(self, index: int) -> "Shard":
            assert index == 0
            return self

        def append_marker(self, marker: TransactionMarker) -> Any:
            self.markers.append(marker)
            return partitions.appender.append_marker(partitions.find("events"), marker, now_ms=0)

    async def story() -> None:
        partitions.create()
        shard = Shard()
        assert leaders(partitions, {"events": shard}).write(MARKER, [E0]) == {E0: NONE}
        assert shard.markers == [MARKER]

    partitions = Partitions()
    run(story())


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ],
)
def test_a_coordinator_that_cannot_write_a_marker_now_is_no_leader(code: ErrorCode) -> None:
    class Absent:
        def of_partition(self, index: int) -> Any:
            raise PeerError(code, f"{index}")

    async def story() -> None:
        partitions = Partitions()
        partitions.create()
        codes = leaders(partitions, {"events": Absent()}).write(MARKER, [E0])
        assert codes == {E0: ErrorCode.NOT_LEADER_OR_FOLLOWER}

    run(story())


def test_appends_of_many_markers_wait_for_replication_together() -> None:
    async def story() -> None:
        partitions = Partitions()
        replica = partitions.create(isr=(ME, OTHER))
        here = leaders(partitions)
        appends = [
            here.append(MARKER._replace(producer_id=producer_id), [E0]) for producer_id in (7, 8)
        ]
        assert replica.end_offset == 2
        settling = asyncio.create_task(here.settle(appends))
        await asyncio.sleep(1)
        assert not settling.done()
        partitions.change(replica, isr=(ME,))
        await settling
        assert [each.codes for each in appends] == [{E0: NONE}] * 2

    run(story())


def test_a_marker_that_is_not_committed_in_time_is_to_be_written_again() -> None:
    async def story() -> None:
        partitions = Partitions()
        partitions.create(isr=(ME, OTHER))
        here = leaders(partitions)
        appends = [here.append(MARKER, [E0]), here.append(MARKER, [E0])]
        loop = asyncio.get_running_loop()
        started = loop.time()
        await here.settle(appends)
        assert [each.codes for each in appends] == [{E0: ErrorCode.REQUEST_TIMED_OUT}] * 2
        # One deadline for all of them.
        assert loop.time() - started == pytest.approx(COMMIT_TIMEOUT_MS / 1e3)

    run(story())
