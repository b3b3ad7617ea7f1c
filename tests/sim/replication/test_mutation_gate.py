"""The bugs of the mutation gate: where each is planted, and which simulation finds it.

Seeds find all of them. `make test` runs the seeds of these tables, `make soak` up to 200.
"Any earlier incarnation" stands for an `inherits` that is compared by `>=`: the model of the
controller plants that very comparison (`tests/model/mutants`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from tests.sim.broker import transactional_mutants as of_one_broker
from tests.sim.cluster import mutants as of_metadata
from tests.sim.planted_bugs import Plant, PlantedBug
from tests.sim.replication import mutants as of_replication
from tests.sim.replication.transactions import mutants as of_transactions

SEEDS_MAX = 200
BY_SEEDS = of_replication.MUTANTS
BY_METADATA_SEEDS = of_metadata.MUTANTS
BY_TRANSACTIONAL_SEEDS = of_transactions.MUTANTS
BY_SEEDS_OF_ONE_BROKER = of_one_broker.MUTANTS

Finder = PlantedBug | of_one_broker.TransactionalMutant


class Gated(NamedTuple):
    """A bug as the gate names it, the function that plants it, and the table that has it."""

    name: str
    plant: Plant
    table: Sequence[Finder]


GATE = (
    Gated("skip the epoch bump", of_metadata.leader_epoch_is_not_raised, BY_SEEDS),
    Gated(
        "high watermark over the committed ISR only",
        of_replication.the_high_watermark_ignores_the_asked_isr,
        BY_SEEDS,
    ),
    Gated(">= for inherits", of_replication.any_earlier_incarnation_is_inherited, BY_SEEDS),
    Gated("unfenced snapshot", of_metadata.a_snapshot_is_not_fenced, BY_METADATA_SEEDS),
    Gated(
        "unknown outcome treated as failed",
        of_metadata.an_unknown_outcome_is_a_failure,
        BY_METADATA_SEEDS,
    ),
    Gated("ELR emptied while leaderless", of_metadata.elr_is_emptied_while_nobody_leads, BY_SEEDS),
    Gated(
        "recovery point passes an unsaved epoch",
        of_replication.epochs_of_the_recovery_point_are_not_saved,
        BY_SEEDS,
    ),
    Gated(
        "revert ISR on timeout",
        of_replication.an_isr_request_without_an_answer_has_failed,
        BY_SEEDS,
    ),
    Gated("no producer rollback", of_replication.producers_are_not_rolled_back, BY_SEEDS),
    Gated("progress keyed by id only", of_replication.progress_is_by_broker_only, BY_SEEDS),
    Gated(
        "no epoch cut on an empty truncation",
        of_replication.no_epoch_is_cut_with_no_record,
        BY_SEEDS,
    ),
    Gated(
        "failed directory served as empty",
        of_metadata.a_failed_directory_is_served_as_empty,
        BY_SEEDS,
    ),
    Gated("ex-replica goes on leading", of_metadata.an_ex_replica_goes_on_leading, BY_SEEDS),
    Gated(
        "shard appends without its epoch",
        of_transactions.a_shard_outlives_its_leader_epoch,
        BY_TRANSACTIONAL_SEEDS,
    ),
    Gated(
        "marker before Prepare is committed",
        of_one_broker.markers_are_written_before_prepare_is,
        BY_TRANSACTIONAL_SEEDS,
    ),
    Gated(
        "ignore the coordinator epoch",
        of_transactions.the_coordinator_epoch_of_markers_is_ignored,
        BY_TRANSACTIONAL_SEEDS,
    ),
    Gated(
        "compaction past the last stable offset",
        of_one_broker.compaction_goes_past_the_last_stable_offset,
        BY_SEEDS_OF_ONE_BROKER,
    ),
)


@pytest.mark.parametrize("gated", GATE, ids=[gated.name for gated in GATE])
def test_a_bug_of_the_gate_is_planted_and_looked_for(gated: Gated) -> None:
    (finder,) = (each for each in gated.table if each.plant is gated.plant)
    assert set(finder.seeds) <= set(range(SEEDS_MAX))
