"""`ottla topic describe` of a cluster whose brokers are not all there."""

from typing import Any

import pytest

from ottla.cli.shared.output import Row
from ottla.cli.topic.show import PartitionFilter, describe_partitions
from ottla.client.routing.topology import Partition
from ottla.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from ottla.protocol.messages.list_offsets import PartitionResult as ListedPartition
from ottla.protocol.messages.list_offsets import TopicResult as ListedTopic
from tests.sim.seams.loop import run
from tests.support.cli.run_command import ottla
from tests.support.client.fake_cluster import FakeCluster


class Rows:
    """A writer that keeps its rows."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.is_closed = False

    def write(self, row: Row) -> None:
        self.rows.append(row)

    def close(self) -> None:
        self.is_closed = True


def offsets(request: ListOffsetsRequest, _version: int) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=tuple(
            ListedTopic(
                name=topic.name,
                partitions=tuple(
                    ListedPartition(partition_index=each.partition_index, error_code=0, offset=5)
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def described(
    wanted: PartitionFilter, *names: str, in_sync: tuple[int, ...] = (1, 2)
) -> list[dict[str, Any]]:
    """Partition 1 of `orders` has no leader; the replicas of all partitions are on 1 and 2."""
    writer = Rows()

    async def story() -> None:
        async with FakeCluster(1) as cluster, cluster.router() as router:
            cluster.leaders = {"orders": [1, -1], "payments": [1]}
            cluster.replicas, cluster.in_sync = (1, 2), in_sync
            cluster.brokers[1].answers["ListOffsets"] = offsets
            await describe_partitions(router, names, wanted, writer)  # type: ignore[arg-type]

    run(story())
    assert writer.is_closed
    return [dict(row) for row in writer.rows]


def places(rows: list[dict[str, Any]]) -> list[tuple[str, int, str]]:
    return [(row["topic"], row["partition"], row["state"]) for row in rows]


def test_unavailable_partitions_have_no_leader_and_no_offsets() -> None:
    (row,) = described(PartitionFilter(unavailable=True))
    assert places([row]) == [("orders", 1, "unavailable")]
    assert (row["leader"], row["first_offset"], row["bytes"]) == (None, None, None)
    assert (row["replicas"], row["isr"], row["elr"]) == ("1,2", "1,2", None)


def test_under_replicated_partitions_lack_a_replica() -> None:
    assert described(PartitionFilter(under_replicated=True)) == []
    rows = described(PartitionFilter(under_replicated=True), in_sync=(1,))
    assert places(rows) == [
        ("orders", 0, "under-replicated"),
        ("orders", 1, "unavailable"),
        ("payments", 0, "under-replicated"),
    ]
    assert (rows[0]["leader"], rows[0]["end_offset"], rows[0]["isr"]) == (1, 5, "1")


def test_both_filters_together_show_either_state_of_the_named_topics() -> None:
    both = PartitionFilter(under_replicated=True, unavailable=True)
    assert places(described(both)) == [("orders", 1, "unavailable")]
    assert described(both, "payments") == []
    assert len(described(both, "orders", in_sync=(1,))) == 2


def test_a_description_of_nothing_in_particular_is_a_usage_error() -> None:
    ran = ottla("topic", "describe")
    assert ran.exit_code == 2
    assert "--under-replicated" in ran.stderr


@pytest.mark.parametrize(
    ("leader", "in_sync", "selected"), [(1, (1, 2), False), (1, (1,), True), (-1, (1, 2), True)]
)
def test_without_a_filter_every_partition_is_selected(
    leader: int, in_sync: tuple[int, ...], selected: bool
) -> None:
    partition = Partition(0, leader, 3, (1, 2), in_sync, ())
    assert PartitionFilter().selects(partition)
    assert PartitionFilter(under_replicated=True, unavailable=True).selects(partition) is selected
