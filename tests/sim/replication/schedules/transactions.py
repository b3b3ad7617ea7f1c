"""Stories of a coordinator that is deposed while a transaction ends.

The coordinator's partition has two replicas. The transaction's only partition is on the third
broker, so that the coordinator can be cut off from one and not from the other.
"""

import asyncio
from typing import Any, NamedTuple, cast

from ottla.errors import ErrorCode
from ottla.metadata.topic_names import TRANSACTION_STATE
from ottla.protocol.coordinator_type import CoordinatorType
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.sim.broker.transactional_mutants import markers_are_written_before_prepare_is
from tests.sim.cluster.sessions import SESSION_TIMEOUT_S
from tests.sim.replication.mutants import producers_are_not_rolled_back
from tests.sim.replication.schedules.stage import TOPIC, Schedule, Stage
from tests.sim.replication.transactions.mutants import (
    any_coordinator_is_asked,
    the_coordinator_epoch_of_markers_is_ignored,
)
from tests.support.broker.simulated_broker import Client
from tests.support.broker.transactional_requests import Producer, retried, seen

FIND_VERSION = 4
# Longer than a story: no transaction is aborted by its timeout.
TIMEOUT_MS = 600_000


class _Broker:
    """The `Client` of a broker of the stage, with a connection per request."""

    def __init__(self, stage: Stage, broker_id: int) -> None:
        self._stage = stage
        self._broker_id = broker_id

    async def ask(self, request: object, version: int) -> Any:
        return await self._stage.ask(self._broker_id, request, version)


def _client(stage: Stage, broker_id: int) -> Client:
    return cast("Client", _Broker(stage, broker_id))


class _Cast(NamedTuple):
    """Who coordinates, who can take over, and who leads the transaction's partition."""

    coordinator: int
    successor: int
    leader: int


class _StageProducer(Producer):
    """Of transaction version 1: all of its transactions have one epoch."""

    def __init__(self, stage: Stage, roles: _Cast) -> None:
        super().__init__(_client(stage, roles.coordinator), version=1, timeout_ms=TIMEOUT_MS)
        self._leader = _client(stage, roles.leader)

    def leader_of(self, topic: str, partition: int) -> Client:
        return self._leader

    async def add_when_possible(self) -> None:
        """Once the markers of the transaction before are written."""
        assert await retried(lambda: self.add(TOPIC, 0)) == ErrorCode.NONE


async def _set_up(stage: Stage, *, is_replicated: bool = False) -> _Cast:
    """The topic, and the coordinator's. A replicated one has its follower on the successor."""
    finding = FindCoordinatorRequest(key_type=CoordinatorType.TRANSACTION, coordinator_keys=("id",))
    await stage.ask(stage.controller, finding, FIND_VERSION)
    await stage.until(lambda: stage.knows(TRANSACTION_STATE))
    record = stage.record_of(TRANSACTION_STATE)
    coordinator, successor = record.replicas
    (leader,) = set(stage.cluster.machines) - set(record.replicas)
    followers = (successor,) if is_replicated else ()
    await stage.create_topic(leader, *followers, min_isr=1)
    return _Cast(coordinator, successor, leader)


async def _depose(stage: Stage, roles: _Cast) -> None:
    """The coordinator's session ends, and it does not hear of that."""
    stage.cut_off_from_ensemble(roles.coordinator)

    def is_deposed() -> bool:
        leader = stage.record_of(TRANSACTION_STATE).leader
        return leader is not None and leader.broker_id == roles.successor

    await stage.until(is_deposed)


async def _end(stage: Stage, roles: _Cast) -> None:
    """All is healed, and the coordinator's partition has both replicas in its ISR again."""
    for other in (roles.successor, roles.leader):
        stage.heal(roles.coordinator, other)
    stage.let_to_ensemble(roles.coordinator)
    await stage.until(lambda: len(stage.record_of(TRANSACTION_STATE).isr) == 2)


async def a_deposed_coordinator_repeats_a_marker(stage: Stage) -> None:
    """Its successor has written it, and the producer's next transaction has begun."""
    roles = await _set_up(stage)
    producer = _StageProducer(stage, roles)
    assert await retried(producer.init) == ErrorCode.NONE
    await producer.write(TOPIC, b"committed")
    stage.cut(roles.coordinator, roles.leader)
    assert await producer.end(committed=True) == ErrorCode.NONE
    await _depose(stage, roles)
    producer.client = _client(stage, roles.successor)
    await producer.add_when_possible()
    assert await producer.send(TOPIC, b"aborted") == ErrorCode.NONE
    stage.heal(roles.coordinator, roles.leader)
    # The deposed coordinator tries again each second.
    await asyncio.sleep(5)
    assert await producer.end(committed=False) == ErrorCode.NONE
    await producer.add_when_possible()
    assert await producer.end(committed=False) == ErrorCode.NONE
    await _end(stage, roles)
    shown = await seen(_client(stage, roles.leader), TOPIC)
    assert shown == [b"committed"], "what was aborted is shown"


async def a_coordinator_cannot_commit_its_decision(stage: Stage) -> None:
    """Its successor does not know of it, and aborts the transaction: no marker has left."""
    roles = await _set_up(stage)
    producer = _StageProducer(stage, roles)
    assert await retried(producer.init) == ErrorCode.NONE
    await producer.write(TOPIC, b"aborted")
    stage.cut(roles.coordinator, roles.successor)
    ending = asyncio.get_running_loop().create_task(producer.end(committed=True))
    await asyncio.sleep(1)
    await _depose(stage, roles)
    ending.cancel()
    producer.client = _client(stage, roles.successor)
    assert await retried(lambda: producer.end(committed=False)) == ErrorCode.NONE
    # Once the markers are written.
    await producer.add_when_possible()
    assert await producer.end(committed=False) == ErrorCode.NONE
    await _end(stage, roles)
    shown = await seen(_client(stage, roles.leader), TOPIC)
    assert shown == [], "what was aborted is shown"


async def a_leader_asks_a_deposed_coordinator(stage: Stage) -> None:
    """Neither has heard of the successor, whose marker the leader has. A late batch is refused."""
    roles = await _set_up(stage)
    producer = _StageProducer(stage, roles)
    assert await retried(producer.init) == ErrorCode.NONE
    await producer.add_when_possible()
    stage.cut_off_from_ensemble(roles.coordinator)
    # The leader keeps its session, and hears nothing meanwhile.
    await asyncio.sleep(SESSION_TIMEOUT_S - 1)
    stage.cut_off_from_ensemble(roles.leader)
    await _depose(stage, roles)
    producer.client = _client(stage, roles.successor)
    assert await retried(lambda: producer.end(committed=False)) == ErrorCode.NONE
    await stage.until(lambda: stage.replica(roles.leader).end_offset == 1)
    code = await producer.send(TOPIC, b"late")
    assert code != ErrorCode.NONE, "a batch begins a transaction that nobody ends"
    stage.let_to_ensemble(roles.leader)
    await _end(stage, roles)


async def a_batch_of_a_transaction_is_truncated_and_sent_again(stage: Stage) -> None:
    """The leader that truncated it leads again, and does not take it for a duplicate."""
    roles = await _set_up(stage, is_replicated=True)
    leader, follower = roles.leader, roles.successor
    producer = _StageProducer(stage, roles)
    assert await retried(producer.init) == ErrorCode.NONE
    await producer.add_when_possible()
    stage.cut(leader, follower)
    stage.cut_off_from_ensemble(leader)
    assert await producer.send(TOPIC, b"once") != ErrorCode.NONE
    await stage.until(lambda: stage.leads(follower))
    stage.heal(leader, follower)
    stage.let_to_ensemble(leader)
    await stage.until_in_sync()
    assert stage.log(leader) == []
    await stage.elect_preferred()
    await stage.until(lambda: stage.leads(leader))
    code = await producer.send(TOPIC, b"once")
    assert code == ErrorCode.NONE, f"taken for a duplicate: {ErrorCode(code).name}"
    assert await producer.end(committed=True) == ErrorCode.NONE
    # Once the markers are written.
    await producer.add_when_possible()
    assert await producer.end(committed=False) == ErrorCode.NONE
    shown = await seen(_client(stage, leader), TOPIC)
    assert shown == [b"once"], "what was committed is missing"
    await _end(stage, roles)


SCHEDULES = (
    Schedule(
        a_deposed_coordinator_repeats_a_marker,
        the_coordinator_epoch_of_markers_is_ignored,
        "what was aborted is shown",
    ),
    Schedule(
        a_leader_asks_a_deposed_coordinator,
        any_coordinator_is_asked,
        "a batch begins a transaction that nobody ends",
    ),
    Schedule(
        a_batch_of_a_transaction_is_truncated_and_sent_again,
        producers_are_not_rolled_back,
        "taken for a duplicate: REQUEST_TIMED_OUT",
    ),
    Schedule(
        a_coordinator_cannot_commit_its_decision,
        markers_are_written_before_prepare_is,
        "what was aborted is shown",
    ),
)
