"""Which followers join the ISR, and which leave it."""

from dataclasses import replace

import pytest

from ottla.metadata.records import Broker
from ottla.metadata.values import BrokerState, Incarnation
from ottla.replication.follower_progress import LAG_TICKS
from ottla.replication.isr import is_candidate, wanted_isr
from ottla.replication.partition import Partition
from tests.support.replication.partitions import ME, OTHER
from tests.unit.replication.test_partition_leader import THIRD, leading, record


def broker(incarnation: Incarnation, state: BrokerState = BrokerState.UP) -> Broker:
    return Broker(
        broker_id=incarnation.broker_id,
        epoch=incarnation.broker_epoch,
        inherits=None,
        endpoints=(),
        rack=None,
        host="host",
        state=state,
    )


BROKERS = {each.broker_id: broker(each) for each in (ME, OTHER, THIRD)}


def caught_up(end_offset: int = 10) -> Partition:
    partition = leading(ME, OTHER, end_offset=end_offset)
    partition.fetched(OTHER, end_offset, 0)
    return partition


def test_a_follower_that_caught_up_joins() -> None:
    partition = caught_up()
    partition.fetched(THIRD, 9, 0)
    assert wanted_isr(partition, BROKERS) is None
    assert not is_candidate(partition, THIRD)
    partition.fetched(THIRD, 10, 0)
    assert is_candidate(partition, THIRD)
    assert wanted_isr(partition, BROKERS) == (ME, OTHER, THIRD)
    assert not is_candidate(partition, OTHER), "it is in the ISR"


def test_it_needs_all_that_the_leader_had_when_it_began_to_lead() -> None:
    partition = leading(ME, OTHER, end_offset=10)
    assert (partition.high_watermark, partition.epoch_start_offset) == (0, 10)
    partition.fetched(THIRD, 9, 0)
    assert wanted_isr(partition, BROKERS) is None
    partition.fetched(THIRD, 10, 0)
    assert wanted_isr(partition, BROKERS) == (ME, OTHER, THIRD)


@pytest.mark.parametrize(
    "known",
    [
        None,
        broker(THIRD, BrokerState.DRAINING),
        broker(THIRD, BrokerState.STARTING),
        broker(THIRD, BrokerState.GONE),
        broker(Incarnation(THIRD.broker_id, THIRD.broker_epoch + 1)),
    ],
)
def test_only_a_broker_that_is_up_under_the_same_epoch_joins(known: Broker | None) -> None:
    partition = caught_up()
    partition.fetched(THIRD, 10, 0)
    brokers = {key: value for key, value in BROKERS.items() if key != THIRD.broker_id}
    if known is not None:
        brokers[THIRD.broker_id] = known
    assert wanted_isr(partition, brokers) is None


def test_a_broker_that_is_no_replica_does_not_join() -> None:
    partition = caught_up()
    partition.fetched(THIRD, 10, 0)
    partition.replicas = (ME.broker_id, OTHER.broker_id)
    assert wanted_isr(partition, BROKERS) is None


def test_a_member_that_lags_leaves_and_the_leader_stays() -> None:
    partition = caught_up()
    partition.appended(20)
    for _ in range(LAG_TICKS + 1):
        assert wanted_isr(partition, BROKERS) is None
        partition.tick()
    assert wanted_isr(partition, BROKERS) == (ME,)
    partition.fetched(OTHER, 20, 0)
    partition.appended(30)
    partition.tick()
    assert wanted_isr(partition, BROKERS) is None, "it lacks only what came since"


def test_an_idle_follower_stays() -> None:
    partition = caught_up()
    for _ in range(3 * LAG_TICKS):
        partition.tick()
        assert wanted_isr(partition, BROKERS) is None


def test_a_member_that_never_fetches_leaves() -> None:
    partition = leading(ME, OTHER, THIRD)
    partition.fetched(THIRD, 0, 0)
    for _ in range(LAG_TICKS):
        partition.tick()
        assert wanted_isr(partition, BROKERS) is None
    partition.tick()
    assert wanted_isr(partition, BROKERS) == (ME, THIRD)


def test_one_leaves_and_another_joins_at_once() -> None:
    partition = caught_up()
    partition.appended(20)
    for _ in range(LAG_TICKS + 1):
        partition.tick()
    partition.fetched(THIRD, 20, 0)
    assert wanted_isr(partition, BROKERS) == (ME, THIRD)


def test_only_the_leader_wants_an_isr() -> None:
    partition = caught_up()
    partition.fetched(THIRD, 10, 0)
    partition.assign(
        replace(record(ME, OTHER), leader=OTHER, leader_epoch=1, partition_epoch=1), 10
    )
    assert wanted_isr(partition, BROKERS) is None
