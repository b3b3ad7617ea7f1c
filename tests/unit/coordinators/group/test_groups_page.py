"""docs/groups.md shows the tables that the coordinator uses."""

import subprocess
import sys

from ottla.coordinators.group.classic.states import ClassicGroupState
from ottla.coordinators.group.consumer.reconciliation import MemberState
from ottla.coordinators.group.consumer.states import ConsumerGroupState
from tests.support.paths import ROOT


def test_the_page_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "groups_page.py", "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_the_page_shows_every_state() -> None:
    page = (ROOT / "docs" / "groups.md").read_text()
    every = (*ClassicGroupState, *ConsumerGroupState, *(state.name for state in MemberState))
    assert [state for state in every if state not in page] == []
