"""Plots as plain SVG: one bar per figure, from 1 to its ratio, with its spread."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from benchmarks.comparing import Hold, Outcome, Ratio, Verdict

WIDTH, LABELS, RIGHT = 1060, 560, 90
TOP, STEP, BAR = 64, 24, 12
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
COLOURS = {
    Outcome.HELD: "#2e7d32",
    Outcome.TIE: "#b8860b",
    Outcome.MISSED: "#c62828",
    Outcome.UNKNOWN: "#757575",
}
REPORTED = "#546e7a"
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
    'font-family="system-ui, sans-serif" font-size="12">'
)


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    ratio: Ratio
    hold: Hold | None
    verdict: Verdict | None

    @property
    def colour(self) -> str:
        return COLOURS[self.verdict.outcome] if self.verdict else REPORTED


class _Axis:
    """Ratios on a logarithmic scale, so that twice and half are equally far from 1."""

    def __init__(self, bars: Sequence[Bar]) -> None:
        ends = [end for bar in bars for end in (bar.ratio.lowest, bar.ratio.highest)]
        ends += [bar.hold.bound for bar in bars if bar.hold and not bar.hold.is_absolute]
        known = [end for end in ends if math.isfinite(end) and end > 0]
        self.low = max(tick for tick in TICKS if tick <= max(TICKS[0], min([0.5, *known])))
        self.high = min(tick for tick in TICKS if tick >= min(TICKS[-1], max([2.0, *known])))

    def x(self, ratio: float) -> float:
        inside = min(max(ratio, self.low), self.high)
        share = math.log(inside / self.low) / math.log(self.high / self.low)
        return LABELS + share * (WIDTH - LABELS - RIGHT)

    def ticks(self) -> list[float]:
        return [tick for tick in TICKS if self.low <= tick <= self.high]


def ratio_bars(title: str, note: str, bars: Sequence[Bar]) -> str:
    """A complete SVG. Bars with an unknown ratio are left out."""
    bars = [bar for bar in bars if bar.ratio.is_known and bar.ratio.median > 0]
    axis, height = _Axis(bars), TOP + STEP * len(bars) + 30
    parts = [
        SVG.format(width=WIDTH, height=height),
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="12" y="22" font-size="16" font-weight="600">{escape(title)}</text>',
        f'<text x="12" y="42" fill="#555">{escape(note)}</text>',
    ]
    bottom = TOP + STEP * len(bars)
    for tick in axis.ticks():
        x, stroke = axis.x(tick), "#222" if tick == 1 else "#ddd"
        parts.append(
            f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{bottom}" stroke="{stroke}"/>'
        )
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{tick:g}</text>')
    for index, bar in enumerate(bars):
        parts += _drawn(bar, axis, TOP + STEP * index)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _drawn(bar: Bar, axis: _Axis, top: float) -> list[str]:
    middle, one, end = top + STEP / 2, axis.x(1), axis.x(bar.ratio.median)
    left, width = min(one, end), max(1.0, abs(end - one))
    low, high = axis.x(bar.ratio.lowest), axis.x(bar.ratio.highest)
    text_y, bar_y = middle + 4, middle - BAR / 2
    label, figure = escape(bar.label), f"{bar.ratio.median:.2f}"
    size = f'width="{width:.1f}" height="{BAR}"'
    whiskers = f"M{low:.1f} {middle - 4} v8 M{low:.1f} {middle} H{high:.1f}"
    whiskers += f" M{high:.1f} {middle - 4} v8"
    drawn = [
        f'<text x="{LABELS - 10}" y="{text_y}" text-anchor="end">{label}</text>',
        f'<rect x="{left:.1f}" y="{bar_y}" {size} fill="{bar.colour}"/>',
        f'<path d="{whiskers}" stroke="#222" fill="none"/>',
        f'<text x="{WIDTH - RIGHT + 12}" y="{text_y}">{figure}</text>',
    ]
    if bar.hold and not bar.hold.is_absolute and bar.hold.bound != 1:
        x = axis.x(bar.hold.bound)
        drawn.append(
            f'<path d="M{x:.1f} {top + 2} v{STEP - 4}" stroke="#1565c0" '
            'stroke-width="2" stroke-dasharray="3 2"/>'
        )
    return drawn
