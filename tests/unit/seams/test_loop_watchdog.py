"""The watchdog of the event loop, in processes of its own: it ends them."""

import os
import signal
import subprocess
import sys
import time

SCRIPT = """
import asyncio, sys, time
from ottla.seams.loop_watchdog import LoopWatchdog

def hang_here():
    while True:
        time.sleep(0.01)

async def main():
    watchdog = LoopWatchdog(float(sys.argv[2]), lambda: print("stalled", flush=True), exit_code=7)
    watchdog.start()
    await asyncio.sleep(0.05)
    print("runs", flush=True)
    if sys.argv[1] == "hangs":
        hang_here()
    if sys.argv[1] == "stopped":
        # Once more after it was stopped.
        sys.stdin.readline()
        await asyncio.sleep(0.3)
    if sys.argv[1] == "ended":
        watchdog.stop()
        time.sleep(1.0)

asyncio.run(main())
"""


def process(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_loop_that_hangs_ends_the_process_and_shows_where() -> None:
    with process("hangs", "0.3") as hanging:
        output, errors = hanging.communicate(timeout=60)
    assert hanging.returncode == 7
    assert output == "runs\nstalled\n"
    assert "hang_here" in errors


def test_a_process_that_was_stopped_goes_on() -> None:
    with process("stopped", "2") as stopped:
        assert stopped.stdout is not None
        assert stopped.stdout.readline() == "runs\n"
        # The loop waits for its standard input. Only the stop is longer than the limit.
        os.kill(stopped.pid, signal.SIGSTOP)
        time.sleep(2.5)
        os.kill(stopped.pid, signal.SIGCONT)
        output, errors = stopped.communicate("go\n", timeout=60)
    assert (stopped.returncode, output, errors) == (0, "", "")


def test_a_loop_may_stand_still_after_it_was_switched_off() -> None:
    with process("ended", "0.2") as ended:
        output, _ = ended.communicate(timeout=60)
    assert (ended.returncode, output) == (0, "runs\n")
