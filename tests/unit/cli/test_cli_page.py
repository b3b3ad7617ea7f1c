"""docs/cli.md matches the commands."""

import subprocess
import sys

from ottla.cli.shared.failure import ExitCode
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "cli.md"


def test_the_page_matches_the_commands() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "cli_page.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_page_has_every_exit_code() -> None:
    page = PAGE.read_text()
    for code in ExitCode:
        assert f"\n| {code.value} | " in page
