"""Spreads, ratios and verdicts."""

import math

import pytest
from benchmarks.comparing import (
    Hold,
    Outcome,
    Ratio,
    Spread,
    above,
    at_least,
    at_most,
    below,
    judge,
    never,
    short,
)


def verdict(hold: Hold, ours: list[float], base: list[float]) -> tuple[Outcome, str]:
    found = judge(hold, Spread.of(ours), Spread.of(base))
    return found.outcome, found.words


def test_a_ratio_has_the_range_that_both_spreads_allow() -> None:
    ratio = Ratio.of(Spread.of([90, 100, 120]), Spread.of([40, 50, 60]))
    assert (ratio.median, ratio.lowest, ratio.highest) == (2.0, 1.5, 3.0)
    assert not ratio.is_overlap


@pytest.mark.parametrize(
    ("ours", "base", "is_overlap"),
    [
        ([1, 2, 3], [3, 4, 5], True),
        ([1, 2, 3], [4, 5, 6], False),
        ([4, 5, 6], [1, 2, 3], False),
        ([1, 5, 9], [4, 5, 6], True),
    ],
)
def test_spreads_overlap_exactly_if_the_range_contains_one(
    ours: list[float], base: list[float], is_overlap: bool
) -> None:
    assert Ratio.of(Spread.of(ours), Spread.of(base)).is_overlap is is_overlap


def test_throughput_above_the_bound_is_held_and_reports_the_goal() -> None:
    assert verdict(at_least(1.0, goal=1.3), [110], [100]) == (Outcome.HELD, "held")
    assert verdict(at_least(1.0, goal=1.3), [130], [100]) == (Outcome.HELD, "held, and the goal")


def test_a_goal_for_less_is_reached_below_it() -> None:
    assert verdict(at_most(1.0, goal=0.5), [60], [100]) == (Outcome.HELD, "held")
    assert verdict(at_most(1.0, goal=0.5), [50], [100]) == (Outcome.HELD, "held, and the goal")


def test_one_run_misses_a_hold_on_what_must_never_happen() -> None:
    assert verdict(never(), [0, 0, 0], [0, 0, 7]) == (Outcome.HELD, "held")
    assert verdict(never(), [0, 0, 2], [0, 0, 0]) == (Outcome.MISSED, "missed: 2")


def test_a_miss_reports_its_distance_from_the_bound() -> None:
    assert verdict(at_least(1.0), [80], [100]) == (Outcome.MISSED, "missed by 20%")
    assert verdict(at_most(0.5), [75], [100]) == (Outcome.MISSED, "missed by 50%")


def test_overlapping_spreads_are_a_tie_only_if_the_hold_allows_ties() -> None:
    ours, kafka = [80, 95, 110], [90, 100, 105]
    assert verdict(at_least(1.0, ties=True), ours, kafka)[0] is Outcome.TIE
    assert verdict(at_least(1.0), ours, kafka) == (Outcome.MISSED, "missed by 5%")


def test_separate_spreads_are_not_a_tie() -> None:
    assert verdict(at_least(1.0, ties=True), [80, 85], [90, 95])[0] is Outcome.MISSED


def test_an_absolute_hold_ignores_kafka() -> None:
    assert judge(below(48), Spread.of([40]), None).outcome is Outcome.HELD
    assert verdict(below(48), [60], [1000]) == (Outcome.MISSED, "missed by 25%")
    assert verdict(above(400_000), [300_000], [1]) == (Outcome.MISSED, "missed by 25%")


def test_cpu_time_below_the_kernels_tick_gives_no_verdict() -> None:
    assert verdict(at_most(1.0), [0.0], [0.0])[0] is Outcome.UNKNOWN
    assert math.isnan(Ratio.of(Spread.of([1.0]), Spread.of([0.0])).median)


def test_a_hold_reads_as_a_sentence() -> None:
    assert str(at_least(1.0, goal=1.3)) == "at least 1, goal 1.3"
    assert str(at_least(1.0, ties=True)) == "at least 1 or a tie"
    assert str(above(400_000)) == "at least 400,000"
    assert str(never()) == "at most 0"


def test_figures_have_significant_digits_only() -> None:
    assert [short(figure) for figure in (1234567.8, 0.12345, math.nan)] == [
        "1,234,568",
        "0.123",
        "?",
    ]
