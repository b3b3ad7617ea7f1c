"""Offsets of a group that also producers commit: a plain committer, and a reader of them."""

import asyncio

from ottla.errors import ErrorCode
from ottla.protocol.messages import offset_fetch
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.broker.line import Line
from tests.sim.broker.transactional_connection import RETRIED
from tests.sim.broker.transactional_world import COMMITTED_PLACES, GROUP, TransactionalWorld
from tests.support.broker.group_requests import codes, commit

COMMIT_VERSION = 9
FETCH_VERSION = 9
_TOPICS = tuple(
    offset_fetch.Topic(name=place.topic, partition_indexes=(place.partition,))
    for place in COMMITTED_PLACES
)


class PlainCommitter:
    """Commits offsets outside of any transaction; none of them a second time."""

    name = "committer"

    def __init__(self, world: TransactionalWorld) -> None:
        self._world = world
        self._entropy = world.base.entropy.fork(self.name)

    async def run(self) -> None:
        while not self._world.base.is_calm:
            try:
                line = await Line.open(self._world.base.machine, self.name)
                try:
                    while not self._world.base.is_calm:
                        await self._commit(line)
                        await asyncio.sleep(self._entropy.between(0, 900) / 1e3)
                finally:
                    line.close()
            except (OSError, TimeoutError):
                await asyncio.sleep(self._entropy.between(1, 300) / 1e3)

    async def _commit(self, line: Line) -> None:
        history = self._world.history
        place = COMMITTED_PLACES[self._entropy.chance(0.1)]
        made = history.commit_offset(place, line.life)
        request = commit(GROUP, place.topic, {place.partition: made.offset})
        (code,) = codes(await line.ask(request, COMMIT_VERSION))
        made.settled = history.moment()
        if code == ErrorCode.NONE:
            made.acknowledged = history.moment()
        else:
            assert ErrorCode(code) in RETRIED, ErrorCode(code).name


class OffsetReader:
    """Asks for the group's offsets again and again, stable or not."""

    name = "offset-reader"

    def __init__(self, world: TransactionalWorld) -> None:
        self._world = world
        self._entropy = world.base.entropy.fork(self.name)

    async def run(self) -> None:
        while not self._world.base.is_calm:
            try:
                line = await Line.open(self._world.base.machine, self.name)
                try:
                    while not self._world.base.is_calm:
                        await self.read(line, is_stable=self._entropy.chance(0.5))
                        await asyncio.sleep(self._entropy.between(0, 300) / 1e3)
                finally:
                    line.close()
            except (OSError, TimeoutError):
                await asyncio.sleep(self._entropy.between(1, 300) / 1e3)

    async def read(self, line: Line, *, is_stable: bool) -> bool:
        """Checks what is found. False if there was no answer, or an offset was not stable."""
        history = self._world.history
        asked = history.moment()
        request = offset_fetch.OffsetFetchRequest(
            groups=(offset_fetch.Group(group_id=GROUP, topics=_TOPICS),), require_stable=is_stable
        )
        (group,) = (await line.ask(request, FETCH_VERSION)).groups
        if group.error_code:
            assert ErrorCode(group.error_code) in RETRIED, group
            return False
        if line.power_losses != self._world.base.machine.power_losses:
            return False  # an answer from before, of what may be gone
        is_complete = True
        for topic in group.topics:
            for each in topic.partitions:
                if is_stable and each.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                    is_complete = False
                    continue
                assert each.error_code == ErrorCode.NONE, each
                place = TopicPartition(topic.name, each.partition_index)
                found = each.committed_offset
                history.offsets(place).check(found, asked, is_stable=is_stable)
        return is_complete
