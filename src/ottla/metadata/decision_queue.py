"""Decisions that wait to be committed: all that wait are made in turn, and share an entry.

Each decision sees those before it, on a fork of the image. Decides, does no I/O.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ottla.metadata.controller.entry_packing import EntryRoom
from ottla.metadata.image import Image, RuleBroken
from ottla.metadata.records import InvalidRecord, Record

Decide = Callable[[Image], tuple[Sequence[Record], Any]]


class WaitingDecision(NamedTuple):
    """A decision, and the future that its caller waits for."""

    decide: Decide
    outcome: "asyncio.Future[Any]"


class DecidedEntry(NamedTuple):
    """The records of one entry, and the replies that are given when it is applied."""

    records: list[Record]
    replies: list[tuple["asyncio.Future[Any]", Any]]

    def answer(self) -> None:
        for outcome, reply in self.replies:
            if not outcome.done():
                outcome.set_result(reply)

    def fail(self, error: Exception) -> None:
        for outcome, _ in self.replies:
            refuse(outcome, error)

    def cancel(self) -> None:
        """Cancels whoever still waits."""
        for outcome, _ in self.replies:
            outcome.cancel()


class DecisionQueue:
    """The waiting decisions, in the order of their calls."""

    def __init__(self) -> None:
        self._waiting: deque[WaitingDecision] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, decide: Decide) -> "asyncio.Future[Any]":
        """The future of the decision's reply."""
        outcome = asyncio.get_running_loop().create_future()
        self._waiting.append(WaitingDecision(decide, outcome))
        return outcome

    def refuse_all(self, error: Exception) -> None:
        while self._waiting:
            refuse(self._waiting.popleft().outcome, error)

    def cancel_all(self) -> None:
        while self._waiting:
            self._waiting.popleft().outcome.cancel()

    def next_entry(self, image: Image) -> DecidedEntry:
        """Makes the first waiting decisions, as many as fit one entry; at least one.

        A caller whose decision fails gets the error: its own, or RuleBroken or InvalidRecord if the
        image could not apply the records. These would stop every broker that reads them. Or
        EntryTooLarge, if no entry can hold one of the records.
        """
        entry, room, fork = DecidedEntry([], []), EntryRoom(), image.fork()
        while self._waiting:
            decide, outcome = self._waiting[0]
            if outcome.done():
                # The caller was cancelled, and nothing has been decided.
                self._waiting.popleft()
                continue
            try:
                records, reply = decide(fork)
                # Also for the first decision: its records must fit some entry.
                has_room = room.has_room_for(records)
                if entry.records and not has_room:
                    break
                for record in records:
                    fork.apply(record)
            except (RuleBroken, InvalidRecord) as error:
                refuse(outcome, error)
                fork = _with(image, entry.records)
            except Exception as error:  # noqa: BLE001 - it belongs to this caller alone
                refuse(outcome, error)
            else:
                room.take(records)
                entry.records.extend(records)
                entry.replies.append((outcome, reply))
            self._waiting.popleft()
        return entry


def refuse(outcome: "asyncio.Future[Any]", error: Exception) -> None:
    if not outcome.done():
        outcome.set_exception(error)
        # Marks it as retrieved: a caller that was cancelled before it could wait never does.
        outcome.exception()


def _with(image: Image, records: Sequence[Record]) -> Image:
    """A fork without the records that a failed decision has applied."""
    fork = image.fork()
    for record in records:
        fork.apply(record)
    return fork
