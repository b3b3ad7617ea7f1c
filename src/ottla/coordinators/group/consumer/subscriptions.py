"""The subscriptions of a group's members, by name and by regular expression."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ottla.coordinators.group.consumer.topics import Topics, shapes
from ottla.coordinators.group.records import ConsumerMemberSaved, RegexResolved
from ottla.protocol.primitives import Uuid

# The shortest time between two matches of a pattern, which run if the metadata has changed: each
# match looks at the names of all topics.
REGEX_REFRESH_MS = 10_000


class RegexCheck(NamedTuple):
    """The time of a pattern's last match, and the metadata version that it was matched against."""

    version: int
    checked_ms: int

    def is_due(self, topics: Topics, now_ms: int) -> bool:
        passed_ms = now_ms - self.checked_ms
        # A clock that was set back must not delay the match.
        is_over = passed_ms < 0 or passed_ms >= REGEX_REFRESH_MS
        return self.version != topics.version and is_over


class Subscriptions(NamedTuple):
    """The subscriptions of all members of one group."""

    members: Mapping[str, ConsumerMemberSaved]
    regexes: Mapping[str, RegexResolved]

    def names(self, member: ConsumerMemberSaved) -> Iterator[str]:
        """A member's topics, existing or not. A name may be repeated."""
        yield from member.topics
        if member.regex and member.regex in self.regexes:
            yield from self.regexes[member.regex].topics

    def all_names(self) -> frozenset[str]:
        # Most members of a group have the same subscription.
        distinct = {(each.topics, each.regex): each for each in self.members.values()}
        return frozenset(name for each in distinct.values() for name in self.names(each))

    def topic_ids(self, member: ConsumerMemberSaved, topics: Topics) -> frozenset[Uuid]:
        """The existing topics of a member's subscription."""
        found = shapes(set(self.names(member)), topics)
        return frozenset(shape.topic_id for shape in found.values())

    def is_used(self, regex: str, besides: Iterable[str]) -> bool:
        """Whether a member that is not in `besides` uses this pattern."""
        excepted = set(besides)
        return any(
            each.regex == regex for each in self.members.values() if each.member_id not in excepted
        )
