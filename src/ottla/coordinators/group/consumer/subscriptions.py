"""What the members of a group subscribe to, by name and by regular expression."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ottla.coordinators.group.consumer.topics import Topics, shapes
from ottla.coordinators.group.records import ConsumerMemberSaved, RegexResolved
from ottla.protocol.primitives import Uuid

# A pattern is matched again once the metadata has changed, but no sooner than this after the last
# time: each costs a look at the names of all topics.
REGEX_REFRESH_MS = 10_000


class RegexCheck(NamedTuple):
    """When a pattern was last matched, and against which version of the metadata."""

    version: int
    checked_ms: int

    def is_due(self, topics: Topics, now_ms: int) -> bool:
        passed_ms = now_ms - self.checked_ms
        # A clock that was set back must not keep new topics from their group.
        is_over = passed_ms < 0 or passed_ms >= REGEX_REFRESH_MS
        return self.version != topics.version and is_over


class Subscriptions(NamedTuple):
    """Of all members of one group."""

    members: Mapping[str, ConsumerMemberSaved]
    regexes: Mapping[str, RegexResolved]

    def names(self, member: ConsumerMemberSaved) -> Iterator[str]:
        """What one subscribes to, whether it exists or not. A name may come twice."""
        yield from member.topics
        if member.regex and member.regex in self.regexes:
            yield from self.regexes[member.regex].topics

    def all_names(self) -> frozenset[str]:
        # Most members of a group subscribe alike.
        unlike = {(each.topics, each.regex): each for each in self.members.values()}
        return frozenset(name for each in unlike.values() for name in self.names(each))

    def topic_ids(self, member: ConsumerMemberSaved, topics: Topics) -> frozenset[Uuid]:
        """What one subscribes to and exists."""
        found = shapes(set(self.names(member)), topics)
        return frozenset(shape.topic_id for shape in found.values())

    def is_used(self, regex: str, besides: Iterable[str]) -> bool:
        """Whether a member that is not among `besides` has this pattern."""
        excepted = set(besides)
        return any(
            each.regex == regex for each in self.members.values() if each.member_id not in excepted
        )
