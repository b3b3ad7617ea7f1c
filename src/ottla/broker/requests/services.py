"""The parts of one node that handlers use, grouped by subject; `broker.node` puts them together."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.broker.requests.auto_creation import AutoCreation
from ottla.broker.requests.record_work import RecordWork, TurnBudget
from ottla.broker.requests.response_cache import EncodedAnswers
from ottla.broker.tasks import Tasks
from ottla.metadata.controller_interface import Controller
from ottla.metadata.image import Image
from ottla.metadata.publisher import Publisher
from ottla.metadata.values import Endpoint
from ottla.replication.append.appender import Appender
from ottla.replication.append.flusher import Flusher
from ottla.replication.fetch.cold_reads import ColdReads
from ottla.replication.housekeeping.checkpointer import Checkpointer
from ottla.replication.replicas import Replicas
from ottla.seams.clock import Clock
from ottla.seams.entropy import Entropy

if TYPE_CHECKING:
    from ottla.broker.event_log import Logger
    from ottla.broker.requests.authorization import Authorizer
    from ottla.broker.requests.producer_ids import ProducerIdBlocks
    from ottla.coordinators.group.coordinator import GroupShards
    from ottla.metrics.node import NodeMetrics
    from ottla.replication.fetch.sessions import FetchSessions
    from ottla.settings.broker import BrokerSettings

NO_CONTROLLER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """This broker as clients know it."""

    node_id: int
    cluster_id: str
    # The API keys that ApiVersions offers.
    served_apis: frozenset[int]
    # None: a client is told the address that it connected to.
    advertised: tuple[Endpoint, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """The cluster's metadata as this broker knows it, and what is made of it."""

    publisher: Publisher
    producer_ids: "ProducerIdBlocks"
    auto_creation: AutoCreation = field(default_factory=AutoCreation)
    # The responses to Metadata requests, encoded once per image.
    encoded_answers: EncodedAnswers = field(default_factory=EncodedAnswers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """The partitions of this broker, and all that is done to their logs for clients."""

    replicas: Replicas
    appender: Appender
    flusher: Flusher
    checkpointer: Checkpointer
    cold_reads: ColdReads
    fetch_sessions: "FetchSessions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Decompression and checks of clients' records: on the loop within a budget, else queued."""

    turn_budget: TurnBudget
    work: RecordWork


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinators:
    """The state that this broker coordinates, by the partitions of its internal topics."""

    # Groups and their offsets.
    groups: "GroupShards"


@dataclass(slots=True, kw_only=True)
class Services:
    """One node's parts. No handler keeps any of them."""

    # The settings in force: replaced when a client changes one.
    settings: "BrokerSettings"
    clock: Clock
    entropy: Entropy
    # Work that no request waits for.
    tasks: Tasks
    metrics: "NodeMetrics"
    logger: "Logger"
    identity: Identity
    metadata: Metadata
    # The one way to change the metadata.
    controller: Controller
    partitions: Partitions
    records: Records
    coordinators: Coordinators
    # None: every client may do everything.
    authorizer: "Authorizer | None" = None

    @property
    def image(self) -> Image:
        return self.metadata.publisher.image

    @property
    def controller_id(self) -> int:
        """The broker that leads the metadata; Kafka's -1 while none is known."""
        controller_id = self.image.controller_id
        return NO_CONTROLLER if controller_id is None else controller_id

    @property
    def now_ms(self) -> int:
        return self.clock.wall_ms()
