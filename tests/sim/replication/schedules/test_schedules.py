"""Each schedule comes to a good end, and does not where the bug is planted that it is about."""

import gc
import re

import pytest

from tests.sim.planted_bugs import LEFTOVERS_IGNORED
from tests.sim.replication.schedules import (
    leadership,
    losses,
    membership,
    transactions,
    truncation,
)
from tests.sim.replication.schedules.stage import Schedule, perform, why_it_fails

SCHEDULES = (
    *truncation.SCHEDULES,
    *losses.SCHEDULES,
    *leadership.SCHEDULES,
    *membership.SCHEDULES,
    *transactions.SCHEDULES,
)
NAMES = [schedule.name for schedule in SCHEDULES]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=NAMES)
def test_a_schedule_comes_to_a_good_end(schedule: Schedule) -> None:
    perform(schedule.story, schedule.seed)


@LEFTOVERS_IGNORED
@pytest.mark.parametrize("schedule", SCHEDULES, ids=NAMES)
def test_a_schedule_finds_its_bug(schedule: Schedule, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule.bug(monkeypatch)
    with pytest.raises(AssertionError) as found:
        perform(schedule.story, schedule.seed)
    reason = why_it_fails(found.value)
    del found
    gc.collect()
    assert re.search(schedule.failure, reason), reason
