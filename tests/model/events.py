"""The events of the model: brokers, logs and requests. Each gives the state after it, or None."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, cast

from ottla.errors import PeerError
from ottla.metadata.controller import reassignment
from ottla.metadata.controller.isr_changes import AskedIsr, altered
from ottla.metadata.controller.min_isr import with_min_isr
from ottla.metadata.controller.partition_update import updated
from ottla.metadata.controller.preferred_leaders import preferred_leader_updates
from ottla.metadata.controller.unclean_election import (
    LogEnd,
    candidates,
    elected_by_log_ends,
)
from ottla.metadata.image import Image
from ottla.metadata.records import Broker, Partition
from ottla.metadata.values import BrokerState, Incarnation
from tests.model.state import (
    BROKER_IDS,
    WHERE,
    State,
    acting_leader,
    broker_record,
    common_prefix,
)

LOG_RECORDS_MAX = 2
STARTING, UP, DRAINING, GONE = BrokerState


class Loss(Enum):
    """What a broker loses when its process ends."""

    NOTHING = "nothing"
    # It registers without inheriting, though its logs are intact.
    IDENTITY = "its identity"
    # The page cache, and with it the last record. It does not inherit.
    POWER = "power"
    # This one log. It inherits, and reports the damage.
    LOG = "its log"


@dataclass(frozen=True)
class Rules:
    """The controller's decisions. A mutant replaces one."""

    updated: Callable[[Partition, Mapping[int, Broker]], Partition] = updated
    altered: Callable[[Image, Incarnation, AskedIsr], Partition] = altered
    with_min_isr: Callable[[Partition, int, Mapping[int, Broker]], Partition] = with_min_isr
    elected: Callable[..., Partition | None] = elected_by_log_ends
    # An operator moves the partition to one of these, or cancels the move.
    targets: tuple[tuple[int, ...], ...] = ()


class Step(NamedTuple):
    """An event, and the state after it."""

    event: str
    after: State


class _OnePartition(NamedTuple):
    """As much of an image as decisions on one partition look up."""

    brokers: Mapping[int, Broker]
    only: Partition

    def topic_by_id(self, topic_id: object) -> object:
        return self.only.topic_id

    def partition(self, topic_id: object, index: int) -> Partition:
        return self.only


def image_of(state: State) -> Image:
    return cast(Image, _OnePartition(state.brokers, state.partition))


def steps(state: State, rules: Rules) -> Iterator[Step]:
    """Every event that can happen next."""
    for broker_id in BROKER_IDS:
        yield from _broker_steps(state, broker_id)
    for step in _steps_of_partition(state, rules):
        yield step._replace(after=_without_deleted_logs(step.after))


def _steps_of_partition(state: State, rules: Rules) -> Iterator[Step]:
    yield from _controller_steps(state, rules)
    yield from _moves(state, rules)
    leader = acting_leader(state)
    if leader is not None:
        yield from _leader_steps(state, leader, rules)


# --- brokers ----------------------------------------------------------------------------------


def _broker_steps(state: State, broker_id: int) -> Iterator[Step]:
    record = state.brokers[broker_id]
    if record.is_live:
        yield Step(f"{broker_id} is gone", _with_broker(state, broker_id, state=GONE))
    if record.state is UP:
        yield Step(f"{broker_id} drains", _with_broker(state, broker_id, state=DRAINING))
    # A restart that is quick enough is not preceded by a record that says that it is gone.
    event = f"{broker_id} restarts" if record.is_live else f"{broker_id} is back"
    for loss in _different_losses(state, broker_id):
        lost = _after_loss(state, broker_id, loss)
        is_intact = loss in (Loss.NOTHING, Loss.LOG)
        after = _registered(lost, broker_id, is_intact=is_intact, is_damaged=loss is Loss.LOG)
        yield Step(f"{event} and lost {loss.value}", after)


def _different_losses(state: State, broker_id: int) -> Iterator[Loss]:
    """The losses that differ in their consequences."""
    part = state.partition
    is_member = any(each.broker_id == broker_id for each in (*part.isr, *part.elr))
    yield Loss.NOTHING
    if is_member:
        yield Loss.IDENTITY
    if state.logs[broker_id]:
        yield Loss.POWER
    if is_member or len(state.logs[broker_id]) > 1:
        yield Loss.LOG


def _with_broker(before: State, broker_id: int, **fields: Any) -> State:
    record = before.brokers[broker_id]
    changed = broker_record(
        broker_id,
        fields.get("epoch", record.epoch),
        fields.get("state", record.state),
        fields.get("inherited", record.inherited_epochs),
        fields.get("damaged", bool(record.damaged)),
    )
    return before._replace(brokers={**before.brokers, broker_id: changed})


def _after_loss(state: State, broker_id: int, loss: Loss) -> State:
    """The state after a broker's log was cut; the same if nothing is lost."""
    log = state.logs[broker_id]
    if loss is Loss.POWER:
        kept = log[:-1]
    elif loss is Loss.LOG:
        kept = ()
    else:
        return state
    promise = state.promise
    had = common_prefix(log, promise.committed)
    if len(kept) < had and broker_id in promise.holders and broker_id not in promise.lost:
        promise = promise._replace(lost=tuple(sorted((*promise.lost, broker_id))))
    return state._replace(logs={**state.logs, broker_id: kept}, promise=promise)


def _registered(
    state: State, broker_id: int, *, is_intact: bool, is_damaged: bool = False
) -> State:
    """The next incarnation has registered.

    It inherits from the last one, and if that one was never up, from those it inherited from. A
    damaged log is remembered until an incarnation is up.
    """
    record, served = state.brokers[broker_id], state.served[broker_id]
    inherited: tuple[int, ...] = ()
    if is_intact:
        inherited = (record.epoch,) if served else (record.epoch, *record.inherited_epochs)
    after = _with_broker(
        state,
        broker_id,
        epoch=record.epoch + 1,
        state=STARTING,
        inherited=inherited,
        damaged=is_damaged or (not served and bool(record.damaged)),
    )
    return after._replace(served={**state.served, broker_id: False})


# --- the controller ---------------------------------------------------------------------------


def _controller_steps(state: State, rules: Rules) -> Iterator[Step]:
    part = state.partition
    after = rules.updated(part, state.brokers)
    if after is not part:
        yield Step("update", state._replace(partition=after))
    other = 1 if part.min_isr == 2 else 2
    lower = min(state.promise.min_isr, other)
    yield Step(
        f"min_isr becomes {other}",
        state._replace(
            partition=rules.with_min_isr(part, other, state.brokers),
            promise=state.promise._replace(min_isr=lower),
        ),
    )
    for preferred in preferred_leader_updates(image_of(state), [WHERE]):
        yield Step("preferred leader", state._replace(partition=preferred))
    if part.leader is not None:
        return
    asked = candidates(part, state.brokers, is_unclean_allowed=False)
    ends = {each: _log_end(state, each.broker_id) for each in asked}
    elected = rules.elected(
        part, state.brokers, part.partition_epoch, ends, is_unclean_allowed=False
    )
    if elected is not None:
        yield Step("election by log ends", state._replace(partition=elected))


def _moves(state: State, rules: Rules) -> Iterator[Step]:
    image, part = image_of(state), state.partition
    for target in rules.targets:
        try:
            moved = reassignment.started(image, part, target, may_change_factor=True)
        except PeerError:
            continue
        if moved is not part:
            yield Step(f"move to {target}", state._replace(partition=moved))
    if part.adding or part.removing:
        try:
            back = reassignment.cancelled(image, part)
        except PeerError:
            return
        yield Step("cancel the move", state._replace(partition=back))


def _without_deleted_logs(state: State) -> State:
    """A broker that is no replica any more deletes its log."""
    replicas = state.partition.replicas
    if all(each in replicas or not log for each, log in state.logs.items()):
        return state
    kept = {each: log if each in replicas else () for each, log in state.logs.items()}
    return state._replace(logs=kept)


def with_started_up(state: State) -> State:
    """The state after the records of brokers that are up: they follow those of their partitions."""
    for broker_id, record in state.brokers.items():
        if record.state is STARTING:
            state = _with_broker(state, broker_id, state=UP, damaged=False)
            state = state._replace(served={**state.served, broker_id: True})
    return state


def _log_end(state: State, broker_id: int) -> LogEnd:
    log = state.logs[broker_id]
    return LogEnd(log[-1] if log else -1, len(log))


# --- the leader -------------------------------------------------------------------------------


def _leader_steps(state: State, leader: int, rules: Rules) -> Iterator[Step]:
    log = state.logs[leader]
    if len(log) < LOG_RECORDS_MAX:
        longer = (*log, state.partition.leader_epoch)
        yield Step("append", state._replace(logs={**state.logs, leader: longer}))
    members = {each.broker_id: each for each in state.partition.isr}
    for broker_id in state.partition.replicas:
        if broker_id == leader:
            continue
        record = state.brokers[broker_id]
        is_serving = record.state in (UP, DRAINING)
        if is_serving and state.logs[broker_id] != log:
            yield Step(f"{broker_id} fetches", state._replace(logs={**state.logs, broker_id: log}))
        if broker_id in members:
            smaller = {each: members[each] for each in members if each != broker_id}
            yield from _asked(state, leader, smaller, f"shrink by {broker_id}", rules)
        elif is_serving and _may_join(state, leader, broker_id):
            larger = {**members, broker_id: record.incarnation}
            yield from _asked(state, leader, larger, f"expand by {broker_id}", rules)


def _may_join(state: State, leader: int, broker_id: int) -> bool:
    """The follower has reached the high watermark and the start of the current leader epoch."""
    log = state.logs[leader]
    epoch_start = sum(epoch < state.partition.leader_epoch for epoch in log)
    needed = max(epoch_start, len(state.promise.committed))
    return common_prefix(log, state.logs[broker_id]) >= needed


def _asked(
    state: State, leader: int, isr: dict[int, Incarnation], event: str, rules: Rules
) -> Iterator[Step]:
    part = state.partition
    asked = AskedIsr(
        WHERE.topic_id,
        WHERE.partition,
        part.leader_epoch,
        part.partition_epoch,
        tuple(isr.values()),
    )
    try:
        after = rules.altered(image_of(state), state.brokers[leader].incarnation, asked)
    except PeerError:
        return
    yield Step(event, state._replace(partition=after))
