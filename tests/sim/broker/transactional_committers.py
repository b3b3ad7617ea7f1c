"""Offsets of a group that also producers commit: a plain committer, and a reader of them."""

import asyncio
from abc import ABC, abstractmethod

from ottla.errors import ErrorCode
from ottla.protocol.messages import offset_fetch
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.broker.transactional_route import Route
from tests.sim.broker.transactional_world import GROUP, TransactionalWorld
from tests.support.broker.group_requests import codes, commit

COMMIT_VERSION = 9
FETCH_VERSION = 9


class _GroupClient(ABC):
    """Asks the group's coordinator again and again, until the world is calm."""

    name: str
    pause_ms_max: int

    def __init__(self, world: TransactionalWorld) -> None:
        self._world = world
        self._entropy = world.fork(self.name)

    async def run(self) -> None:
        route = self._world.route(self.name)
        while not self._world.is_calm:
            try:
                try:
                    while not self._world.is_calm:
                        await self._step(route)
                        await asyncio.sleep(self._entropy.between(0, self.pause_ms_max) / 1e3)
                finally:
                    route.close()
            except (OSError, TimeoutError):
                await asyncio.sleep(self._entropy.between(1, 300) / 1e3)

    @abstractmethod
    async def _step(self, route: Route) -> None: ...

    def _accept_refusal(self, route: Route, request: object, code: int) -> None:
        assert ErrorCode(code) in self._world.retried, ErrorCode(code).name
        route.refused(request)


class PlainCommitter(_GroupClient):
    """Commits offsets outside of any transaction; none of them a second time."""

    name = "committer"
    pause_ms_max = 900

    async def _step(self, route: Route) -> None:
        history = self._world.history
        way = await route.way_to_group()
        place = self._world.committed_places[self._entropy.chance(0.1)]
        made = history.commit_offset(place, way.life)
        request = commit(GROUP, place.topic, {place.partition: made.offset})
        (code,) = codes(await way.line.ask(request, COMMIT_VERSION))
        made.settled = history.moment()
        if code == ErrorCode.NONE:
            made.acknowledged = history.moment()
        else:
            self._accept_refusal(route, request, code)


class OffsetReader(_GroupClient):
    """Asks for the group's offsets, stable or not."""

    name = "offset-reader"
    pause_ms_max = 300

    async def _step(self, route: Route) -> None:
        await route.way_to_group()
        await self.read(route, is_stable=self._entropy.chance(0.5))

    async def read(self, route: Route, *, is_stable: bool) -> bool:
        """Checks what is found. False if there was no answer, or an offset was not stable."""
        history = self._world.history
        asked = 0 if self._world.may_read_stale else history.moment()
        losses = self._world.losses
        request = self._request(is_stable=is_stable)
        way = await route.way_to_group()
        (group,) = (await way.line.ask(request, FETCH_VERSION)).groups
        if group.error_code:
            self._accept_refusal(route, request, group.error_code)
            return False
        if losses != self._world.losses:
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

    def _request(self, *, is_stable: bool) -> offset_fetch.OffsetFetchRequest:
        topics = tuple(
            offset_fetch.Topic(name=place.topic, partition_indexes=(place.partition,))
            for place in self._world.committed_places
        )
        group = offset_fetch.Group(group_id=GROUP, topics=topics)
        return offset_fetch.OffsetFetchRequest(groups=(group,), require_stable=is_stable)
