"""Prometheus' text format, in slices that are small enough to be written between two requests."""

from collections.abc import Iterator
from math import isfinite, isnan
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric
    from prometheus_client.samples import Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SLICE_LINES_MAX = 200

# How the text format names what only OpenMetrics knows.
_TYPES = {
    "gaugehistogram": "histogram",
    "info": "gauge",
    "stateset": "gauge",
    "unknown": "untyped",
}
_SUFFIXES = {"counter": "_total", "info": "_info"}


def render(registry: "CollectorRegistry", lines_max: int = SLICE_LINES_MAX) -> Iterator[bytes]:
    """Everything that is registered, at most `lines_max` lines at a time.

    Pages of one name that follow each other are one family. What is not yet rendered is not yet
    read either: a slice costs its lines and at most one page more than them.
    """
    lines: list[str] = []
    for line in _lines(registry):
        lines.append(line)
        if len(lines) == lines_max:
            yield _encoded(lines)
            lines.clear()
    if lines:
        yield _encoded(lines)


def _encoded(lines: list[str]) -> bytes:
    # A path need not be text: its stray bytes are surrogates, which UTF-8 has no place for.
    return "".join(lines).encode(errors="replace")


def _lines(registry: "CollectorRegistry") -> Iterator[str]:
    family = None
    for page in registry.collect():
        if page.name != family:
            family = page.name
            yield _heading(page)
        for sample in page.samples:
            # Of use to OpenMetrics only; the text format has no place for it inside a family.
            if not sample.name.endswith("_created"):
                yield _line(sample)


def _heading(page: "Metric") -> str:
    name = page.name + _SUFFIXES.get(page.type, "")
    documentation = page.documentation.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {documentation}\n# TYPE {name} {_TYPES.get(page.type, page.type)}\n"


def _line(sample: "Sample") -> str:
    if not sample.labels:
        return f"{sample.name} {_number(sample.value)}\n"
    labels = ",".join([f'{name}="{_escaped(value)}"' for name, value in sample.labels.items()])
    return f"{sample.name}{{{labels}}} {_number(sample.value)}\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    if isfinite(value):
        return repr(value)
    if isnan(value):
        return "NaN"
    return "+Inf" if value > 0 else "-Inf"
