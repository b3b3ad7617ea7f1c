"""Routes of transactional clients in a cluster: to leaders of partitions, and to coordinators."""

from collections.abc import Iterator, Sequence

from ottla.errors import ErrorCode
from ottla.protocol.coordinator_type import CoordinatorType
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.broker.transactional_route import Way
from tests.sim.cluster.cluster import BrokerLine
from tests.sim.cluster.routing import STALE_METADATA, Routing, TryAgain
from tests.sim.request_line import RequestLine

FIND_VERSION = 4
# A request that got no answer may take effect at any time: it counts as one of the present life.
ONLY_LIFE = 1
NO_COORDINATOR = (
    *STALE_METADATA,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.INVALID_REPLICATION_FACTOR,
)
Coordinated = tuple[CoordinatorType, str]


class ClusterRoute:
    """One client's. `topic_ids` are those of the topics that it produces to."""

    def __init__(
        self, routing: Routing, group: str, transactional_id: str, topic_ids: dict[str, Uuid]
    ) -> None:
        self._routing = routing
        self._group = group
        self._transactional_id = transactional_id
        self._topic_ids = topic_ids
        self._coordinators: dict[Coordinated, str] = {}
        self._lines: dict[RequestLine, BrokerLine] = {}
        self._abandoned: list[RequestLine] = []

    async def way(self, request: object) -> Way:
        if isinstance(request, TxnOffsetCommitRequest):
            return await self.way_to_group()
        if isinstance(request, ProduceRequest):
            return self._way(await self._leader(next(self._places(request))))
        return await self._way_to(CoordinatorType.TRANSACTION, self._transactional_id)

    async def way_to_group(self) -> Way:
        return await self._way_to(CoordinatorType.GROUP, self._group)

    async def way_to_leader(self, place: TopicPartition) -> Way:
        """OSError or TimeoutError if nobody leads it, or cannot be reached."""
        return self._way(await self._leader(place))

    async def way_to_id(self, transactional_id: str) -> Way:
        """To the coordinator of any transactional id. Raises as `way`."""
        return await self._way_to(CoordinatorType.TRANSACTION, transactional_id)

    async def together(self, places: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
        """Those that the leader of the first one leads, as far as is known."""
        first = places[0]
        try:
            line = await self._leader(first)
            leaders = {place: await self._leader(place) for place in places[1:]}
        except (OSError, TimeoutError):
            return (first,)
        return (first, *(place for place, leader in leaders.items() if leader is line))

    def refused(self, request: object) -> None:
        """Looks again for those who take it."""
        if isinstance(request, ProduceRequest):
            for place in self._places(request):
                self.forget(place)
        else:
            self._coordinators.clear()

    def forget(self, place: TopicPartition) -> None:
        """This partition's leader is none, or cannot be reached."""
        self._routing.forget(self._topic_ids[place.topic], place.partition)

    def drop(self, way: Way) -> None:
        self._routing.drop(self._lines[way.line])

    def abandon(self, way: Way) -> None:
        self._abandoned.append(way.line)
        self._routing.abandon(self._lines[way.line])

    def close(self) -> None:
        self._routing.close()
        for line in self._abandoned:
            line.close()
        self._abandoned.clear()
        self._coordinators.clear()

    # Parts

    def _places(self, request: ProduceRequest) -> Iterator[TopicPartition]:
        return (
            TopicPartition(topic.name, partition.index)
            for topic in request.topic_data
            for partition in topic.partition_data
        )

    def _way(self, line: BrokerLine) -> Way:
        self._lines[line.line] = line
        return Way(line.line, ONLY_LIFE)

    async def _leader(self, place: TopicPartition) -> BrokerLine:
        topic_id = self._topic_ids[place.topic]
        try:
            _, line = await self._routing.leader(place.topic, topic_id, place.partition)
        except TryAgain as error:
            raise ConnectionError(str(error)) from error
        except (OSError, TimeoutError):
            self.forget(place)
            raise
        return line

    async def _way_to(self, kind: CoordinatorType, key: str) -> Way:
        if (kind, key) not in self._coordinators:
            self._coordinators[kind, key] = await self._find(kind, key)
        try:
            return self._way(await self._routing.to_host(self._coordinators[kind, key]))
        except (OSError, TimeoutError):
            self._coordinators.clear()
            raise

    async def _find(self, kind: CoordinatorType, key: str) -> str:
        line = await self._routing.any_broker()
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=(key,))
        try:
            (found,) = (await line.line.ask(request, FIND_VERSION)).coordinators
        except TimeoutError:
            self._routing.drop(line)
            raise
        if found.error_code:
            assert found.error_code in NO_COORDINATOR, found
            raise ConnectionError(f"{key} has no coordinator: {found.error_code}")
        host: str = found.host
        return host
