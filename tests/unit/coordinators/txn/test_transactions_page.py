"""docs/transactions.md shows the tables that the coordinator uses."""

import subprocess
import sys

from ottla.coordinators.txn.states import TRANSITIONS
from tests.support.paths import ROOT


def test_the_page_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "transactions_page.py", "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_the_page_has_every_transition() -> None:
    page = (ROOT / "docs" / "transactions.md").read_text()
    for before, event, after in TRANSITIONS:
        assert f"| {before.kafka_name} | {event} | {after.kafka_name} |" in page
        assert f"    {before.kafka_name} --> {after.kafka_name}: " in page
