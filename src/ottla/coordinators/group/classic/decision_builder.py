"""A decision in the making."""

from collections.abc import Hashable
from typing import Any

from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.records import Record
from ottla.coordinators.runtime.decision import Answered, TimerSet
from ottla.tuples import maker

_answered, _timer_set, _decision = maker(Answered), maker(TimerSet), maker(Decision)


class Draft:
    """Collects what one event of one group leads to. Of a timer the last word counts."""

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

    def expect_beat(self, member_id: str, timeout_ms: int) -> None:
        """A member that is not heard of for this long has failed."""
        self._timers[session_key(self._group_id, member_id)] = self.now_ms + timeout_ms

    def expect_no_beat(self, member_id: str) -> None:
        self._timers[session_key(self._group_id, member_id)] = None

    def end_joining_in(self, delay_ms: int) -> None:
        self._timers[joining_key(self._group_id)] = self.now_ms + delay_ms

    def joining_ended(self) -> None:
        self._timers[joining_key(self._group_id)] = None

    def end_syncing_in(self, delay_ms: int) -> None:
        self._timers[syncing_key(self._group_id)] = self.now_ms + delay_ms

    def syncing_ended(self) -> None:
        self._timers[syncing_key(self._group_id)] = None

    def decision(self) -> Decision:
        timers = tuple(map(_timer_set, self._timers.items()))
        return _decision((tuple(self._records), tuple(self._answers), timers, ()))


def session_key(group_id: str, member_id: str) -> str:
    return f"session/{group_id}/{member_id}"


def joining_key(group_id: str) -> str:
    return f"rebalance/{group_id}"


def syncing_key(group_id: str) -> str:
    return f"sync/{group_id}"
