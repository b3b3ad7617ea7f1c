"""A topic that is made, filled, read, deleted and made again under the same name, for ever."""

import asyncio
from typing import Any

from ottla.errors import ErrorCode
from ottla.protocol.batch import records
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.delete_topics import Topic as DeletedTopic
from ottla.protocol.messages.metadata import MetadataRequest, RequestedTopic
from ottla.protocol.primitives import ZERO_UUID, Uuid
from tests.sim.broker.consumers import batches_of
from tests.sim.broker.history import PartitionHistory, Sent
from tests.sim.broker.line import Line
from tests.sim.broker.world import World
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, wanted
from tests.support.broker.simulated_broker import new_topic

NAME = "churn"
CREATE_VERSION = 7
DELETE_VERSION = 6
PRODUCE_BY_ID_VERSION = 13
FETCH_BY_NAME_VERSION = 12
FETCH_BY_ID_VERSION = 17
METADATA_VERSION = 12


class Refused(Exception):
    """The disk has no room, or is broken: perhaps later."""


class Churner:
    """One after another, over connections that come and go."""

    name = NAME

    def __init__(self, world: World) -> None:
        self._world = world
        self._entropy = world.entropy.fork(NAME)
        self._topic_id = ZERO_UUID
        self._deleted: list[Uuid] = []
        self._written = 0

    def __repr__(self) -> str:
        return f"{NAME}, {self._topic_id}"

    async def run(self) -> None:
        while not self._world.is_calm:
            try:
                line = await Line.open(self._world.machine, NAME)
                try:
                    await self._live_and_die(line)
                finally:
                    line.close()
            except (OSError, TimeoutError, Refused):
                await asyncio.sleep(self._entropy.between(1, 300) / 1e3)

    async def check(self, line: Line) -> None:
        """In the end: nothing of what was deleted is served."""
        for topic_id in self._deleted[-3:]:
            await self._expect_gone(line, topic_id)
        current = await self._current_id(line)
        if current != ZERO_UUID:
            await self._read(line, current, by_name=True)

    async def _live_and_die(self, line: Line) -> None:
        while not self._world.is_calm:
            current = self._topic_id = await self._made(line)
            for _ in range(self._entropy.between(0, 4)):
                await self._write(line, current)
                await asyncio.sleep(self._entropy.between(0, 300) / 1e3)
            await self._read(line, current, by_name=True)
            await self._read(line, current, by_name=False)
            if self._entropy.chance(0.7):
                await self._delete(line, current)

    async def _made(self, line: Line) -> Uuid:
        """The id of the topic that has the name now."""
        request = CreateTopicsRequest(topics=(new_topic(NAME),))
        response = await line.ask(request, CREATE_VERSION)
        (result,) = response.topics
        topic_id: Uuid = result.topic_id
        if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
            topic_id = await self._current_id(line)
            assert topic_id != ZERO_UUID, "a topic exists, and does not"
        else:
            _accept(result.error_code)
        assert topic_id not in self._deleted, f"{topic_id} was deleted, and is back"
        return topic_id

    async def _current_id(self, line: Line) -> Uuid:
        request = MetadataRequest(
            topics=(RequestedTopic(name=NAME),), allow_auto_topic_creation=False
        )
        response = await line.ask(request, METADATA_VERSION)
        (topic,) = response.topics
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return ZERO_UUID
        assert topic.error_code == ErrorCode.NONE, topic
        topic_id: Uuid = topic.topic_id
        assert topic_id not in self._deleted, f"{topic_id} was deleted, and is back"
        return topic_id

    async def _write(self, line: Line, topic_id: Uuid) -> None:
        self._written += 1
        value = f"{topic_id} {self._written}".encode()
        history = self._history(topic_id)
        history.send(value, Sent(NAME, self._written, may_repeat=False))
        content = batch(value, timestamp_ms=self._world.machine.clock.wall_ms())
        result = only(await line.ask(produce(topic_id, content), PRODUCE_BY_ID_VERSION))
        _accept(result.error_code)
        history.acknowledge(result.base_offset, [value])

    async def _read(self, line: Line, topic_id: Uuid, *, by_name: bool) -> None:
        """Reads all that is there: nobody else writes, so all must be this topic's own."""
        history = self._history(topic_id)
        is_current = line.power_losses == self._world.machine.power_losses
        offset = 0
        while True:
            result = await self._fetch(line, topic_id, offset, by_name=by_name)
            _accept(result.error_code)
            batches = list(batches_of(result.records, offset))
            for header, content in batches:
                for record in records(content):
                    assert record.value is not None
                    history.see(record.offset, record.value, is_current=is_current)
                offset = header.next_offset
            if not batches:
                break
        assert offset >= history.acknowledged_end, f"{offset=}, {history.acknowledged_end=}"

    async def _fetch(self, line: Line, topic_id: Uuid, offset: int, *, by_name: bool) -> Any:
        request = fetch(NAME if by_name else topic_id, wanted(0, offset))
        version = FETCH_BY_NAME_VERSION if by_name else FETCH_BY_ID_VERSION
        return only(await line.ask(request, version))

    async def _delete(self, line: Line, topic_id: Uuid) -> None:
        """By its id: a request that arrives late must not hit the next one of that name."""
        topics = (DeletedTopic(name=None, topic_id=topic_id),)
        request = DeleteTopicsRequest(topics=topics, timeout_ms=5_000)
        response = await line.ask(request, DELETE_VERSION)
        (result,) = response.responses
        _accept(result.error_code)
        self._deleted.append(topic_id)
        await self._expect_gone(line, topic_id)

    async def _expect_gone(self, line: Line, topic_id: Uuid) -> None:
        result = await self._fetch(line, topic_id, 0, by_name=False)
        assert result.error_code == ErrorCode.UNKNOWN_TOPIC_ID, f"{topic_id} lives on: {result}"

    def _history(self, topic_id: Uuid) -> PartitionHistory:
        return self._world.history.partition(topic_id, 0)


def _accept(code: int) -> None:
    if code == ErrorCode.KAFKA_STORAGE_ERROR:
        raise Refused
    assert code == ErrorCode.NONE, ErrorCode(code).name
