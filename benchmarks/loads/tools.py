"""Runs the tool of a load."""

import subprocess
from collections.abc import Sequence

from benchmarks.row import LoadFailed

TIMEOUT_S = 600.0


def output_of(command: Sequence[str], timeout_s: float = TIMEOUT_S) -> str:
    """The output of a tool; LoadFailed if it fails or hangs."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as error:
        raise LoadFailed(f"{command[0]} did not end in {timeout_s:.0f} s") from error
    if done.returncode:
        said = done.stdout.strip()[-300:]
        raise LoadFailed(f"{command[0]} ended with {done.returncode}: {said}")
    return done.stdout
