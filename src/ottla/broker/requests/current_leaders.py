"""Names the current leader to a client that asked another broker or used an old epoch (KIP-951)."""

from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.requests.advertised_addresses import BrokerAddress, broker_address
from ottla.errors import ErrorCode
from ottla.metadata.records import Partition
from ottla.protocol.primitives import Uuid
from ottla.replication.lookup import TopicKey

if TYPE_CHECKING:
    from ottla.broker.net.session import Session
    from ottla.broker.requests.services import Services

# The errors by which a client learns that its leader or leader epoch is an old one.
MOVED_LEADER_CODES = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class CurrentLeader(NamedTuple):
    """The leader of a partition, as the metadata has it."""

    leader_id: int
    leader_epoch: int


class CurrentLeaders:
    """The leaders that one response names, with their addresses on the client's listener."""

    __slots__ = ("_brokers", "_services", "_session")

    def __init__(self, services: "Services", session: "Session") -> None:
        self._services = services
        self._session = session
        self._brokers: dict[int, BrokerAddress] = {}

    @property
    def brokers(self) -> list[BrokerAddress]:
        """The brokers that were named so far."""
        return list(self._brokers.values())

    def find(self, topic: TopicKey, index: int, code: ErrorCode) -> CurrentLeader | None:
        """The leader to name with this error; None if there is none that the client can reach."""
        if code not in MOVED_LEADER_CODES:
            return None
        partition = self._partition(topic, index)
        if partition is None or partition.leader is None:
            return None
        leader_id = partition.leader.broker_id
        own_id = self._services.identity.node_id
        if leader_id == own_id and code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            # This broker does not lead what the metadata says: its session is lost.
            return None
        broker = broker_address(self._services, self._session, leader_id)
        if broker is None or not broker.is_up:
            return None
        self._brokers[leader_id] = broker
        return CurrentLeader(leader_id, partition.leader_epoch)

    def _partition(self, topic: TopicKey, index: int) -> Partition | None:
        image = self._services.image
        known = image.topic(topic) if isinstance(topic, str) else image.topic_by_id(Uuid(topic))
        return None if known is None else image.partition(known.topic_id, index)
