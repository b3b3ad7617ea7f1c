"""Bugs to plant in the transactions of a cluster, each with the failure that it must cause.

Compaction past the last stable offset is planted on a single broker: the ghost copy of a partition
has every offset, so nothing is compacted here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ottla.coordinators.runtime import shards
from ottla.coordinators.runtime.decision import Answered
from ottla.coordinators.runtime.shard import Shard
from ottla.coordinators.txn.cluster_verifier import ClusterVerifier
from ottla.coordinators.txn.verification import Verification
from ottla.errors import ErrorCode
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.append import appender
from ottla.replication.replica import Replica
from ottla.storage.producers.entry import ProducerEntry
from tests.sim.broker.transactional_mutants import (
    OPEN,
    TORN,
    markers_are_not_resumed_after_a_load,
    markers_are_written_before_prepare_is,
)
from tests.sim.broker.transactional_mutants import (
    verification_is_skipped as verification_is_skipped_locally,
)
from tests.sim.replication.mutants import Mutant
from tests.sim.replication.transactions.clients import has_transactions
from tests.sim.seams.entropy import SimEntropy

# The failures of coordinators that have forgotten what they were told, or what others decided.
FORGOTTEN = f"{TORN}|are both|shows transaction|is over without a reason|was fenced|is there, after"


def a_shard_outlives_its_leader_epoch(patch: pytest.MonkeyPatch) -> None:
    """Its appends are of any epoch: it goes on when its broker leads again."""

    def is_kept(shard: Shard[Any, Any], replica: Replica | None) -> bool:
        return replica is shard.replica and not shard.is_closed

    patch.setattr(shards, "_is_current", is_kept)
    patch.setattr(Shard, "_is_leading", property(lambda self: self.replica.partition.is_leader))
    patch.setattr(Shard, "wake", lambda self: None)
    patch.setattr(appender, "_check_leader_epoch", lambda partition, expected: None)


def a_coordinator_answers_before_it_has_committed(patch: pytest.MonkeyPatch) -> None:
    def answer_now(self: Shard[Any, Any], answers: Sequence[Answered], steady_ms: int) -> None:
        self._give(answers)

    patch.setattr(Shard, "_answer_later", answer_now)


def the_coordinator_epoch_of_markers_is_ignored(patch: pytest.MonkeyPatch) -> None:
    check_marker = ProducerEntry.check_marker

    def check_as_of_now(self: ProducerEntry, header: Any, marker: Any, version: int) -> None:
        latest = max(marker.coordinator_epoch, self.coordinator_epoch)
        check_marker(self, header, marker._replace(coordinator_epoch=latest), version)

    patch.setattr(ProducerEntry, "check_marker", check_as_of_now)


def any_coordinator_is_asked(patch: pytest.MonkeyPatch) -> None:
    """Although a marker says that it has a successor."""
    patch.setattr(Replica, "coordinator_epoch_of", lambda self, producer_id: -1)


def verification_is_skipped(patch: pytest.MonkeyPatch) -> None:
    """Of producers that add partitions themselves, by leaders on any broker."""
    verification_is_skipped_locally(patch)
    verify = ClusterVerifier.verify

    async def trust(
        self: ClusterVerifier, verification: Verification
    ) -> Mapping[TopicPartition, ErrorCode]:
        if verification.adds:
            return await verify(self, verification)
        return dict.fromkeys(verification.partitions, ErrorCode.NONE)

    patch.setattr(ClusterVerifier, "verify", trust)


SEEDS_PER_MUTANT = 20
_SEEDS = [seed for seed in range(100) if has_transactions(SimEntropy(seed).fork("scenario"))]


def seeds_from(first: int) -> Sequence[int]:
    """Seeds with transactional clients, first the one that has found the bug before."""
    begin = _SEEDS.index(first)
    return (_SEEDS[begin:] + _SEEDS[:begin])[:SEEDS_PER_MUTANT]


# Others are rare under random faults, and the fixed schedules find them: one that asks any
# coordinator, one that keeps truncated producers.
MUTANTS = (
    Mutant(markers_are_written_before_prepare_is, seeds_from(74), TORN),
    Mutant(a_shard_outlives_its_leader_epoch, seeds_from(69), FORGOTTEN),
    Mutant(a_coordinator_answers_before_it_has_committed, seeds_from(4), FORGOTTEN),
    Mutant(markers_are_not_resumed_after_a_load, seeds_from(4), "hangs: .*Prepare|not at their"),
    # Found by aimed faults, so the seeds are some that have them.
    Mutant(
        the_coordinator_epoch_of_markers_is_ignored,
        (9, 28, 95, 114, 130),
        f"{TORN}|shows transaction",
    ),
    Mutant(verification_is_skipped, seeds_from(88), f"was fenced|that is aborted|{OPEN}"),
)
