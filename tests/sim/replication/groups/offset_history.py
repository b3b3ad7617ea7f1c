"""The offsets that clients committed for one partition, and which of them a fetch may return.

Each commit has a greater offset than all before it. So the last acknowledged one, or one that was
sent later, must be found. A commit whose answer was lost may still be on its way, on a connection
that its client has given up: it may come after later commits of the same session. A coordinator
refuses those of earlier sessions, by their generation, member id or member epoch.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.sim.cluster.cluster import BrokerLine

NOTHING_COMMITTED = -1


@dataclass(frozen=True, slots=True)
class Commit:
    """`overtaken_by` are earlier commits that may be processed after this one."""

    offset: int
    session: Hashable
    line: BrokerLine
    overtaken_by: frozenset[int]

    @property
    def may_be_on_its_way(self) -> bool:
        """Whether the process lives to which it was sent."""
        return self.line.machine.lives == self.line.life and self.line.machine.is_alive


class Expected(NamedTuple):
    """What a fetch must return that is sent now: this offset, a later one, or one of the others."""

    offset: int
    others: frozenset[int]


@dataclass(slots=True)
class OffsetHistory:
    """One partition's, in one group."""

    name: str
    acknowledged: Commit | None = None
    _sent: int = NOTHING_COMMITTED
    # Those of which nobody knows whether they were processed.
    _unanswered: list[Commit] = field(default_factory=list)

    def send(self, session: Hashable, line: BrokerLine) -> Commit:
        """The next commit."""
        self._sent += 1
        self._unanswered = [each for each in self._unanswered if each.may_be_on_its_way]
        late = frozenset(each.offset for each in self._unanswered if each.session == session)
        return Commit(self._sent, session, line, late)

    def acknowledge(self, commit: Commit) -> None:
        if self.acknowledged is None or commit.offset > self.acknowledged.offset:
            self.acknowledged = commit

    def lose_answer(self, commit: Commit) -> None:
        self._unanswered.append(commit)

    def forget(self) -> None:
        """Nothing is promised any more of what was committed so far."""
        self.acknowledged = None

    def expected(self) -> Expected:
        """What a fetch must return that is sent now."""
        if self.acknowledged is None:
            anything = frozenset(range(NOTHING_COMMITTED, self._sent + 1))
            return Expected(NOTHING_COMMITTED, anything)
        return Expected(self.acknowledged.offset, self.acknowledged.overtaken_by)

    def why_wrong(self, found: int, expected: Expected) -> str | None:
        if found > self._sent:
            return f"{self.name}: offset {found} is committed, and nobody has sent it"
        if found >= expected.offset or found in expected.others:
            return None
        return (
            f"{self.name}: the commit of offset {expected.offset} was acknowledged, and is lost:"
            f" {found} is found"
        )
