"""The parts of a node that handlers use, grouped by subject. `broker.node` composes them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.broker.requests.auto_topic_creation import AutoTopicCreation
from ottla.broker.requests.marker_senders import MarkerSenders
from ottla.broker.requests.record_work import RecordWork, TurnBudget
from ottla.broker.requests.response_cache import ResponseCache
from ottla.broker.requests.turn_queue import TurnQueue
from ottla.broker.tasks import Tasks
from ottla.metadata.controller_interface import Controller
from ottla.metadata.image import Image
from ottla.metadata.publisher import Publisher
from ottla.metadata.unclean_elections import UncleanElections
from ottla.metadata.values import Endpoint
from ottla.replication.append.appender import Appender
from ottla.replication.append.flusher import Flusher
from ottla.replication.fetch.cold_reads import ColdReads
from ottla.replication.housekeeping.checkpointer import Checkpointer
from ottla.replication.replicas import Replicas
from ottla.replication.throttle import ReplicationThrottles
from ottla.seams.clock import Clock
from ottla.seams.entropy import Entropy

if TYPE_CHECKING:
    from ottla.broker.event_log import Logger
    from ottla.broker.inter_broker.inter_broker import InterBroker
    from ottla.broker.net.session import Session
    from ottla.broker.requests.authorization import Authorizer
    from ottla.broker.requests.producer_ids import ProducerIdBlocks
    from ottla.coordinators.group.coordinator import GroupShards
    from ottla.coordinators.txn.coordinator import TransactionShards
    from ottla.coordinators.txn.partition_leaders import LocalPartitionLeaders
    from ottla.coordinators.txn.verification import TransactionVerifier
    from ottla.metrics.node import NodeMetrics
    from ottla.replication.fetch.follower_sessions import FollowerSessions
    from ottla.replication.fetch.sessions import FetchSessions
    from ottla.settings.broker import BrokerSettings

NO_CONTROLLER = -1

# The frame of the response to a frame. PeerError if it was not handled.
HandleEmbedded = Callable[[bytes, "Session"], Awaitable[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """This broker as clients know it."""

    node_id: int
    cluster_id: str
    # The API keys that ApiVersions offers.
    served_apis: frozenset[int]
    # None: clients get the address that they connected to.
    advertised: tuple[Endpoint, ...] | None = None
    # The only listener on which requests between brokers are accepted; None: nowhere.
    inter_broker_listener: str | None = None
    # Whether other brokers use the same metadata.
    has_peers: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataServices:
    """The metadata image, and the state that belongs to metadata requests."""

    publisher: Publisher
    producer_ids: "ProducerIdBlocks"
    # For the controller: elections that compare the logs of replicas.
    unclean_elections: UncleanElections
    auto_topic_creation: AutoTopicCreation = field(default_factory=AutoTopicCreation)
    # The responses to Metadata requests, encoded once per image.
    response_cache: ResponseCache = field(default_factory=ResponseCache)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionServices:
    """The partitions of this broker, and the operations on their logs."""

    replicas: Replicas
    appender: Appender
    flusher: Flusher
    checkpointer: Checkpointer
    cold_reads: ColdReads
    fetch_sessions: "FetchSessions"
    follower_sessions: "FollowerSessions"
    throttles: ReplicationThrottles


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordServices:
    """Decompression and checks of clients' records: on the loop within a budget, else queued."""

    turn_budget: TurnBudget
    work: RecordWork
    # For the appends of requests that a coordinator has verified: many may be verified at once.
    verified_appends: TurnQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorServices:
    """The coordinators of this broker, as shards per partition of their internal topics."""

    groups: "GroupShards"
    transactions: "TransactionShards"
    # Asks the coordinators of transactions, on any broker.
    verifier: "TransactionVerifier"
    # Writes the markers of partitions that this broker leads.
    partition_leaders: "LocalPartitionLeaders"
    marker_senders: MarkerSenders = field(default_factory=MarkerSenders)


@dataclass(slots=True, kw_only=True)
class Services:
    """The parts of a node. Handlers keep no reference to them between requests."""

    # Replaced when a client changes a dynamic setting.
    settings: "BrokerSettings"
    clock: Clock
    entropy: Entropy
    # Background tasks.
    tasks: Tasks
    metrics: "NodeMetrics"
    logger: "Logger"
    identity: Identity
    metadata: MetadataServices
    # All metadata changes are committed through it.
    controller: Controller
    partitions: PartitionServices
    records: RecordServices
    coordinators: CoordinatorServices
    # Requests to other brokers; None if there are none.
    inter_broker: "InterBroker | None" = None
    # Handles a request that another broker forwards. Set by `Dispatch`.
    handle_embedded: "HandleEmbedded | None" = None
    # None: every client may do everything.
    authorizer: "Authorizer | None" = None

    @property
    def image(self) -> Image:
        return self.metadata.publisher.image

    @property
    def controller_id(self) -> int:
        """The broker id of the controller; Kafka's -1 while none is known."""
        controller_id = self.image.controller_id
        return NO_CONTROLLER if controller_id is None else controller_id

    @property
    def now_ms(self) -> int:
        return self.clock.wall_ms()
