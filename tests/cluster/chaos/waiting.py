"""Waits for a condition, within a bound."""

import time
from collections.abc import Callable

POLL_S = 0.1


class NotWithinTime(Exception):
    """A condition did not come true within its bound."""


def wait_until(is_so: Callable[[], bool], timeout_s: float, shown: Callable[[], object]) -> float:
    """The seconds that it took. NotWithinTime with what `shown` returns."""
    begin = time.monotonic()
    while not is_so():
        if time.monotonic() - begin > timeout_s:
            raise NotWithinTime(f"not within {timeout_s:g} s: {shown()}")
        time.sleep(POLL_S)
    return time.monotonic() - begin
