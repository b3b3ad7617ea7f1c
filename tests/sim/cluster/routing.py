"""A client's connections to the brokers of a cluster, and what Metadata told it about leaders."""

from typing import Any, NamedTuple

from ottla.errors import ErrorCode
from ottla.protocol.messages.metadata import MetadataRequest, RequestedTopic
from ottla.protocol.primitives import ZERO_UUID, Uuid
from tests.sim.cluster.cluster import BrokerLine
from tests.sim.cluster.world import World
from tests.sim.seams.entropy import SimEntropy

METADATA_VERSION = 12
NOBODY = -1


class TryAgain(Exception):
    """A broker refused, or nobody leads: it may be otherwise soon, or on another broker."""


class Leader(NamedTuple):
    broker_id: int
    leader_epoch: int


# After these codes a client asks for metadata and tries again.
STALE_METADATA = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.NOT_CONTROLLER,
)


class Routing:
    """One client's. A connection that is lost is opened again when it is needed."""

    def __init__(self, world: World, name: str, entropy: SimEntropy) -> None:
        self._world = world
        self._net = world.cluster.network.host(name)
        self._entropy = entropy
        self._lines: dict[str, BrokerLine] = {}
        self._leaders: dict[tuple[Uuid, int], Leader] = {}
        self._hosts: dict[int, tuple[str, int]] = {}

    async def leader(self, topic: str, topic_id: Uuid, index: int) -> tuple[Leader, BrokerLine]:
        """The leader as far as this client knows. TryAgain if it knows of none."""
        leader = self._leaders.get((topic_id, index))
        if leader is None:
            await self.metadata(topic)
            leader = self._leaders.get((topic_id, index))
        if leader is None:
            raise TryAgain(f"{topic}-{index} has no leader")
        return leader, await self._line_to(leader.broker_id)

    def forget(self, topic_id: Uuid, index: int) -> None:
        """This leader is none, or cannot be reached."""
        self._leaders.pop((topic_id, index), None)

    async def controller(self) -> BrokerLine:
        """A broker that takes requests for the controller."""
        if self._world.shape.forwards:
            return await self.any_broker()
        response = await self.metadata()
        if response.controller_id not in self._hosts:
            raise TryAgain("there is no controller")
        return await self._line_to(response.controller_id)

    async def metadata(self, *topics: str, line: BrokerLine | None = None) -> Any:
        """Asks a broker, any of them if none is given."""
        request = MetadataRequest(
            topics=tuple(RequestedTopic(name=topic) for topic in topics),
            allow_auto_topic_creation=False,
        )
        line = line or await self.any_broker()
        response = await line.line.ask(request, METADATA_VERSION)
        self._hosts = {each.node_id: (each.host, each.port) for each in response.brokers}
        for topic in response.topics:
            for partition in topic.partitions:
                self._learn(topic.topic_id, partition)
        return response

    async def topic_id(self, topic: str, line: BrokerLine | None = None) -> Uuid:
        """The id of the topic of this name; ZERO_UUID if the asked broker knows none."""
        (found,) = (await self.metadata(topic, line=line)).topics
        if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return ZERO_UUID
        assert found.error_code == ErrorCode.NONE, found
        topic_id: Uuid = found.topic_id
        return topic_id

    async def any_broker(self) -> BrokerLine:
        return await self.to_host(self._entropy.pick(self._world.cluster.hosts))

    async def to_host(self, host: str) -> BrokerLine:
        line = self._lines.get(host)
        if line is None or line.line.is_lost:
            line = self._lines[host] = await self._world.cluster.connect(self._net, host)
        return line

    def drop(self, line: BrokerLine) -> None:
        """Closes a connection: a reply that is late must not be taken for a later request's."""
        line.line.close()
        self._lines.pop(line.machine.host, None)

    def abandon(self, line: BrokerLine) -> None:
        """Leaves a connection open, and uses it no more."""
        self._lines.pop(line.machine.host, None)

    def close(self) -> None:
        for line in self._lines.values():
            line.line.close()
        self._lines.clear()

    def _learn(self, topic_id: Uuid, partition: Any) -> None:
        key = topic_id, partition.partition_index
        if partition.leader_id == NOBODY:
            self._leaders.pop(key, None)
        else:
            self._leaders[key] = Leader(partition.leader_id, partition.leader_epoch)

    async def _line_to(self, broker_id: int) -> BrokerLine:
        if broker_id not in self._hosts:
            raise TryAgain(f"nobody knows where broker {broker_id} is")
        host, _port = self._hosts[broker_id]
        return await self.to_host(host)
