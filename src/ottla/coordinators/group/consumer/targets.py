"""What every member of a group is to own in the end: decided anew when the group's epoch rose."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ottla.coordinators.group.assignors import ASSIGNORS, Subscriber
from ottla.coordinators.group.consumer.subscriptions import Subscriptions
from ottla.coordinators.group.consumer.topics import Topics, TopicShape, shapes
from ottla.coordinators.group.records import ConsumerMemberSaved, Partitions
from ottla.protocol.primitives import Uuid


def preferred_assignor(members: Mapping[str, ConsumerMemberSaved], assignors: Sequence[str]) -> str:
    """The one that most members ask for; of several, and if none asks, the one offered first."""
    votes = Counter(
        each.server_assignor for each in members.values() if each.server_assignor in assignors
    )
    return max(assignors, key=lambda name: votes[name])


def decide_targets(
    subscriptions: Subscriptions,
    before: Mapping[str, Partitions],
    topics: Topics,
    assignors: Sequence[str],
) -> dict[str, Partitions]:
    """The target of every member; `before` is what each was to own until now."""
    known = shapes(subscriptions.all_names(), topics)
    assign = ASSIGNORS[preferred_assignor(subscriptions.members, assignors)]
    return assign(
        dict(_subscribers(subscriptions, before, known)),
        {shape.topic_id: shape.partition_count for shape in known.values()},
    )


def _subscribers(
    subscriptions: Subscriptions,
    before: Mapping[str, Partitions],
    known: Mapping[str, TopicShape],
) -> Iterator[tuple[str, Subscriber]]:
    # Most members subscribe alike: each subscription is looked up once.
    wanted: dict[tuple[tuple[str, ...], str | None], frozenset[Uuid]] = {}
    for member_id, member in subscriptions.members.items():
        said = (member.topics, member.regex)
        topics = wanted.get(said)
        if topics is None:
            names = subscriptions.names(member)
            topics = frozenset(known[name].topic_id for name in names if name in known)
            wanted[said] = topics
        yield member_id, Subscriber(topics, before[member_id], member.instance_id)
