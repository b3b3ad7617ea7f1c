"""A worker process responds, can die, and does not outlive its parent."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from ottla.seams.workers import RealWorkers, WorkerDied
from ottla.storage.compaction.cleaner_protocol import WORKER_MODULE

GO_ON = json.dumps({"go_on": True}).encode()
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


def is_alive(pid: int) -> bool:
    """Whether it runs: one that ended and was not waited for is dead, too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    # The second, if it ends between the opening and the reading.
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("loop_factory", LOOPS, ids=["asyncio", "uvloop"])
def test_it_answers_again_and_again_until_it_is_closed(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def story() -> None:
        worker = await RealWorkers().start(WORKER_MODULE)
        for _ in range(3):
            answer = json.loads(await worker.call(GO_ON))
            assert answer["failed"]["kind"] == "gone"
        assert is_alive(worker.pid)
        await worker.close()
        assert not is_alive(worker.pid)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(story())


@pytest.mark.parametrize("loop_factory", LOOPS, ids=["asyncio", "uvloop"])
def test_a_call_to_a_killed_worker_raises_worker_died(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def story() -> None:
        worker = await RealWorkers().start(WORKER_MODULE)
        await worker.call(GO_ON)
        os.kill(worker.pid, signal.SIGKILL)
        with pytest.raises(WorkerDied):
            await worker.call(GO_ON)
        while is_alive(worker.pid):
            await asyncio.sleep(0.01)
        # The loop has run once and closed the pipes.
        await asyncio.sleep(0.1)
        with pytest.raises(WorkerDied):
            await worker.call(GO_ON)
        await worker.close()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(story())


PARENT = f"""
import asyncio, os, signal
from ottla.seams.workers import RealWorkers

async def start():
    worker = await RealWorkers().start({WORKER_MODULE!r})
    await worker.call({GO_ON!r})
    print(worker.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(start())
"""


def test_it_dies_with_its_parent() -> None:
    async def story() -> None:
        parent = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PARENT, stdout=asyncio.subprocess.PIPE
        )
        printed, _ = await parent.communicate()
        async with asyncio.timeout(120):
            while is_alive(int(printed)):
                await asyncio.sleep(0.01)

    asyncio.run(story())
