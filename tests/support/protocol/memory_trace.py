"""How much memory something takes."""

import tracemalloc
from collections.abc import Callable

RUNS_MAX = 5


def takes_less_than(bytes_max: int, act: Callable[[], object]) -> bool:
    """Whether so much is never held at once while it runs.

    What other threads of the process allocate meanwhile is counted, too: it may be run again.
    """
    return any(_peak_bytes(act) < bytes_max for _ in range(RUNS_MAX))


def _peak_bytes(act: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
