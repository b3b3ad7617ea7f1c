"""Each schedule comes to a good end, and does not where the bug is planted that it is about."""

import pytest

from tests.sim.replication.schedules import leadership, losses, membership, truncation
from tests.sim.replication.schedules.stage import Schedule, perform

SCHEDULES = (
    *truncation.SCHEDULES,
    *losses.SCHEDULES,
    *leadership.SCHEDULES,
    *membership.SCHEDULES,
)
NAMES = [schedule.name for schedule in SCHEDULES]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=NAMES)
def test_a_schedule_comes_to_a_good_end(schedule: Schedule) -> None:
    perform(schedule.story)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=NAMES)
def test_a_schedule_finds_its_bug(schedule: Schedule, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule.bug(monkeypatch)
    with pytest.raises((AssertionError, ExceptionGroup)):
        perform(schedule.story)
