"""docs/settings.md matches the table of settings."""

import subprocess
import sys

from ottla.settings.table import BROKER_SETTINGS, GROUP_SETTINGS, TOPIC_SETTINGS
from tests.support.paths import ROOT


def test_the_page_matches_the_table() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "settings_page.py", "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_the_page_has_a_row_for_every_setting() -> None:
    rows = (ROOT / "docs" / "settings.md").read_text().splitlines()
    for setting in (*TOPIC_SETTINGS.values(), *BROKER_SETTINGS.values(), *GROUP_SETTINGS.values()):
        begin = f"| `{setting.name}` | {setting.scope} |"
        assert sum(row.startswith(begin) for row in rows) == 1, setting.name
