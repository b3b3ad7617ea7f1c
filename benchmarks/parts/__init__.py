"""The parts that the broker's speed stands on: the codec, the log on disk."""

from collections.abc import Callable

from benchmarks.parts import codec, storage
from benchmarks.parts.part import Part

GB = 1_000_000_000


def measure_parts(say: Callable[[str], None], *, is_short: bool) -> list[Part]:
    """All parts; the short set looks up in a log of 1 GB instead of 10 GB."""
    say("the parts: codec")
    found = list(codec.measure())
    say("the parts: storage")
    return [*found, *storage.measure(GB if is_short else 10 * GB)]
