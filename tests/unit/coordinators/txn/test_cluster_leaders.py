"""Markers go to the brokers that lead: this one at once, others by requests."""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, cast

from ottla.coordinators.txn.cluster_leaders import ClusterPartitionLeaders
from ottla.coordinators.txn.partition_leaders import Codes, ComingCodes
from ottla.errors import ErrorCode
from ottla.metadata.image import Image
from ottla.protocol.batch import MarkerKind
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.append.transaction_marker import TransactionMarker
from tests.sim.seams.loop import run

ME = 1
MARKER = TransactionMarker(7, 3, MarkerKind.COMMIT, 1, 2)
MINE, ALSO_MINE, NOBODYS = (TopicPartition("t", index) for index in range(3))
OF_2, ALSO_OF_2, OF_3 = (TopicPartition("t", index) for index in range(3, 6))
LEADERS = {MINE: ME, ALSO_MINE: ME, NOBODYS: None, OF_2: 2, ALSO_OF_2: 2, OF_3: 3}
NONE, NO_LEADER = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER


class FakeImage:
    def leader_id(self, topic: str, index: int) -> int | None:
        return LEADERS[TopicPartition(topic, index)]


class Here:
    def __init__(self, *, is_late: bool = False) -> None:
        self.is_late = is_late
        self.written: list[TopicPartition] = []

    def write(
        self, marker: TransactionMarker, partitions: Iterable[TopicPartition]
    ) -> Codes | Awaitable[Codes]:
        codes = {name: NO_LEADER if name == NOBODYS else NONE for name in partitions}
        self.written += codes

        async def later() -> Codes:
            await asyncio.sleep(1)
            return codes

        return ComingCodes(later) if self.is_late else codes


class Others:
    def __init__(self) -> None:
        self.asked: list[tuple[int, list[TopicPartition]]] = []

    async def write(
        self, broker_id: int, marker: TransactionMarker, partitions: Sequence[TopicPartition]
    ) -> Codes:
        assert marker == MARKER
        self.asked.append((broker_id, list(partitions)))
        await asyncio.sleep(1)
        return dict.fromkeys(partitions, NONE)


def leaders(here: Here, others: Others) -> ClusterPartitionLeaders:
    return ClusterPartitionLeaders(here, others, ME, lambda: cast("Image", cast(Any, FakeImage())))


def test_markers_of_this_broker_are_written_in_the_same_turn() -> None:
    async def story() -> None:
        here, others = Here(), Others()
        codes = leaders(here, others).write(MARKER, [MINE, ALSO_MINE])
        assert codes == {MINE: NONE, ALSO_MINE: NONE}
        assert others.asked == []

    run(story())


def test_other_brokers_are_asked_together_once_somebody_waits() -> None:
    async def story() -> None:
        here, others = Here(is_late=True), Others()
        coming = leaders(here, others).write(MARKER, [MINE, OF_2, OF_3, ALSO_OF_2])
        assert not isinstance(coming, Mapping)
        assert here.written == [MINE]
        assert others.asked == []
        loop = asyncio.get_running_loop()
        started = loop.time()
        assert await coming == dict.fromkeys([MINE, OF_2, OF_3, ALSO_OF_2], NONE)
        assert others.asked == [(2, [OF_2, ALSO_OF_2]), (3, [OF_3])]
        assert loop.time() - started < 1.5

    run(story())


def test_a_partition_without_a_leader_is_not_asked_for_elsewhere() -> None:
    async def story() -> None:
        here, others = Here(), Others()
        coming = leaders(here, others).write(MARKER, [NOBODYS, OF_2])
        assert not isinstance(coming, Mapping)
        assert await coming == {NOBODYS: NO_LEADER, OF_2: NONE}
        assert others.asked == [(2, [OF_2])]

    run(story())
