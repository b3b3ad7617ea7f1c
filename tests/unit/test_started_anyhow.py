"""Tests pass however they were started: in the background, by whom, where, in which language."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.paths import ROOT

# Of each kind that once depended on it: an interrupt, a broker's settings, files, times, words.
PROBES = (
    "tests/unit/cli/test_main.py::test_an_interrupted_command_ends_with_130",
    "tests/unit/cli/broker/test_serve.py::test_a_broker_says_one_line_serves_and_stops_cleanly",
    "tests/unit/cli/shared/test_connect.py",
    "tests/unit/cli/records/test_produce.py::test_timestamps_are_those_of_the_moment",
)
TIMEOUT_S = 240


@pytest.fixture
def ignoring_interrupts() -> Iterator[None]:
    """As in what a script runs with `&`."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ignoring_interrupts")
def test_in_the_background_of_a_script_with_an_odd_environment() -> None:
    odd = {
        "LANG": "C",
        "LC_ALL": "C",
        "TZ": "Asia/Kathmandu",
        "HOME": "/nonexistent",
        "COLUMNS": "40",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OTTLA_LISTENERS": "PLAINTEXT://0.0.0.0:1",
        "OTTLA_NO_SUCH_SETTING": "1",
        "OTTLA_SEED": "7",
    }
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:xdist", "--timeout", "100", *PROBES],
        cwd=ROOT,
        env=os.environ | odd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        umask=0o077,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
