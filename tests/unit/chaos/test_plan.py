"""The plans of the chaos runs."""

import pytest

from tests.cluster.chaos.plan import FAULTS, plan


@pytest.mark.parametrize("seed", range(50))
def test_a_plan_has_every_fault_once(seed: int) -> None:
    injected = [fault for each in plan(seed) for fault in each]
    assert sorted(injected, key=lambda fault: fault.name) == sorted(
        FAULTS, key=lambda fault: fault.name
    )
    assert plan(seed) == plan(seed)
