"""An admin client: creates the main topic; creates, fills, reads and deletes others, for ever."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar

from ottla.errors import ErrorCode
from ottla.protocol.batch import records
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.delete_topics import Topic as DeletedTopic
from ottla.protocol.primitives import ZERO_UUID, Uuid
from tests.sim.broker.consumers import batches_of
from tests.sim.broker.history import PartitionHistory, Sent
from tests.sim.cluster.cluster import BrokerLine
from tests.sim.cluster.routing import STALE_METADATA, Leader, Routing, TryAgain
from tests.sim.cluster.world import MAIN_TOPIC, World
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, wanted
from tests.support.broker.simulated_broker import new_topic

CHURNED_TOPICS = ("churn-a", "churn-b")
CREATE_VERSION = 7
DELETE_VERSION = 6
PRODUCE_BY_ID_VERSION = 13
FETCH_BY_NAME_VERSION = 12
FETCH_BY_ID_VERSION = 17
REQUEST_TIMEOUT_MS = 5_000
PASSING = (
    *STALE_METADATA,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.OFFSET_NOT_AVAILABLE,
)
# Too few brokers are registered at the moment.
NO_PLACE = ErrorCode.INVALID_REPLICATION_FACTOR


class Admin:
    """Nobody else changes topics, so a name has at most one topic that this client made."""

    name = "admin"
    topics: ClassVar[Sequence[str]] = CHURNED_TOPICS

    def __init__(self, world: World) -> None:
        self._world = world
        self._entropy = world.entropy.fork(self.name)
        self._routing = Routing(world, self.name, self._entropy.fork("routing"))
        # By name: the topic that must be there, since nobody has asked for its deletion.
        self._live: dict[str, Uuid] = {}
        self._deleted: list[Uuid] = []
        # A request to delete them may arrive late.
        self._dying: list[Uuid] = []
        self._written = 0
        self.created = 0

    def __repr__(self) -> str:
        return f"{self.name}, {self.created} created, {len(self._deleted)} deleted"

    async def create_main_topic(self) -> None:
        shape = self._world.shape
        configs: dict[str, str | None] = {"segment.ms": "2000", "index.interval.bytes": "200"}
        self._world.main_id = await self._persist(
            lambda: self._create(MAIN_TOPIC, shape.partitions, shape.replication_factor, configs)
        )
        await self._persist(self._find_main_replicas)

    async def _find_main_replicas(self) -> None:
        (topic,) = (await self._routing.metadata(MAIN_TOPIC)).topics
        if topic.topic_id != self._world.main_id:
            raise TryAgain
        for partition in topic.partitions:
            replicas = tuple(partition.replica_nodes)
            self._world.place(topic.topic_id, partition.partition_index, replicas)

    async def run(self) -> None:
        while not self._world.is_calm:
            name = self._entropy.pick(self.topics)
            try:
                await self._live_and_die(name)
            except (OSError, TimeoutError, TryAgain):
                self._routing.close()
                await asyncio.sleep(self._entropy.between(1, 300) / 1e3)
        self._routing.close()

    async def check(self) -> None:
        """In peace: no broker serves anything that was deleted, and each knows what was not."""
        for machine in self._world.cluster.all:
            line = await self._routing.to_host(machine.host)
            for topic_id in self._deleted[-3:]:
                await self._expect_gone(line, topic_id)
            for name in self.topics:
                current = await self._routing.topic_id(name, line)
                assert current not in self._deleted, f"{name} {current} was deleted, and is back"
                self._check_live(name, current)
        self._routing.close()

    async def _persist(self, attempt: Callable[[], Awaitable[Any]]) -> Any:
        while True:
            try:
                return await attempt()
            except (OSError, TimeoutError, TryAgain):
                self._routing.close()
                await asyncio.sleep(self._entropy.between(1, 300) / 1e3)

    # One topic's life

    async def _live_and_die(self, name: str) -> None:
        topic_id = await self._create(name, 1, *self._new_shape())
        if topic_id in self._deleted:
            # Told by a broker that is behind.
            raise TryAgain
        self._check_live(name, topic_id)
        if topic_id not in self._dying:
            self._live[name] = topic_id
        for _ in range(self._entropy.between(0, 3)):
            await self._write(name, topic_id)
            await asyncio.sleep(self._entropy.between(0, 300) / 1e3)
        await self._read(name, topic_id, by_name=self._entropy.chance(0.5))
        if self._entropy.chance(0.7):
            self._live.pop(name, None)
            await self._delete(topic_id)

    def _new_shape(self) -> tuple[int, dict[str, str | None]]:
        """The replication factor and the settings of the next topic."""
        return self._world.shape.replication_factor, {}

    def _check_live(self, name: str, topic_id: Uuid) -> None:
        live = self._live.get(name, topic_id)
        assert live == topic_id, f"{name} {live} is gone, nobody deleted it, now it is {topic_id}"

    async def _create(
        self, name: str, partitions: int, factor: int, configs: dict[str, str | None]
    ) -> Uuid:
        """The id of the topic that has the name now."""
        line = await self._routing.controller()
        topic = new_topic(name, partitions, factor=factor, configs=configs)
        request = CreateTopicsRequest(topics=(topic,), timeout_ms=REQUEST_TIMEOUT_MS)
        (result,) = (await line.line.ask(request, CREATE_VERSION)).topics
        topic_id: Uuid = result.topic_id
        if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
            topic_id = await self._routing.topic_id(name, line)
            if topic_id == ZERO_UUID:
                raise TryAgain
        elif result.error_code == NO_PLACE:
            raise TryAgain
        else:
            _accept(result.error_code)
            assert topic_id not in self._deleted, f"{topic_id} was deleted, and is made again"
            self.created += 1
        return topic_id

    async def _write(self, name: str, topic_id: Uuid) -> None:
        leader, line = await self._routing.leader(name, topic_id, 0)
        self._place(topic_id, leader)
        self._written += 1
        value = f"{topic_id} {self._written}".encode()
        history = self._history(topic_id)
        history.send(value, Sent(self.name, self._written, may_repeat=False))
        content = batch(value, timestamp_ms=self._world.cluster.wall_ms())
        excuses = self._excuses(topic_id)
        result = only(await line.line.ask(produce(topic_id, content), PRODUCE_BY_ID_VERSION))
        self._accept_of(topic_id, result.error_code)
        self._expect_same(topic_id, excuses)
        self._acknowledge(topic_id, result.base_offset, value)

    def _acknowledge(self, topic_id: Uuid, offset: int, value: bytes) -> None:
        self._history(topic_id).acknowledge(offset, [value])

    def _place(self, topic_id: Uuid, leader: Leader) -> None:
        self._world.place(topic_id, 0, (leader.broker_id,))

    def _excuses(self, topic_id: Uuid) -> int:
        """How often nothing was promised any more of a topic."""
        return 0

    def _expect_same(self, topic_id: Uuid, excuses: int) -> None:
        """TryAgain if what was answered is promised no longer."""
        if excuses != self._excuses(topic_id):
            raise TryAgain

    def _expecting_promise(self, topic_id: Uuid, line: BrokerLine) -> Callable[[], None]:
        """To be called with the answer: TryAgain if it is a deposed leader's, and no promise."""
        return lambda: None

    async def _read(self, name: str, topic_id: Uuid, *, by_name: bool) -> None:
        """Reads all that is there: nobody else writes, so all must be this topic's own."""
        _, line = await self._routing.leader(name, topic_id, 0)
        if by_name and await self._routing.topic_id(name, line) != topic_id:
            # The leader has not heard of this topic, and may serve the one before.
            raise TryAgain
        history = self._history(topic_id)
        offset, excuses = 0, self._excuses(topic_id)
        while True:
            expect_promise = self._expecting_promise(topic_id, line)
            result = await self._fetch(line, name if by_name else topic_id, offset)
            self._accept_of(topic_id, result.error_code)
            self._expect_same(topic_id, excuses)
            expect_promise()
            batches = list(batches_of(result.records, offset))
            for header, content in batches:
                for record in records(content):
                    assert record.value is not None
                    history.see(record.offset, record.value, is_current=line.is_current)
                offset = header.next_offset
            if not batches:
                break
        self._check_end(history, offset)

    def _check_end(self, history: PartitionHistory, offset: int) -> None:
        """All was read up to this offset."""
        assert offset >= history.acknowledged_end, (
            f"{history.name} ends at {offset}, and {history.acknowledged_end} were acknowledged"
        )

    async def _delete(self, topic_id: Uuid) -> None:
        """By its id: a request that arrives late must not hit the next one of that name."""
        self._dying.append(topic_id)
        line = await self._routing.controller()
        topics = (DeletedTopic(name=None, topic_id=topic_id),)
        request = DeleteTopicsRequest(topics=topics, timeout_ms=REQUEST_TIMEOUT_MS)
        (result,) = (await line.line.ask(request, DELETE_VERSION)).responses
        _accept(result.error_code)
        self._deleted.append(topic_id)

    async def _fetch(self, line: BrokerLine, topic: str | Uuid, offset: int) -> Any:
        version = FETCH_BY_NAME_VERSION if isinstance(topic, str) else FETCH_BY_ID_VERSION
        return only(await line.line.ask(fetch(topic, wanted(0, offset)), version))

    async def _expect_gone(self, line: BrokerLine, topic_id: Uuid) -> None:
        result = await self._fetch(line, topic_id, 0)
        assert result.error_code == ErrorCode.UNKNOWN_TOPIC_ID, (
            f"{topic_id} lives on, on {line.machine.host}: {result}"
        )

    def _accept_of(self, topic_id: Uuid, code: int) -> None:
        if code in STALE_METADATA:
            self._routing.forget(topic_id, 0)
        _accept(code)

    def _history(self, topic_id: Uuid) -> PartitionHistory:
        return self._world.history.partition(topic_id, 0)


def _accept(code: int) -> None:
    if code in PASSING:
        raise TryAgain
    assert code == ErrorCode.NONE, ErrorCode(code).name
