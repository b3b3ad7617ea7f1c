"""Acknowledged records are lost only where disks were not intact, and never without a report."""

import pytest

from tests.sim.cluster.losses import Event
from tests.sim.cluster.runs import run_losses


@pytest.mark.seeds(40)
def test_a_loss_is_reported_and_only_where_disks_were_not_intact(seeds: range) -> None:
    losses = [run_losses(seed) for seed in seeds]
    if len(seeds) > len(Event):
        # Without losses nothing would be proved.
        assert sum(each.lost for each in losses) >= len(seeds) / 2
        assert {event for each in losses for event in each.events} == set(Event)
