"""Bugs to plant in a broker that compacts: each breaks a promise to readers or writers of keys."""

from dataclasses import replace
from typing import Any

import pytest

from ottla.replication.housekeeping import log_cleaner
from ottla.storage.compaction import segment_swap
from ottla.storage.compaction.rules import LatestBatches
from tests.sim.storage.compaction_mutants import sources_go_before_the_output_is_durable
from tests.sim.storage.mutants import Mutant


def tombstones_go_at_once(patch: pytest.MonkeyPatch) -> None:
    cleaning_job = log_cleaner.cleaning_job

    def job_from_the_future(*args: Any) -> Any:
        job = cleaning_job(*args)
        return replace(job, delete_retention_ms=0, now_ms=job.now_ms + 10**6)

    patch.setattr(log_cleaner, "cleaning_job", job_from_the_future)


def what_a_producer_may_repeat_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LatestBatches, "of", classmethod(lambda cls, entry: cls(entry.epoch, ())))


def an_unfinished_output_passes_for_a_finished_one(patch: pytest.MonkeyPatch) -> None:
    """A start takes what a killed worker left for what it was to be."""
    segment_files = segment_swap._segment_files
    settle = segment_swap.settle_compaction

    def settle_all(files: Any, directory: str) -> int:
        for each in segment_files(files.list(directory), segment_swap.CLEANED):
            path = f"{directory}/{each.name}"
            files.rename(path + segment_swap.CLEANED, path + segment_swap.SWAP)
        return settle(files, directory)

    patch.setattr("ottla.storage.opening.recovery.settle_compaction", settle_all)


MUTANTS = (
    Mutant(tombstones_go_at_once, range(20)),
    Mutant(what_a_producer_may_repeat_is_forgotten, range(37, 51, 13)),
    Mutant(sources_go_before_the_output_is_durable, range(140, 150)),
    Mutant(an_unfinished_output_passes_for_a_finished_one, range(20)),
)
