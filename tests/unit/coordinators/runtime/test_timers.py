"""Timers by key."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinators.runtime.timers import Timers


def drained(timers: Timers, now_ms: int) -> list[str]:
    found = []
    while (key := timers.take(now_ms)) is not None:
        found.append(key)
    return found


def test_due_timers_come_in_the_order_of_their_times() -> None:
    timers = Timers()
    for key, due_ms in (("c", 30), ("a", 10), ("b", 20)):
        timers.set(key, due_ms)
    assert timers.next_due_ms == 10
    assert drained(timers, 20) == ["a", "b"]
    assert timers.next_due_ms == 30
    assert timers.take(29) is None


def test_a_new_time_replaces_the_old_one() -> None:
    timers = Timers()
    timers.set("a", 10)
    timers.set("a", 50)
    assert drained(timers, 49) == []
    assert timers.next_due_ms == 50
    timers.set("a", 5)
    assert drained(timers, 60) == ["a"]


def test_a_timer_that_was_cancelled_is_never_due() -> None:
    timers = Timers()
    timers.set("a", 10)
    timers.set("a", None)
    timers.set("never set", None)
    assert (timers.take(100), timers.next_due_ms, len(timers)) == (None, None, 0)


def test_renewed_timers_do_not_grow_the_heap_without_bound() -> None:
    timers = Timers()
    for beat in range(10_000):
        timers.set("session", beat)
    assert len(timers._heap) < 100


@settings(derandomize=True, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.none() | st.integers(0, 50)), max_size=40),
    st.integers(0, 60),
)
def test_each_key_has_the_last_time_that_was_set(
    changes: list[tuple[str, int | None]], now_ms: int
) -> None:
    timers, expected = Timers(), dict[str, int | None]()
    for key, due_ms in changes:
        timers.set(key, due_ms)
        expected[key] = due_ms
    times = sorted((at, key) for key, at in expected.items() if at is not None)
    if times:
        assert timers.next_due_ms is not None
        assert timers.next_due_ms <= times[0][0]
    assert drained(timers, now_ms) == [key for at, key in times if at <= now_ms]
    assert timers.next_due_ms == next((at for at, _ in times if at > now_ms), None)
