"""Builds the decision of a classic group."""

from collections.abc import Hashable
from typing import Any

from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.records import Record
from ottla.coordinators.runtime.decision import Answered, TimerSet
from ottla.tuples import maker

_answered, _timer_set, _decision = maker(Answered), maker(TimerSet), maker(Decision)


class DecisionBuilder:
    """Collects the records, answers and timers of one event. The last change of a timer counts."""

    __slots__ = ("_answers", "_group_id", "_records", "_timers", "now_ms")

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.now_ms = now_ms
        self._group_id = group_id
        self._records: list[Record] = []
        self._answers: list[Answered] = []
        self._timers: dict[str, int | None] = {}

    def save(self, record: Record) -> None:
        self._records.append(record)

    def answer(self, ticket: Hashable, response: Any) -> None:
        self._answers.append(_answered((ticket, response)))

    def set_session_timer(self, member_id: str, timeout_ms: int) -> None:
        """The member fails if it sends no heartbeat for this long."""
        self._timers[session_timer_key(self._group_id, member_id)] = self.now_ms + timeout_ms

    def cancel_session_timer(self, member_id: str) -> None:
        self._timers[session_timer_key(self._group_id, member_id)] = None

    def set_join_timer(self, delay_ms: int) -> None:
        self._timers[join_timer_key(self._group_id)] = self.now_ms + delay_ms

    def cancel_join_timer(self) -> None:
        self._timers[join_timer_key(self._group_id)] = None

    def set_sync_timer(self, delay_ms: int) -> None:
        self._timers[sync_timer_key(self._group_id)] = self.now_ms + delay_ms

    def cancel_sync_timer(self) -> None:
        self._timers[sync_timer_key(self._group_id)] = None

    def decision(self) -> Decision:
        timers = tuple(map(_timer_set, self._timers.items()))
        return _decision((tuple(self._records), tuple(self._answers), timers, (), None))


def session_timer_key(group_id: str, member_id: str) -> str:
    return f"session/{group_id}/{member_id}"


def join_timer_key(group_id: str) -> str:
    return f"rebalance/{group_id}"


def sync_timer_key(group_id: str) -> str:
    return f"sync/{group_id}"
