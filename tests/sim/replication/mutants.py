"""Bugs to plant in the replication of a cluster, each with the failure that it must cause."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from ottla.broker.inter_broker import isr_requests
from ottla.broker.inter_broker.isr_requests import IsrRequests
from ottla.metadata import incarnation
from ottla.metadata.controller import isr_changes, partition_update, reassignment
from ottla.metadata.records import Partition as PartitionRecord
from ottla.protocol.primitives import OFFSET_MAX
from ottla.replication import isr
from ottla.replication.append import acknowledgement
from ottla.replication.append.commit_queue import CommitQueue
from ottla.replication.fetch import reads
from ottla.replication.following import replica_update
from ottla.replication.partition import Partition
from ottla.replication.replica import Replica
from ottla.replication.replicas import Replicas
from ottla.storage.log.leader_epoch_file import EpochFile
from ottla.storage.log.leader_epochs import EpochEnd
from ottla.storage.log.log import Log
from tests.sim.cluster import oracle
from tests.sim.cluster.mutants import (
    a_failed_directory_is_served_as_empty,
    an_ex_replica_goes_on_leading,
    damaged_logs_are_not_told,
    elr_is_emptied_while_nobody_leads,
    leader_epoch_is_not_raised,
)
from tests.sim.planted_bugs import PlantedBug
from tests.sim.replication.runs import run_seed


@dataclass(frozen=True, slots=True)
class Mutant(PlantedBug):
    """A planted bug, and what runs a seed."""

    run: Callable[[int], object] = run_seed


# The high watermark and the ISR


def the_high_watermark_ignores_the_asked_isr(patch: pytest.MonkeyPatch) -> None:
    """It waits for the committed ISR only."""
    patch.setattr(Partition, "maximal_isr", property(lambda self: self.isr))


def the_asked_isr_is_in_force_at_once(patch: pytest.MonkeyPatch) -> None:
    """Also a shrink: the high watermark passes a follower that is still in the ISR."""
    patch.setattr(
        Partition,
        "maximal_isr",
        property(lambda self: self.isr if self.asked_isr is None else self.asked_isr),
    )


def an_isr_request_without_an_answer_has_failed(patch: pytest.MonkeyPatch) -> None:
    ask = IsrRequests._ask

    async def ask_and_revert(self: IsrRequests, changes: Any) -> Any:
        unknown = await ask(self, changes)
        for change in unknown:
            self._refused(change)
        return []

    patch.setattr(IsrRequests, "_ask", ask_and_revert)


def progress_is_by_broker_only(patch: pytest.MonkeyPatch) -> None:
    """A follower that has restarted counts with what its former incarnation had."""
    wanted_isr, advance = isr.wanted_isr, Partition._advance

    def with_current(partition: Partition, incarnations: Any) -> None:
        partition.followers = {
            broker_id: progress._replace(
                incarnation=incarnations.get(broker_id, progress.incarnation)
            )
            for broker_id, progress in partition.followers.items()
        }

    def wanted(partition: Partition, brokers: Any) -> Any:
        with_current(partition, {each: broker.incarnation for each, broker in brokers.items()})
        return wanted_isr(partition, brokers)

    def advance_by_id(self: Partition) -> bool:
        with_current(self, {member.broker_id: member for member in self.maximal_isr})
        return advance(self)

    patch.setattr(isr_requests, "wanted_isr", wanted)
    patch.setattr(Partition, "_advance", advance_by_id)


def progress_outlives_its_leader_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "_forget_followers", lambda self: None)


def a_follower_joins_below_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(isr, "_has_caught_up", lambda partition, progress: True)


def the_high_watermark_moves_with_a_small_isr(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "min_isr_in_force", property(lambda self: 1))


def the_high_watermark_is_the_log_end(patch: pytest.MonkeyPatch) -> None:
    appended = Partition.appended

    def appended_and_committed(self: Partition, end_offset: int) -> bool:
        moved = appended(self, end_offset)
        if self.is_leader and end_offset > self.high_watermark:
            self.high_watermark = end_offset
            return True
        return moved

    patch.setattr(Partition, "appended", appended_and_committed)


def a_produce_does_not_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(acknowledgement, "is_committed", lambda append: True)


# Followers


def a_follower_does_not_truncate(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replica_update, "_truncate", lambda replica, diverging: None)


def a_follower_truncates_to_its_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """As before KIP-101: it forgets what it has, when it hears of a new leader."""
    take = Replicas._take

    def take_and_truncate(replica: Replica, record: PartitionRecord) -> None:
        take(replica, record)
        if replica.log is not None and not replica.partition.is_leader:
            replica.log.truncate(replica.partition.high_watermark)

    patch.setattr(Replicas, "_take", staticmethod(take_and_truncate))


def a_follower_truncates_to_the_leaders_end_only(patch: pytest.MonkeyPatch) -> None:
    """Not by epochs: a record of another epoch at the same offset stays."""

    def compare_ends(replica: Replica, offset: int, last_fetched_epoch: int) -> EpochEnd | None:
        end = replica.end_offset
        return EpochEnd(max(last_fetched_epoch, 0), end) if end < offset else None

    patch.setattr(reads, "_follower_diverges", compare_ends)


def a_follower_truncates_without_asking_again(patch: pytest.MonkeyPatch) -> None:
    """To the end of the leader's epoch, whatever its own records are of (KIP-279)."""

    def truncate(replica: Replica, diverging: EpochEnd) -> None:
        if replica.log is not None:
            replica.log.truncate(diverging.end_offset)
            replica.partition.truncated(replica.log.end_offset)
            replica.wake_all()

    patch.setattr(replica_update, "_truncate", truncate)


def producers_are_not_rolled_back(patch: pytest.MonkeyPatch) -> None:
    truncate = Log.truncate

    def truncate_and_keep(self: Log, offset: int) -> None:
        producers = self.producers
        truncate(self, offset)
        self.producers = producers

    patch.setattr(Log, "truncate", truncate_and_keep)


def no_epoch_is_cut_with_no_record(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-10706."""
    truncate = Log.truncate

    def truncate_records(self: Log, offset: int) -> None:
        if offset < self.end_offset:
            truncate(self, offset)

    patch.setattr(Log, "truncate", truncate_records)


# Leaders and incarnations


def a_deposed_leader_goes_on(patch: pytest.MonkeyPatch) -> None:
    """It acknowledges what it appended before it was deposed."""
    patch.setattr(CommitQueue, "fail", lambda self, error: self.moved(OFFSET_MAX))


def any_earlier_incarnation_is_inherited(patch: pytest.MonkeyPatch) -> None:
    """Although the machine has lost its power."""
    patch.setattr(incarnation, "is_intact", lambda previous, boot_id: True)


def anybody_live_is_elected(patch: pytest.MonkeyPatch) -> None:
    """Although records may be lost, and unclean elections are off."""
    settled = partition_update.settled

    def settled_by_anybody(partition: PartitionRecord, brokers: Any) -> PartitionRecord:
        changed = settled(partition, brokers)
        if changed.leader is None:
            for broker_id in changed.replicas:
                broker = brokers.get(broker_id)
                if broker is not None and broker.is_live:
                    leader = broker.incarnation
                    unclean = tuple(each for each in changed.unclean if each != broker_id)
                    elr = partition_update.without(changed.elr, broker_id)
                    return replace(changed, leader=leader, isr=(leader,), elr=elr, unclean=unclean)
        return changed

    patch.setattr(partition_update, "settled", settled_by_anybody)


def epochs_of_the_recovery_point_are_not_saved(patch: pytest.MonkeyPatch) -> None:
    """The recovery point passes the first batch of an epoch that is in memory only."""
    patch.setattr(EpochFile, "begin_save_if_new", lambda self: None)


def a_replica_that_goes_keeps_the_leader_epoch(patch: pytest.MonkeyPatch) -> None:
    """So what the leader knew of its log counts when it is back, empty."""
    successor = reassignment.successor

    def with_old_epoch(before: PartitionRecord, after: PartitionRecord) -> PartitionRecord:
        made = successor(before, after)
        # Callers know by its identity that nothing has changed.
        if made is before or made.leader != before.leader:
            return made
        return replace(made, leader_epoch=before.leader_epoch)

    for module in (isr_changes, partition_update, reassignment):
        patch.setattr(module, "successor", with_old_epoch)
    # The oracle of the metadata would find it first.
    patch.setattr(oracle, "check_successor", lambda before, after: None)


# Others are rare under random faults. The fixed schedules find them.
FEW = range(20)
MUTANTS = (
    Mutant(leader_epoch_is_not_raised, FEW, "invariant [1237]: "),
    Mutant(the_high_watermark_ignores_the_asked_isr, FEW, "invariant [34]: "),
    Mutant(the_asked_isr_is_in_force_at_once, FEW, "invariant [34]: "),
    Mutant(a_follower_joins_below_the_high_watermark, range(20, 40), "invariant [345]: "),
    Mutant(the_high_watermark_moves_with_a_small_isr, FEW, "invariant [345]: "),
    Mutant(the_high_watermark_is_the_log_end, FEW, "invariant 4: "),
    Mutant(a_produce_does_not_wait, FEW, "is acknowledged, and not committed"),
    Mutant(a_follower_does_not_truncate, FEW, "invariant (2|3|5|11): "),
    Mutant(a_follower_truncates_to_its_high_watermark, FEW, "invariant [345]: "),
    Mutant(a_follower_truncates_to_the_leaders_end_only, FEW, "invariant [2345]: "),
    Mutant(
        producers_are_not_rolled_back, range(26, 46), "invariant (3|8|11): |was acknowledged at"
    ),
    Mutant(
        no_epoch_is_cut_with_no_record,
        FEW,
        "invariant 2: .* and the log's epochs say|invariant 3: .* may lead, and truncates",
    ),
    Mutant(a_deposed_leader_goes_on, FEW, "is acknowledged, and not committed"),
    Mutant(any_earlier_incarnation_is_inherited, FEW, "invariant [345]: "),
    Mutant(anybody_live_is_elected, range(10, 30), "invariant [345]: "),
    Mutant(elr_is_emptied_while_nobody_leads, range(20, 40), "invariant (3|6|11): "),
    Mutant(an_ex_replica_goes_on_leading, FEW, "invariant 1: .* in its own image"),
    Mutant(a_failed_directory_is_served_as_empty, FEW, "invariant [345]: "),
    Mutant(damaged_logs_are_not_told, FEW, "invariant 3: .* was committed, and is not there"),
    Mutant(epochs_of_the_recovery_point_are_not_saved, FEW, "invariant [2345]: "),
    # Found by aimed faults, so the seeds are some that have them.
    Mutant(
        an_isr_request_without_an_answer_has_failed,
        (29, 67, 127, 137, 141),
        "invariant 4: .* of the ISR ends at",
    ),
    Mutant(
        progress_is_by_broker_only,
        (62, 72, 92, 132, 96),
        "invariant 3: .* was committed, and is not there|invariant 4: .* of the ISR ends at",
    ),
)
