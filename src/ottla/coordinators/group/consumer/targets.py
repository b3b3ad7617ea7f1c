"""The target assignment of a group, computed when the group's epoch has risen."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ottla.coordinators.group.assignors import ASSIGNORS, Subscriber
from ottla.coordinators.group.consumer.subscriptions import Subscriptions
from ottla.coordinators.group.consumer.topics import Topics, TopicShape, shapes
from ottla.coordinators.group.records import ConsumerMemberSaved, Partitions
from ottla.protocol.primitives import Uuid


def preferred_assignor(members: Mapping[str, ConsumerMemberSaved], assignors: Sequence[str]) -> str:
    """The assignor that most members ask for; the first in `assignors` if there is a tie."""
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
    """The target of every member; `before` has their previous targets."""
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
    # Most members have the same subscription: each subscription is resolved once.
    wanted: dict[tuple[tuple[str, ...], str | None], frozenset[Uuid]] = {}
    for member_id, member in subscriptions.members.items():
        subscription = (member.topics, member.regex)
        topics = wanted.get(subscription)
        if topics is None:
            names = subscriptions.names(member)
            topics = frozenset(known[name].topic_id for name in names if name in known)
            wanted[subscription] = topics
        yield member_id, Subscriber(topics, before[member_id], member.instance_id)
