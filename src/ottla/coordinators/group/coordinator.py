"""The group coordinator: the shards of `__consumer_offsets`, and the removal of deleted topics."""

import asyncio
from typing import TYPE_CHECKING, Never, TypeAlias

from ottla.coordinators.group.deleted_topics import DeletedTopics
from ottla.coordinators.runtime.shard import Shard
from ottla.coordinators.runtime.shards import Shards
from ottla.metadata.image import Image
from ottla.metadata.store import Entry
from ottla.seams.clock import Clock

if TYPE_CHECKING:
    # Imported for the first group: a broker without groups starts sooner and uses less memory.
    from ottla.coordinators.group.machine import GroupMachine

GroupShard: TypeAlias = "Shard[GroupMachine, Never]"
GroupShards: TypeAlias = "Shards[GroupMachine, Never]"


class GroupCoordinator:
    """Call `start` with the first image and `follow` for each later entry; `run` does not end."""

    def __init__(self, shards: GroupShards, clock: Clock) -> None:
        self.shards = shards
        self.deleted_topics = DeletedTopics(shards, clock)

    def start(self, image: Image) -> None:
        self.deleted_topics.start(image)
        self.shards.start(image)

    def follow(self, image: Image, entry: Entry) -> None:
        """The replicas must have followed the entry before."""
        self.shards.follow(image, entry)
        self.deleted_topics.follow(image, entry)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.shards.run(), name="group timers")
            tasks.create_task(self.deleted_topics.run(), name="offsets of deleted topics")
