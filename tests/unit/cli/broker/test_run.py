"""Stop signals of a broker's process."""

import asyncio
import signal
from typing import Any

from ottla.cli.broker.run import STOP_SIGNALS, _stop_signal


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
