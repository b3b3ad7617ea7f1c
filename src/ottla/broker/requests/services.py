"""What handlers may ask: the parts of one node, put together by `broker.node.node`."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.broker.requests.auto_creation import AutoCreation
from ottla.broker.requests.record_work import RecordWork, TurnBudget
from ottla.broker.requests.response_cache import EncodedAnswers
from ottla.broker.tasks import Tasks
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
    from ottla.coordinators.runtime.shards import Shards
    from ottla.metrics.node import NodeMetrics
    from ottla.replication.fetch.sessions import FetchSessions
    from ottla.settings.broker import BrokerSettings


@dataclass(slots=True, kw_only=True)
class Services:
    """One node's parts. No handler keeps any of them."""

    node_id: int
    cluster_id: str
    # Those in force: replaced when a client changes one.
    settings: "BrokerSettings"
    clock: Clock
    entropy: Entropy
    publisher: Publisher
    replicas: Replicas
    appender: Appender
    flusher: Flusher
    checkpointer: Checkpointer
    cold_reads: ColdReads
    fetch_sessions: "FetchSessions"
    producer_ids: "ProducerIdBlocks"
    # Groups and their offsets, as far as this broker coordinates them.
    shards: "Shards"
    metrics: "NodeMetrics"
    logger: "Logger"
    # What may be done with the records of clients in one turn of the loop, and where the rest is.
    turn_budget: TurnBudget
    record_work: RecordWork
    # Work that no request waits for.
    tasks: Tasks
    # The API keys that ApiVersions offers, and what it says of features.
    served: frozenset[int]
    auto_creation: AutoCreation = field(default_factory=AutoCreation)
    # What Metadata said before.
    metadata_answers: EncodedAnswers = field(default_factory=EncodedAnswers)
    # None: everybody may do everything.
    authorizer: "Authorizer | None" = None
    # None: a client is told the address that it connected to.
    advertised: tuple[Endpoint, ...] | None = None

    @property
    def image(self) -> Image:
        return self.publisher.image

    @property
    def now_ms(self) -> int:
        return self.clock.wall_ms()
