"""Measures the memory that a function takes."""

import tracemalloc
from collections.abc import Callable

RUNS_MAX = 5


def takes_less_than(bytes_max: int, act: Callable[[], object]) -> bool:
    """Whether `act` never holds `bytes_max` at once.

    Allocations of other threads of the process are counted too, so `act` may be run several times.
    """
    return any(_peak_bytes(act) < bytes_max for _ in range(RUNS_MAX))


def _peak_bytes(act: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
