"""Conditions of a node's health, and their reasons."""

from ottla.broker.http.health import Health


def test_a_part_has_one_reason_at_a_time() -> None:
    health = Health()
    health.ready.fail("start", "recovering")
    health.ready.fail("start", "opening listeners")
    health.ready.fail("disk", "full")
    assert health.not_ready() == ["start: opening listeners", "disk: full"]
    health.ready.clear("start")
    health.ready.clear("never failed")
    assert health.not_ready() == ["disk: full"]
    assert health.not_live() == []


def test_a_node_that_is_not_alive_is_not_ready() -> None:
    health = Health()
    health.live.fail("loop", "stopped")
    assert health.not_live() == health.not_ready() == ["loop: stopped"]
