"""Processes that tests start. None outlives its test, however that ends."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager


@contextmanager
def child(
    command: Sequence[str],
    *,
    stdin: int | None = subprocess.DEVNULL,
    environment: Mapping[str, str] | None = None,
) -> Iterator["subprocess.Popen[str]"]:
    """A process with pipes for what it says; killed if it has not ended by itself.

    `Popen` alone would wait for it, and a test that failed would never end.
    """
    with subprocess.Popen(
        list(command),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
