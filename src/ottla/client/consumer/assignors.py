"""The range assignor, which the leader of a classic group runs. Does no I/O."""

from collections.abc import Iterable, Mapping

from ottla.protocol.topic_partition import TopicPartition


def assign_range(
    subscriptions: Mapping[str, Iterable[str]], partition_counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Assigns a range of each topic's partitions to each member, in the order of member ids.

    Algorithm 1 of the paper: of P partitions and N members each gets P // N, and the first P % N
    members one more. Topics that do not exist are not assigned.
    """
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in sorted(subscriptions)}
    subscribers: dict[str, list[str]] = {}
    for member in assigned:
        for topic in dict.fromkeys(subscriptions[member]):
            subscribers.setdefault(topic, []).append(member)
    for topic in sorted(subscribers):
        members = subscribers[topic]
        share, more = divmod(partition_counts.get(topic, 0), len(members))
        first = 0
        for index, member in enumerate(members):
            behind = first + share + (index < more)
            assigned[member] += [TopicPartition(topic, number) for number in range(first, behind)]
            first = behind
    return assigned
