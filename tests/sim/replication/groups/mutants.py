"""Bugs to plant in group coordinators, each with the failure that it must cause."""

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.coordinators.group.classic.group import ClassicGroup
from ottla.coordinators.group.consumer.group import ConsumerGroup
from ottla.coordinators.group.machine import GroupMachine
from ottla.coordinators.group.offsets import accept_any
from ottla.coordinators.runtime import shards
from ottla.coordinators.runtime.loading import Loader
from ottla.coordinators.runtime.shard import Shard
from ottla.replication.replica import Replica
from ottla.storage.log.log import Log
from tests.sim.replication.mutants import Mutant


def answers_do_not_wait_for_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Shard, "_answer_later", lambda self, answers, steady_ms: self._give(answers))


def a_shard_outlives_its_leader_epoch(patch: pytest.MonkeyPatch) -> None:
    """A broker that leads again goes on with what it knew before."""

    def leads(self: Shard[Any, Any]) -> bool:
        partition = self.replica.partition
        self.leader_epoch = partition.leader_epoch
        return partition.is_leader

    def is_kept(shard: Shard[Any, Any], replica: Replica | None) -> bool:
        return replica is shard.replica and not shard.is_closed

    patch.setattr(Shard, "_is_leading", property(leads))
    patch.setattr(Shard, "wake", lambda self: None)
    patch.setattr(shards, "_is_current", is_kept)


class _ShortLog:
    """A log that ends earlier than it does."""

    def __init__(self, log: Log, end_offset: int) -> None:
        self._log = log
        self.end_offset = end_offset

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def a_load_stops_at_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """Of which a new leader has heard late: records beyond it are committed, too."""
    read = Loader._read

    async def read_less(self: Loader, log: Log) -> None:
        await read(self, _ShortLog(log, self._shard.replica.high_watermark))  # type: ignore[arg-type]

    patch.setattr(Loader, "_read", read_less)


def a_load_forgets_the_members(patch: pytest.MonkeyPatch) -> None:
    loaded = GroupMachine.loaded

    def forget_and_load(self: GroupMachine, now_ms: int) -> Iterator[Any]:
        self.groups.clear()
        return loaded(self, now_ms)

    patch.setattr(GroupMachine, "loaded", forget_and_load)


def a_commit_of_any_generation_is_accepted(patch: pytest.MonkeyPatch) -> None:
    for group in (ClassicGroup, ConsumerGroup):
        patch.setattr(group, "check_commit", lambda self, *args, **named: accept_any)


SEEDS = range(20)
GROUP_MUTANTS = (
    Mutant(
        answers_do_not_wait_for_the_high_watermark,
        SEEDS,
        # Also of a transaction coordinator, which gives an epoch again that it has forgotten.
        "invariant 10: .* is lost|are both ProducerIdAndEpoch",
    ),
    Mutant(a_shard_outlives_its_leader_epoch, range(19, 39), "invariant 10: "),
    Mutant(a_load_stops_at_the_high_watermark, range(21, 41), "invariant 10: "),
    Mutant(a_load_forgets_the_members, SEEDS, "invariant 10: .* (is of|is owned by) .* and"),
    Mutant(a_commit_of_any_generation_is_accepted, SEEDS, "invariant 10: .* out of date"),
)
