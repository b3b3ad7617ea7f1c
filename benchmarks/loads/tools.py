"""Running a load's tool: what it prints, or why the load failed."""

import subprocess
from collections.abc import Sequence

from benchmarks.row import LoadFailed

TIMEOUT_S = 600.0


def output_of(command: Sequence[str], timeout_s: float = TIMEOUT_S) -> str:
    """What a tool prints on both outputs; a tool that fails or hangs is a load that failed."""
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
