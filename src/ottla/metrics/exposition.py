"""Prometheus' text format, in slices small enough to be written between two requests."""

from collections.abc import Iterator
from math import isfinite, isnan
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric
    from prometheus_client.samples import Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SLICE_LINES_MAX = 200

# The text format's names for types that only OpenMetrics has.
_TYPES = {
    "gaugehistogram": "histogram",
    "info": "gauge",
    "stateset": "gauge",
    "unknown": "untyped",
}
_SUFFIXES = {"counter": "_total", "info": "_info"}


def render(registry: "CollectorRegistry", lines_max: int = SLICE_LINES_MAX) -> Iterator[bytes]:
    """All registered metrics, in slices of at most `lines_max` lines.

    Consecutive pages of one name form one family. Meters are read as they are rendered: a slice
    costs its lines and at most one further page.
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
    # A path need not be UTF-8: its stray bytes are surrogates, which UTF-8 cannot encode.
    return "".join(lines).encode(errors="replace")


def _lines(registry: "CollectorRegistry") -> Iterator[str]:
    family = None
    for page in registry.collect():
        if page.name != family:
            family = page.name
            yield _heading(page)
        for sample in page.samples:
            # OpenMetrics only: the text format does not allow it inside a family.
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
