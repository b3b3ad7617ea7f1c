"""An upper bound of the size of a target assignment in the log, before it is computed. Pure.

A target that does not fit one batch could never be written: joins and larger subscriptions that
would exceed it are refused. If a topic grows beyond it, members keep their previous target.
"""

from ottla.coordinators.group.consumer.subscriptions import Subscriptions
from ottla.coordinators.group.consumer.topics import Topics, shapes

# Once in the target of its owner, and once in the current assignment of the member that takes a
# step: there with its epoch, and again if it is to be revoked.
PARTITION_BYTES = 20
# The same for each topic of a member.
TOPIC_BYTES = 64
# An empty target of a member, without its strings.
MEMBER_BYTES = 48
CHARACTER_BYTES = 4


def target_bytes_at_most(group_id: str, subscriptions: Subscriptions, topics: Topics) -> int:
    """The most bytes that a target of all members needs in the log, for any assignor."""
    member_ids = subscriptions.members
    size = len(member_ids) * (MEMBER_BYTES + len(group_id.encode()))
    size += CHARACTER_BYTES * sum(map(len, member_ids))
    for shape in shapes(subscriptions.all_names(), topics).values():
        count = shape.partition_count
        size += PARTITION_BYTES * count + TOPIC_BYTES * min(count, len(member_ids))
    return size
