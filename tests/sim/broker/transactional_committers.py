"""Offsets of a group that also producers commit: a plain committer, and a reader of them."""

import asyncio

from ottla.errors import ErrorCode
from ottla.protocol.messages import offset_fetch
from tests.sim.broker.line import Line
from tests.sim.broker.transactional_session import RETRIED
from tests.sim.broker.transactional_world import COMMITTED_PLACE, GROUP, TransactionalWorld
from tests.support.broker.group_requests import codes, commit

COMMIT_VERSION = 9
FETCH_VERSION = 9


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
                        await asyncio.sleep(self._entropy.between(0, 1_200) / 1e3)
                finally:
                    line.close()
            except (OSError, TimeoutError):
                await asyncio.sleep(self._entropy.between(1, 300) / 1e3)

    async def _commit(self, line: Line) -> None:
        history = self._world.history
        made = history.commit_offset(line.life)
        request = commit(GROUP, COMMITTED_PLACE.topic, {COMMITTED_PLACE.partition: made.offset})
        (code,) = codes(await line.ask(request, COMMIT_VERSION))
        made.settled = history.moment()
        if code == ErrorCode.NONE:
            made.acknowledged = history.moment()
        else:
            assert ErrorCode(code) in RETRIED, ErrorCode(code).name


class OffsetReader:
    """Asks for the group's offset again and again, stable or not."""

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
        """Checks what is found. False if there was no answer, or no stable offset."""
        history = self._world.history
        asked = history.moment()
        topic = offset_fetch.Topic(
            name=COMMITTED_PLACE.topic, partition_indexes=(COMMITTED_PLACE.partition,)
        )
        request = offset_fetch.OffsetFetchRequest(
            groups=(offset_fetch.Group(group_id=GROUP, topics=(topic,)),),
            require_stable=is_stable,
        )
        (group,) = (await line.ask(request, FETCH_VERSION)).groups
        if group.error_code:
            assert ErrorCode(group.error_code) in RETRIED, group
            return False
        (partition,) = group.topics[0].partitions
        if is_stable and partition.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
            return False
        assert partition.error_code == ErrorCode.NONE, partition
        if line.power_losses == self._world.base.machine.power_losses:
            history.group.check(partition.committed_offset, asked, is_stable=is_stable)
        return True
