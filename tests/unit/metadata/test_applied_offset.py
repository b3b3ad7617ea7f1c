"""A broker does not accept a metadata log that is shorter than what it has applied."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import pytest

from ottla.broker.node.membership import SAVE_INTERVAL_S, keep_saved
from ottla.metadata.applied_offset import (
    FILE_NAME,
    AppliedOffset,
    MetadataWentBack,
)
from ottla.seams.files import read_file, replace_file
from ottla.seams.threads import SameThread, Threads
from tests.sim.seams.disk import SimDisk
from tests.sim.seams.loop import run

Result = TypeVar("Result")


def test_a_log_that_is_shorter_than_before_is_refused() -> None:
    disk = SimDisk()
    files = disk.process()
    files.make_dir("/data")
    files.sync_dir("/")
    applied = AppliedOffset(files, "/data")
    applied.check(-1)
    applied.save(41)
    applied.save(12)
    disk.power_loss()

    applied = AppliedOffset(disk.process(), "/data")
    applied.check(41)
    applied.check(42)
    with pytest.raises(MetadataWentBack, match=f"ends at entry 40.*entry 41.*/data/{FILE_NAME}"):
        applied.check(40)


def test_a_file_that_cannot_be_read_as_a_number_is_no_limit() -> None:
    files = SimDisk().process()
    files.make_dir("/data")
    replace_file(files, f"/data/{FILE_NAME}", b"abc")
    AppliedOffset(files, "/data").check(-1)


class NoThreads(SameThread):
    """Threads that are all busy."""

    async def run(self, work: Callable[[], Result]) -> Result:
        raise asyncio.CancelledError


def test_a_running_broker_saves_it_outside_of_the_loop() -> None:
    files = SimDisk().process()
    files.make_dir("/data")
    applied = AppliedOffset(files, "/data")

    async def keep(threads: Threads) -> None:
        with suppress(TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(2.5 * SAVE_INTERVAL_S):
                await keep_saved(applied, lambda: 7, threads)

    run(keep(NoThreads()))
    assert not files.exists(f"/data/{FILE_NAME}")
    run(keep(SameThread()))
    assert read_file(files, f"/data/{FILE_NAME}", 100) == b"7\n"
