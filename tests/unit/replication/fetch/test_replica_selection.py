"""The replica that a consumer is sent to (KIP-392)."""

from dataclasses import replace

import pytest

from ottla.metadata import records
from ottla.metadata.records import Broker
from ottla.metadata.values import BrokerState, Endpoint, Incarnation, PartitionId
from ottla.protocol.primitives import Uuid
from ottla.replication.fetch.replica_selection import (
    ReplicaSelection,
    ReplicaView,
    closest_replica,
    readable_followers,
)
from ottla.replication.local_broker import LocalBroker
from ottla.replication.partition import Partition
from ottla.settings.listeners import SecurityProtocol

TOPIC_ID = Uuid(b"the topic's id..")
ONE, TWO, THREE = Incarnation(1, 10), Incarnation(2, 20), Incarnation(3, 30)


def broker(incarnation: Incarnation, rack: str | None) -> Broker:
    return Broker(
        broker_id=incarnation.broker_id,
        epoch=incarnation.broker_epoch,
        inherits=None,
        endpoints=(Endpoint("CLIENTS", "host", 9092, SecurityProtocol.PLAINTEXT),),
        rack=rack,
        host="host",
        state=BrokerState.UP,
    )


def leader(*isr: Incarnation) -> Partition:
    """Partition 0, led by broker 1, whose log ends at 10; broker 2 has 8 of that, broker 3 all."""
    partition = Partition(TOPIC_ID, 0, LocalBroker(1, "me", ONE))
    record = records.Partition(
        topic_id=TOPIC_ID,
        index=0,
        replicas=(1, 2, 3),
        leader=ONE,
        leader_epoch=4,
        isr=isr or (ONE, TWO, THREE),
        min_isr=1,
        partition_epoch=0,
    )
    partition.assign(record, 10)
    partition.fetched(TWO, 8, 3)
    partition.fetched(THREE, 10, 0)
    return partition


BROKERS = {1: broker(ONE, "a"), 2: broker(TWO, "b"), 3: broker(THREE, "b")}


def ids(partition: Partition, offset: int, brokers: dict[int, Broker] | None = None) -> list[int]:
    found = readable_followers(partition, brokers or BROKERS, offset, "CLIENTS")
    return [view.broker_id for view in found]


# Which of the followers


def test_the_follower_in_the_rack_with_the_longest_log_is_the_closest() -> None:
    views = [ReplicaView(8, 2, "b"), ReplicaView(7, 3, "b"), ReplicaView(9, 4, "c")]
    assert closest_replica("b", "a", views) == 2
    assert closest_replica("c", "a", views) == 4


@pytest.mark.parametrize(
    ("rack", "leader_rack"),
    [("b", "b"), ("d", "a"), ("", "a"), ("", None)],
    ids=["the leader is there", "nobody is there", "no rack", "no racks at all"],
)
def test_otherwise_the_leader_serves_the_consumer(rack: str, leader_rack: str | None) -> None:
    views = [ReplicaView(8, 2, "b"), ReplicaView(8, 3, None)]
    assert closest_replica(rack, leader_rack, views) is None


# Which followers can serve


@pytest.mark.parametrize(
    ("offset", "found"),
    [(0, [3]), (2, [3]), (3, [2, 3]), (8, [2, 3]), (9, [3]), (10, [3]), (11, [])],
)
def test_a_follower_serves_the_offsets_from_its_log_start_to_its_end(
    offset: int, found: list[int]
) -> None:
    assert ids(leader(), offset) == found


def test_a_follower_out_of_sync_serves_nobody() -> None:
    assert ids(leader(ONE, THREE), 5) == [3]


def test_the_progress_of_a_former_incarnation_does_not_count() -> None:
    again = Incarnation(2, 21)
    assert ids(leader(ONE, again, THREE), 5, {**BROKERS, 2: broker(again, "b")}) == [3]


@pytest.mark.parametrize(
    "changed",
    [
        {"state": BrokerState.DRAINING},
        {"state": BrokerState.GONE},
        {"epoch": 21},
        {"endpoints": ()},
        {"offline": (PartitionId(TOPIC_ID, 0),)},
    ],
    ids=str,
)
def test_a_broker_that_cannot_serve_is_left_out(changed: dict[str, object]) -> None:
    two = replace(BROKERS[2], **changed)  # type: ignore[arg-type]
    assert ids(leader(), 5, {**BROKERS, 2: two}) == [3]


def test_another_log_that_is_offline_does_not_matter() -> None:
    two = replace(BROKERS[2], offline=(PartitionId(TOPIC_ID, 1),))
    assert ids(leader(), 5, {**BROKERS, 2: two}) == [2, 3]


# Both


def select(rack: str, partition: Partition, offset: int) -> int | None:
    return ReplicaSelection(lambda: BROKERS, rack, "CLIENTS").select(partition, offset)


def test_a_consumer_is_sent_to_a_follower_in_its_rack_that_has_the_offset() -> None:
    assert select("b", leader(), 5) == 3
    assert select("b", leader(ONE, TWO), 5) == 2
    assert select("b", leader(ONE, TWO), 9) is None
    assert select("a", leader(), 5) is None, "the leader is there"
    assert select("", leader(), 5) is None


def test_only_the_leader_sends_consumers_elsewhere() -> None:
    partition = leader()
    partition.resign()
    assert select("b", partition, 5) is None
