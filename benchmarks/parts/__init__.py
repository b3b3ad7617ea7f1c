"""Micro-benchmarks of parts: admission, metadata, the codec, the log on disk, compaction."""

from collections.abc import Callable

from benchmarks.parts import (
    admission,
    broker_death,
    codec,
    compaction,
    idle_session,
    replicated_produce,
    storage,
)
from benchmarks.parts.part import Part

GB = 1_000_000_000
COMPACTED_BYTES = 200_000_000


def measure_quick_parts(say: Callable[[str], None]) -> list[Part]:
    """The parts that take a few seconds."""
    say("the parts: admission")
    found = list(admission.measure())
    say("the parts: the death of a broker")
    found += broker_death.measure()
    say("the parts: produces to three replicas")
    return [*found, *replicated_produce.measure(), *idle_session.measure()]


def measure_parts(say: Callable[[str], None]) -> list[Part]:
    """All parts, one after another."""
    found = measure_quick_parts(say)
    say("the parts: codec")
    found += codec.measure()
    say("the parts: storage")
    found += storage.measure(10 * GB)
    say("the parts: compaction")
    return [*found, *compaction.measure(COMPACTED_BYTES)]
