"""Simulated clock, entropy and trace: the same seed repeats them."""

import pytest

from tests.sim.seams.clock import SimClock, Timeline
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.trace import Trace


def test_a_seed_gives_the_same_draws_again_and_another_seed_others() -> None:
    def draws(seed: int) -> list[object]:
        entropy = SimEntropy(seed)
        return [entropy.token(8), entropy.below(1000), entropy.between(5, 9), entropy.pick("abc")]

    assert draws(1) == draws(1)
    assert draws(1) != draws(2)


def test_a_fork_does_not_depend_on_earlier_draws() -> None:
    fresh, used = SimEntropy(3), SimEntropy(3)
    used.token(100)
    used.fork("other").token(100)
    assert fresh.fork("net").token(16) == used.fork("net").token(16)
    assert fresh.fork("net").token(16) != fresh.fork("disk").token(16)
    assert fresh.fork("a").fork("b").token(16) != fresh.fork("b").fork("a").token(16)


def test_a_rate_of_nothing_draws_nothing() -> None:
    quiet, other = SimEntropy(4), SimEntropy(4)
    assert not quiet.chance(0.0)
    assert quiet.token(8) == other.token(8)
    assert quiet.chance(1.0)


def test_both_clocks_advance_and_only_the_wall_jumps() -> None:
    clock = SimClock(wall_ms=1_000)
    clock.advance(ms=5, ns=1)
    assert (clock.wall_ms(), clock.steady_ns()) == (1_005, 5_000_001)
    clock.jump_wall(-500)
    assert (clock.wall_ms(), clock.steady_ns()) == (505, 5_000_001)
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(ms=-1)


def test_machines_share_a_timeline_but_not_their_boots() -> None:
    timeline = Timeline()
    one, other = SimClock(timeline, machine="one"), SimClock(timeline, machine="other")
    one.advance(ms=7)
    assert other.steady_ns() == 7_000_000
    assert one.boot_id() != other.boot_id()
    boot_ids = one.boot_id(), other.boot_id()
    wall_ms = one.wall_ms()
    one.reboot()
    assert (one.boot_id() != boot_ids[0], other.boot_id()) == (True, boot_ids[1])
    assert (one.steady_ns(), one.wall_ms(), other.steady_ns()) == (0, wall_ms, 7_000_000)


def test_a_trace_knows_events_their_bytes_and_their_order() -> None:
    def hash_of(*events: tuple[str, bytes]) -> str:
        trace = Trace()
        for event, content in events:
            trace.fold(event, content)
        return trace.hash()

    one, other = ("write /a", b"x"), ("write /a", b"y")
    assert hash_of(one, other) == hash_of(one, other)
    assert len({hash_of(one, other), hash_of(other, one), hash_of(one), hash_of(one, one)}) == 4
