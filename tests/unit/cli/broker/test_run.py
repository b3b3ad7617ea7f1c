"""A broker's process: its stop signals, and the message after a failed start."""

import asyncio
import errno
import gc
import io
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.event_log import Level, NodeLogger
from ottla.cli.broker import run
from ottla.cli.broker.run import STOP_SIGNALS, _stop_signal, run_broker
from ottla.cli.broker.settings import BrokerFlags, load_settings
from ottla.cli.shared.failure import Failure
from ottla.errors import LogOffline
from ottla.seams.clock import RealClock
from ottla.settings.table.segments import DISK_RESERVE_BYTES

NO_SPACE = OSError(errno.ENOSPC, "No space left on device")
NO_SPACE_FOR_A_FILE = OSError(errno.ENOSPC, "No space left on device", "/disk/file")


@pytest.fixture
def gc_thresholds() -> Iterator[None]:
    """A broker sets its own, for the whole process."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def failed_start(
    monkeypatch: pytest.MonkeyPatch, data: str, error: Exception, *sets: str
) -> Failure:
    async def failing(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(run, "_run", failing)
    settings = load_settings(BrokerFlags(data=data, sets=list(sets)), {})
    with pytest.raises(Failure) as failed:
        run_broker(settings, Level.INFO, lambda _: None, writes_pid_file=False)
    return failed.value


def offline_because_of(cause: OSError) -> LogOffline:
    error = LogOffline(f"/disk/log: {cause}")
    error.__cause__ = cause
    return error


@pytest.mark.usefixtures("gc_thresholds")
@pytest.mark.parametrize(
    ("error", "why"),
    [
        (NO_SPACE, "No space left on device"),
        (NO_SPACE_FOR_A_FILE, "/disk/file: No space left on device"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "Disk quota exceeded"),
        (offline_because_of(NO_SPACE), "/disk/log: [Errno 28] No space left on device"),
    ],
)
def test_a_start_on_a_full_disk_names_the_directory_and_the_reserve(
    error: Exception, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = str(tmp_path / "data")
    failure = failed_start(monkeypatch, data, error)
    assert (failure.what, failure.why) == (f"the disk of {data} is full", why)
    assert failure.advice == (
        f"free some space: with less than {DISK_RESERVE_BYTES.default} bytes"
        " (ottla.disk.reserve.bytes) a broker refuses records"
    )
    unreserved = failed_start(monkeypatch, data, error, "ottla.disk.reserve.bytes=0")
    assert unreserved.advice == (
        "free some space, and set ottla.disk.reserve.bytes: it keeps room for a start"
    )


def test_two_stop_signals_in_one_turn_stop_once() -> None:
    """A terminal and `make` may each send one."""
    before = {each: signal.getsignal(each) for each in STOP_SIGNALS}
    faults: list[dict[str, Any]] = []

    async def stopped_twice() -> bool:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: faults.append(context))
        stop = _stop_signal()
        for _ in range(2):
            signal.raise_signal(signal.SIGTERM)
        await asyncio.wait_for(stop, 10)
        await asyncio.sleep(0.05)
        return stop.done()

    try:
        assert asyncio.run(stopped_twice())
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert faults == []


@pytest.mark.parametrize(
    ("sets", "is_watched"),
    [
        ((), False),
        (("zookeeper.connect=z:1",), True),
        (("zookeeper.connect=z:1", "ottla.event.loop.stall.max.ms=0"), False),
    ],
)
def test_only_a_broker_of_a_cluster_has_a_watchdog(sets: tuple[str, ...], is_watched: bool) -> None:
    settings = load_settings(BrokerFlags(sets=sets), {})

    async def started() -> bool:
        logger = NodeLogger(io.StringIO(), RealClock(), 1, level=Level.ERROR)
        watchdog = run._watchdog(settings, logger)
        if watchdog is not None:
            watchdog.stop()
        logger.close()
        return watchdog is not None

    assert asyncio.run(started()) is is_watched
