"""Bugs to plant in the ways of a transaction: each breaks a promise to its producers or consumers.

A bug counts as found if a seed fails for the reason that is named here. One bug of Kafka's kind
cannot be met on a single broker: a leader that ignores the coordinator's epoch in markers, since
two coordinators of one id never live at the same time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from ottla.coordinators.group.machine import GroupMachine
from ottla.coordinators.group.pending_offsets import PendingOffsets
from ottla.coordinators.runtime.decision import NOTHING, Decision
from ottla.coordinators.runtime.loading import Found, Loader
from ottla.coordinators.runtime.shard import Shard
from ottla.coordinators.txn import machine
from ottla.coordinators.txn.coordinator import LocalVerifier
from ottla.coordinators.txn.decision import WriteMarkers
from ottla.coordinators.txn.machine import TIMEOUT_TIMER, TransactionMachine
from ottla.coordinators.txn.marker_writer import MarkerWriter
from ottla.coordinators.txn.partition_leaders import LocalPartitionLeaders
from ottla.coordinators.txn.states import (
    END_AND_BUMP,
    END_RETRIED,
    PREPARED,
    TransactionState,
)
from ottla.coordinators.txn.transaction import Transaction
from ottla.coordinators.txn.verification import Verification
from ottla.errors import ErrorCode
from ottla.metadata.image import Image
from ottla.protocol.batch import MarkerKind
from ottla.protocol.producer_epoch import ProducerIdAndEpoch
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.append.verification_guards import VerificationGuards
from ottla.replication.housekeeping import log_cleaner
from ottla.replication.housekeeping.cleanable_part import find_cleanable
from ottla.storage.compaction.rules import CompactionRules
from ottla.storage.log.log import Log
from ottla.storage.log.reading import ReadableLog
from ottla.storage.producers.state import ProducerStates

Plant = Callable[[pytest.MonkeyPatch], None]
# As many as a test run tries without a bug.
SEEDS = 50


@dataclass(frozen=True, slots=True)
class TransactionalMutant:
    """A bug, the seeds one of which must meet it, and a pattern of the failure that it causes."""

    plant: Plant
    reason: str
    seeds: Sequence[int] = range(SEEDS)

    @property
    def name(self) -> str:
        return self.plant.__name__


# The coordinator


def markers_are_written_before_prepare_is(patch: pytest.MonkeyPatch) -> None:
    carry_out = Shard._carry_out

    def perform_and_carry_out(
        self: Shard[Any, Any], decision: Decision[Any, Any], now_ms: int, steady_ms: int
    ) -> None:
        effects = decision.effects if self.is_loaded else ()
        if effects:
            decision = decision._replace(effects=())
        carry_out(self, decision, now_ms, steady_ms)
        for effect in effects:
            self._perform(effect)

    patch.setattr(Shard, "_carry_out", perform_and_carry_out)


def markers_do_not_wait_for_the_flush_of_prepare(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Shard, "_must_flush", lambda self, end_offset: False)


def markers_are_not_flushed(patch: pytest.MonkeyPatch) -> None:
    async def take_for_flushed(self: LocalPartitionLeaders, append: object) -> ErrorCode:
        return ErrorCode.NONE

    patch.setattr(LocalPartitionLeaders, "_flushed", take_for_flushed)


def markers_are_not_resumed_after_a_load(patch: pytest.MonkeyPatch) -> None:
    loaded = TransactionMachine.loaded

    def without_effects(self: TransactionMachine, now_ms: int) -> Any:
        for decision in loaded(self, now_ms):
            yield decision._replace(effects=())

    patch.setattr(TransactionMachine, "loaded", without_effects)


def prepare_is_in_memory_only(patch: pytest.MonkeyPatch) -> None:
    replay = Shard._replay

    def replay_without_prepare(self: Shard[Any, Any], records: Sequence[Any]) -> None:
        prepared = [
            record
            for record in records
            if isinstance(record, Transaction) and record.state in PREPARED
        ]
        for record in prepared:
            self.machine.replay(record)
        if not prepared:
            replay(self, records)

    patch.setattr(Shard, "_replay", replay_without_prepare)


def an_abort_leaves_one_partition_without_its_marker(patch: pytest.MonkeyPatch) -> None:
    write = MarkerWriter._write

    def write_fewer(self: MarkerWriter, shard: Any, effect: WriteMarkers, partitions: Any) -> Any:
        chosen = sorted(partitions)
        if effect.kind is MarkerKind.ABORT and len(chosen) > 1:
            chosen.pop()
        return write(self, shard, effect, chosen)

    patch.setattr(MarkerWriter, "_write", write_fewer)


def a_deleted_partition_waits_for_its_marker(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Image, "has_partition", lambda self, topic, index: True)


def timeouts_never_fire(patch: pytest.MonkeyPatch) -> None:
    timer_expired = TransactionMachine.timer_expired

    def ignore(self: TransactionMachine, timer_key: str, now_ms: int) -> Any:
        if timer_key.startswith(TIMEOUT_TIMER):
            return NOTHING
        return timer_expired(self, timer_key, now_ms)

    patch.setattr(TransactionMachine, "timer_expired", ignore)


def init_producer_id_does_not_bump_the_epoch(patch: pytest.MonkeyPatch) -> None:
    def same(
        self: TransactionMachine, before: Transaction, expected: ProducerIdAndEpoch | None
    ) -> tuple[ProducerIdAndEpoch, int]:
        return ProducerIdAndEpoch(before.producer_id, before.producer_epoch), -1

    patch.setattr(TransactionMachine, "_next_producer", same)


def a_fenced_producer_passes_for_the_next_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        TransactionMachine,
        "_was_bumped_from",
        lambda self, epoch, before: epoch + 1 == before.producer_epoch,
    )


def a_late_retry_ends_the_next_transaction(patch: pytest.MonkeyPatch) -> None:
    ongoing = TransactionState.ONGOING
    rules = {**END_RETRIED, ongoing: END_AND_BUMP[ongoing]}
    patch.setattr(machine, "END_RETRIED", rules)


def a_clock_that_is_set_back_keeps_transactions_open(patch: pytest.MonkeyPatch) -> None:
    timeout_of = TransactionMachine._timeout_of

    def of_the_future(self: TransactionMachine, transaction: Transaction, _now_ms: int) -> Any:
        return timeout_of(self, transaction, transaction.start_ms)

    patch.setattr(TransactionMachine, "_timeout_of", of_the_future)


def ids_expire_in_a_transaction(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(machine, "IDLE", frozenset(TransactionState))


# Verification


def verification_is_skipped(patch: pytest.MonkeyPatch) -> None:
    """Of producers that add partitions themselves."""
    verify = LocalVerifier.verify

    async def trust(
        self: LocalVerifier, verification: Verification
    ) -> Mapping[TopicPartition, ErrorCode]:
        if verification.adds:
            return await verify(self, verification)
        return dict.fromkeys(verification.partitions, ErrorCode.NONE)

    patch.setattr(LocalVerifier, "verify", trust)


def the_verification_guard_is_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(VerificationGuards, "is_valid", lambda self, guard: True)
    patch.setattr(VerificationGuards, "end", lambda self, guard, **_: None)


# Offsets


def pending_offsets_are_visible(patch: pytest.MonkeyPatch) -> None:
    def replay(self: GroupMachine, record: Any, producer_id: int) -> None:
        self.replay(record)

    patch.setattr(GroupMachine, "replay_pending", replay)


def a_transactional_commit_beats_a_later_plain_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PendingOffsets, "overtake", lambda self, *_, **__: None)


def a_load_commits_open_transactions(patch: pytest.MonkeyPatch) -> None:
    found = Loader._found

    def all_committed(self: Loader) -> Any:
        for each in found(self):
            yield Found(each.offset, each.key, each.value)

    patch.setattr(Loader, "_found", all_committed)


def a_load_lets_a_transactional_commit_beat_a_later_plain_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Loader, "_is_overtaken", lambda self, record: False)


def compaction_goes_past_the_last_stable_offset(patch: pytest.MonkeyPatch) -> None:
    def find_beyond(log: Log, rules: CompactionRules, _stable_offset: int, now_ms: int) -> Any:
        return find_cleanable(log, rules, log.end_offset, now_ms)

    patch.setattr(log_cleaner, "find_cleanable", find_beyond)


# Consumers


def aborted_transactions_are_not_listed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReadableLog, "aborted_in", lambda self, *_, **__: [])


def the_last_stable_offset_ignores_open_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerStates, "last_stable_offset", lambda self, high_watermark: high_watermark)


def seeds_from(first: int) -> Sequence[int]:
    """All seeds, first the one that has found the bug before."""
    return (*range(first, SEEDS), *range(first))


TORN = "is torn|is missing|and was seen|is aborted|read_committed was shown"
FORGOTTEN = f"{TORN}|is there, after|is over without a reason"
OPEN = "hangs: .*stable up to"
MUTANTS = (
    TransactionalMutant(markers_are_written_before_prepare_is, TORN, seeds_from(5)),
    TransactionalMutant(markers_do_not_wait_for_the_flush_of_prepare, TORN, seeds_from(42)),
    TransactionalMutant(markers_are_not_flushed, f"{TORN}|{OPEN}", seeds_from(6)),
    TransactionalMutant(markers_are_not_resumed_after_a_load, "hangs: .*Prepare|not at their end"),
    TransactionalMutant(prepare_is_in_memory_only, FORGOTTEN),
    TransactionalMutant(an_abort_leaves_one_partition_without_its_marker, OPEN),
    TransactionalMutant(
        a_deleted_partition_waits_for_its_marker, "hangs: .*Prepare|not at their", seeds_from(9)
    ),
    TransactionalMutant(timeouts_never_fire, "hangs: .*Ongoing"),
    TransactionalMutant(init_producer_id_does_not_bump_the_epoch, "are both"),
    TransactionalMutant(a_fenced_producer_passes_for_the_next_one, "are both", seeds_from(31)),
    TransactionalMutant(
        a_late_retry_ends_the_next_transaction,
        f"{TORN}|shows transaction|is over without a reason",
        seeds_from(8),
    ),
    TransactionalMutant(
        a_clock_that_is_set_back_keeps_transactions_open, "hangs: .*Ongoing", seeds_from(2)
    ),
    TransactionalMutant(ids_expire_in_a_transaction, OPEN, seeds_from(6)),
    TransactionalMutant(
        verification_is_skipped, f"was fenced|that is aborted|{OPEN}", seeds_from(9)
    ),
    TransactionalMutant(
        the_verification_guard_is_ignored, f"that is aborted|{OPEN}", seeds_from(23)
    ),
    TransactionalMutant(pending_offsets_are_visible, "committed offset .* shows"),
    TransactionalMutant(
        a_transactional_commit_beats_a_later_plain_one, "is there, after", seeds_from(3)
    ),
    TransactionalMutant(a_load_commits_open_transactions, "committed offset .* shows"),
    TransactionalMutant(
        a_load_lets_a_transactional_commit_beat_a_later_plain_one, "is there, after", seeds_from(10)
    ),
    TransactionalMutant(
        compaction_goes_past_the_last_stable_offset, "is there, after", seeds_from(17)
    ),
    TransactionalMutant(aborted_transactions_are_not_listed, "shows transaction"),
    TransactionalMutant(the_last_stable_offset_ignores_open_transactions, "shows transaction"),
)
