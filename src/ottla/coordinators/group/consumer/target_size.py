"""How much the log needs for what members are to own, told before it is decided. Pure.

A target that does not fit one batch could never be written: so nobody may join, or subscribe to
more, that would make it so. Topics grow without asking; then members keep the target they have.
"""

from ottla.coordinators.group.consumer.subscriptions import Subscriptions
from ottla.coordinators.group.consumer.topics import Topics, shapes

# In the target of its owner, and in where the member stands that takes its step: there with its
# epoch, and as long again if it is to be given up.
PARTITION_BYTES = 20
# The same of a topic of which a member has partitions.
TOPIC_BYTES = 64
# The target of a member that has nothing, besides the names.
MEMBER_BYTES = 48
CHARACTER_BYTES = 4


def target_bytes_at_most(group_id: str, subscriptions: Subscriptions, topics: Topics) -> int:
    """What a target of all members takes in the log, however it is shared out."""
    member_ids = subscriptions.members
    size = len(member_ids) * (MEMBER_BYTES + len(group_id.encode()))
    size += CHARACTER_BYTES * sum(map(len, member_ids))
    for shape in shapes(subscriptions.all_names(), topics).values():
        count = shape.partition_count
        size += PARTITION_BYTES * count + TOPIC_BYTES * min(count, len(member_ids))
    return size
