"""The state of the model: one partition on three brokers, their logs, and what was committed.

A log is the tuple of the leader epochs of its records: the record at an offset is known by its
epoch, since one leader appends in an epoch. Only the order of epochs matters, so that `key_of`
numbers them anew, and equal situations have equal keys.
"""

from dataclasses import replace
from functools import cache
from typing import NamedTuple, cast

from ottla.metadata.controller.partition_update import min_isr_in_force
from ottla.metadata.records import Broker, Partition
from ottla.metadata.values import BrokerState, Incarnation, PartitionId
from tests.support.metadata.sample_records import broker, partition, topic_id

Log = tuple[int, ...]

BROKER_IDS = (1, 2, 3)
WHERE = PartitionId(topic_id(1), 0)


class Promise(NamedTuple):
    """What the cluster owes to producers with acks=all.

    `committed` must be in every leader's log while fewer than `min_isr` of the holders have lost
    some of it. The holders are the ISR of the last time when somebody led it and it was large
    enough: all of them had everything that was committed. `min_isr` is the least since then.
    """

    committed: Log
    holders: tuple[int, ...]
    min_isr: int
    lost: tuple[int, ...] = ()

    @property
    def is_void(self) -> bool:
        return len(self.lost) >= self.min_isr


class State(NamedTuple):
    """`served` says of each broker whether its newest incarnation was ever up."""

    partition: Partition
    brokers: dict[int, Broker]
    logs: dict[int, Log]
    served: dict[int, bool]
    promise: Promise


@cache
def broker_record(
    broker_id: int, epoch: int, state: BrokerState, inherited: tuple[int, ...], damaged: bool
) -> Broker:
    return broker(
        broker_id,
        epoch,
        state=state,
        inherits=inherited[0] if inherited else None,
        also_inherits=inherited[1:],
        damaged=(WHERE,) if damaged else (),
    )


def start(min_isr: int) -> State:
    """All replicas are in sync and have one committed record."""
    isr = tuple(Incarnation(each, 0) for each in BROKER_IDS)
    return State(
        partition(leader=isr[0], isr=isr, min_isr=min_isr),
        {each: broker_record(each, 0, BrokerState.UP, (), False) for each in BROKER_IDS},
        dict.fromkeys(BROKER_IDS, (0,)),
        dict.fromkeys(BROKER_IDS, True),
        Promise((0,), BROKER_IDS, min_isr),
    )


def start_on_two(min_isr: int) -> State:
    """Brokers 1 and 2 have the partition, and broker 3 can get it."""
    whole = start(min_isr)
    isr = whole.partition.isr[:2]
    return whole._replace(
        partition=replace(whole.partition, replicas=(1, 2), isr=isr),
        logs={1: (0,), 2: (0,), 3: ()},
        promise=Promise((0,), (1, 2), min_isr),
    )


def start_below_min_isr() -> State:
    """Only the leader is in sync; the second replica is eligible, the third has fallen behind."""
    whole = start(min_isr=2)
    isr, elr = whole.partition.isr[:1], whole.partition.isr[1:2]
    return whole._replace(
        partition=replace(whole.partition, isr=isr, elr=elr),
        logs={1: (0,), 2: (0,), 3: ()},
        promise=Promise((0,), (1, 2), 2),
    )


def common_prefix(one: Log, other: Log) -> int:
    """The number of records that two logs have in common, from the start on."""
    length = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        length += 1
    return length


def live_leader(state: State) -> int | None:
    """The broker that leads under its current epoch."""
    leader = state.partition.leader
    if leader is None:
        return None
    record = state.brokers[leader.broker_id]
    return leader.broker_id if record.is_live and record.incarnation == leader else None


def acting_leader(state: State) -> int | None:
    """The broker that leads and serves: one that is starting does not serve yet."""
    leader = live_leader(state)
    if leader is None or state.brokers[leader].state is BrokerState.STARTING:
        return None
    return leader


def with_promise_kept(state: State) -> State:
    """The leader moves the high watermark as soon as it can, and the promise is renewed."""
    leader = acting_leader(state)
    needed = min_isr_in_force(state.partition)
    if leader is None or len(state.partition.isr) < needed:
        return state
    promise, logs, isr = state.promise, state.logs, state.partition.isr
    reached = min(common_prefix(logs[leader], logs[each.broker_id]) for each in isr)
    if reached > len(promise.committed):
        promise = promise._replace(committed=logs[leader][:reached])
    if all(
        state.brokers[each.broker_id].is_live and state.brokers[each.broker_id].incarnation == each
        for each in isr
    ):
        holders = tuple(each.broker_id for each in isr)
        promise = Promise(promise.committed, holders, needed)
    return state._replace(promise=promise)


# --- equal states -----------------------------------------------------------------------------


class Key(NamedTuple):
    """A state in its canonical form, as small as it can be. Equal for equal situations.

    The order of the members of ISR and ELR decides nothing, so that they are sorted.
    """

    leader: Incarnation | None
    leader_epoch: int
    isr: tuple[Incarnation, ...]
    elr: tuple[Incarnation, ...]
    unclean: tuple[int, ...]
    min_isr: int
    # Replicas, adding, removing and original ones.
    assignment: tuple[tuple[int, ...], ...]
    # The fields of `broker_record` after the broker's id, and `served`.
    brokers: tuple[tuple[int, BrokerState, tuple[int, ...], bool, bool], ...]
    logs: tuple[Log, ...]
    promise: Promise


def key_of(state: State) -> Key:
    part = state.partition
    renamed: dict[Incarnation | None, Incarnation | None] = {None: None}
    brokers = tuple(_canonical_broker(state, broker_id, renamed) for broker_id in BROKER_IDS)
    logs, promise = state.logs, state.promise
    epochs = {part.leader_epoch, *promise.committed}
    epochs.update(*logs.values())
    number = {epoch: place for place, epoch in enumerate(sorted(epochs))}
    committed = tuple([number[epoch] for epoch in promise.committed])
    return Key(
        renamed[part.leader],
        number[part.leader_epoch],
        tuple(sorted([cast(Incarnation, renamed[each]) for each in part.isr])),
        tuple(sorted([cast(Incarnation, renamed[each]) for each in part.elr])),
        tuple(sorted(part.unclean)),
        part.min_isr,
        (part.replicas, part.adding, part.removing, part.originals),
        brokers,
        tuple([tuple([number[epoch] for epoch in logs[each]]) for each in BROKER_IDS]),
        Promise(committed, (), 0)
        if promise.is_void
        else Promise(committed, promise.holders, promise.min_isr, promise.lost),
    )


def _canonical_broker(
    state: State, broker_id: int, renamed: dict[Incarnation | None, Incarnation | None]
) -> tuple[int, BrokerState, tuple[int, ...], bool, bool]:
    """A broker with its epochs numbered anew; adds its incarnations to `renamed`."""
    record, part = state.brokers[broker_id], state.partition
    named = [each for each in part.isr + part.elr if each[0] == broker_id]
    # Inheritance, damage and whether it was ever up matter to memberships of older epochs only.
    is_pending = any(each[1] != record.epoch for each in named)
    inherited = record.inherited_epochs if is_pending else ()
    epochs = sorted({record.epoch, *inherited, *[each[1] for each in named]})
    rank = {epoch: place for place, epoch in enumerate(epochs)}
    for each in named:
        renamed[each] = Incarnation(broker_id, rank[each[1]])
    return (
        rank[record.epoch],
        record.state,
        tuple([rank[epoch] for epoch in inherited]),
        bool(record.damaged and is_pending),
        state.served[broker_id] or not is_pending,
    )


def state_of(key: Key) -> State:
    """The inverse of `key_of`."""
    replicas, adding, removing, originals = key.assignment
    return State(
        Partition(
            topic_id=WHERE.topic_id,
            index=WHERE.partition,
            replicas=replicas,
            adding=adding,
            removing=removing,
            originals=originals,
            leader=key.leader,
            leader_epoch=key.leader_epoch,
            isr=key.isr,
            elr=key.elr,
            unclean=key.unclean,
            min_isr=key.min_isr,
            partition_epoch=0,
        ),
        {each: broker_record(each, *key.brokers[each - 1][:4]) for each in BROKER_IDS},
        dict(zip(BROKER_IDS, key.logs, strict=True)),
        {each: key.brokers[each - 1][4] for each in BROKER_IDS},
        key.promise,
    )
