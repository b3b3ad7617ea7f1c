"""Bugs that a compaction could have, planted one at a time: the simulation must find each."""

from dataclasses import replace
from typing import Any

import pytest

from ottla.replication.housekeeping import cleanable_part
from ottla.storage.compaction import segment_swap
from ottla.storage.compaction.rules import AbortedTransactions, BatchJudge, Judgement, LatestBatches
from ottla.storage.log.log import Log
from tests.sim.seams.files import SimFiles
from tests.sim.storage import compaction_scenario
from tests.sim.storage.mutants import Mutant


def compacts_past_the_last_stable_offset(patch: pytest.MonkeyPatch) -> None:
    def find_cleanable(log: Log, rules: Any, _stable_offset: int, now_ms: int) -> Any:
        return cleanable_part.find_cleanable(log, rules, log.end_offset, now_ms)

    patch.setattr(compaction_scenario, "find_cleanable", find_cleanable)


def tombstones_go_at_once(patch: pytest.MonkeyPatch) -> None:
    def cleaning_job(*args: Any) -> Any:
        job = cleanable_part.cleaning_job(*args)
        return replace(job, delete_retention_ms=0, now_ms=job.now_ms + 10**6)

    patch.setattr(compaction_scenario, "cleaning_job", cleaning_job)


def producers_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LatestBatches, "of", classmethod(lambda cls, entry: cls(entry.epoch + 1, ())))


def aborted_records_pass_for_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AbortedTransactions, "find", lambda *_: None)


def markers_go_before_their_records(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BatchJudge, "_judge_marker", lambda *_: Judgement(True))


def an_outputs_last_batch_goes_when_empty(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BatchJudge, "keep", lambda _self, _last_offset: None)


def old_snapshots_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(segment_swap, "remove_snapshots_below", lambda *_: None)


def sources_go_before_the_output_is_durable(patch: pytest.MonkeyPatch) -> None:
    swap_in = segment_swap.swap_in

    def swap_without_sync(*args: Any) -> list[str]:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(SimFiles, "sync_dir", lambda *_: None)
            return swap_in(*args)

    patch.setattr(segment_swap, "swap_in", swap_without_sync)


def the_flush_before_it_is_left_out(patch: pytest.MonkeyPatch) -> None:
    def find_cleanable(log: Log, rules: Any, stable_offset: int, now_ms: int) -> Any:
        recovery_point, log.recovery_point = log.recovery_point, log.end_offset
        try:
            return cleanable_part.find_cleanable(log, rules, stable_offset, now_ms)
        finally:
            log.recovery_point = recovery_point

    patch.setattr(compaction_scenario, "find_cleanable", find_cleanable)
    patch.setattr(compaction_scenario, "flush_before", lambda _log: None)


MUTANTS = (
    Mutant(compacts_past_the_last_stable_offset, range(100)),
    Mutant(tombstones_go_at_once, range(100)),
    Mutant(producers_are_forgotten, range(100)),
    Mutant(aborted_records_pass_for_committed, range(100)),
    Mutant(markers_go_before_their_records, range(100)),
    Mutant(an_outputs_last_batch_goes_when_empty, range(100)),
    # It takes a snapshot that is used though newer ones were there: one seed in three hundred.
    Mutant(old_snapshots_stay, range(10, 20)),
    Mutant(sources_go_before_the_output_is_durable, range(100)),
    Mutant(the_flush_before_it_is_left_out, range(100)),
)
