"""A broker whose event loop stood still for longer than its session leads nothing at first."""

import asyncio

import pytest

from ottla.broker.node.stall_guard import StallGuard
from ottla.metadata.memory import MemoryStore
from tests.sim.seams.loop import run
from tests.support.broker.produce_and_fetch import batch, only, produce
from tests.support.broker.simulated_broker import Client, create, new_topic
from tests.unit.broker.node.test_shared_metadata import Pair, settle, with_pair

SESSION_MS = 5_000


class Guarded:
    """A guard, its clock in milliseconds, and the stalls that it noticed."""

    def __init__(self, session_timeout_ms: int | None) -> None:
        self.now_ms = 0
        self.stalls: list[int] = []
        self.session_timeout_ms = session_timeout_ms
        self.guard = StallGuard(
            lambda: self.now_ms * 1_000_000, lambda: self.session_timeout_ms, self.stalls.append
        )

    def beat(self) -> None:
        async def once() -> None:
            task = asyncio.get_running_loop().create_task(self.guard.run())
            await asyncio.sleep(0)
            task.cancel()

        run(once())


def test_a_stall_is_noticed_once_and_only_beyond_the_session() -> None:
    guarded = Guarded(SESSION_MS)
    guarded.beat()
    guarded.now_ms = SESSION_MS
    assert guarded.guard.now_ns() == SESSION_MS * 1_000_000
    assert guarded.stalls == []
    guarded.now_ms += 1
    guarded.guard.now_ns()
    guarded.guard.now_ns()
    assert guarded.stalls == [SESSION_MS + 1]


def test_a_loop_that_runs_is_no_stall_however_few_requests_come() -> None:
    guarded = Guarded(SESSION_MS)
    for now_ms in range(0, 10 * SESSION_MS, SESSION_MS - 1):
        guarded.now_ms = now_ms
        guarded.beat()
    assert guarded.stalls == []


def test_the_task_notices_a_stall_without_any_request() -> None:
    guarded = Guarded(SESSION_MS)
    guarded.beat()
    guarded.now_ms = 2 * SESSION_MS
    guarded.beat()
    assert guarded.stalls == [2 * SESSION_MS]


def test_the_timeout_is_the_one_of_the_current_session() -> None:
    guarded = Guarded(None)
    guarded.beat()
    guarded.now_ms = 10 * SESSION_MS
    guarded.guard.now_ns()
    assert guarded.stalls == [], "a session that does not end by time"
    guarded.session_timeout_ms = 100
    guarded.beat()
    guarded.now_ms += 101
    guarded.guard.now_ns()
    assert guarded.stalls == [101]


def test_a_broker_that_stood_still_leads_again_after_it_has_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also if its session has outlived the stall: it does not know that."""
    monkeypatch.setattr(MemoryStore, "session_timeout_ms", SESSION_MS)

    async def story(pair: Pair, first: Client, second: Client) -> None:
        await create(first, new_topic("events", assignments={0: (2,)}, partitions=-1, factor=-1))
        await settle()
        (before,) = (each.broker_epoch for each in pair.ensemble.registered[1:])
        # No task runs meanwhile. Both brokers share the clock.
        pair.machines[0].clock.advance(ms=SESSION_MS + 1)
        await settle()
        assert "event loop stood still" in pair.machines[1].notes.events("warning")
        (after,) = (each.broker_epoch for each in pair.ensemble.registered[1:])
        assert after > before
        assert only(await second.ask(produce("events", batch(b"x")), 9)).error_code == 0

    with_pair(story)
