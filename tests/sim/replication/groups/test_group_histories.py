"""What is known of a group tells a coordinator that keeps its word from one that does not."""

from types import SimpleNamespace
from typing import Any

from ottla.protocol.primitives import Uuid
from tests.sim.replication.groups.offset_history import OffsetHistory
from tests.sim.replication.groups.ownership import Claim, Claims, GenerationOwners
from tests.sim.replication.world import Target

FIRST, SECOND = (Target("events", Uuid(b"0123456789abcdef"), index) for index in range(2))


def line(life: int = 1) -> Any:
    """To a process that lives, if this is its first life."""
    return SimpleNamespace(life=life, machine=SimpleNamespace(lives=1, is_alive=True))


def test_a_lost_commit_is_found() -> None:
    history = OffsetHistory("events-0")
    for _ in range(2):
        history.acknowledge(history.send("session", line()))
    history.send("session", line())
    expected = history.expected()
    assert history.why_wrong(1, expected) is None
    assert history.why_wrong(2, expected) is None
    assert "is lost: 0 is found" in (history.why_wrong(0, expected) or "")
    assert "nobody has sent it" in (history.why_wrong(3, expected) or "")
    history.forget()
    assert history.why_wrong(-1, history.expected()) is None


def test_a_commit_without_an_answer_may_come_late_in_its_own_session() -> None:
    history = OffsetHistory("events-0")
    history.lose_answer(history.send("session", line()))
    history.acknowledge(history.send("session", line()))
    assert history.why_wrong(0, history.expected()) is None
    history.acknowledge(history.send("other", line()))
    assert history.why_wrong(0, history.expected()) is not None


def test_a_commit_to_a_process_that_is_gone_comes_no_more() -> None:
    history = OffsetHistory("events-0")
    history.lose_answer(history.send("session", line(life=0)))
    history.acknowledge(history.send("session", line()))
    assert history.why_wrong(0, history.expected()) is not None


def test_two_owners_in_a_generation_are_found() -> None:
    owners = GenerationOwners()
    assert owners.why_wrong(1, "a", (FIRST, SECOND)) is None
    assert owners.why_wrong(1, "a", (FIRST,)) is None
    assert owners.why_wrong(2, "b", (FIRST,)) is None
    assert "is of a and of b in generation 1" in (owners.why_wrong(1, "b", (SECOND,)) or "")


def test_two_owners_at_a_time_are_found() -> None:
    claims = Claims()
    both = Claim(frozenset((FIRST, SECOND)), until_s=10)
    assert claims.why_wrong("a", both, now_s=5) is None
    other = Claim(frozenset((SECOND,)), until_s=20)
    assert "is owned by a and by b" in (claims.why_wrong("b", other, now_s=9) or "")
    # The session of the first one may be over.
    assert claims.why_wrong("b", other, now_s=11) is None
    assert claims.why_wrong("a", both._replace(until_s=30), now_s=12) is not None
    claims.give_up("b")
    assert claims.why_wrong("a", both._replace(until_s=30), now_s=12) is None
