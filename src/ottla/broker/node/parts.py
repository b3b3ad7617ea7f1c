"""Composes the parts of a node. Starts none of them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ottla.broker.http.cluster_health import ClusterHealth
from ottla.broker.http.storage_health import StorageHealth
from ottla.broker.inter_broker.inter_broker import InterBroker, make_inter_broker
from ottla.broker.inter_broker.shared_connection import ChannelParts
from ottla.broker.net.connections import Connections
from ottla.broker.node.cluster_readiness import ClusterReadiness
from ottla.broker.node.context import NodeContext
from ottla.broker.node.coordinators import make_coordinators
from ottla.broker.node.dynamic_settings import cleaner_rules, connection_limits, tick_rules
from ottla.broker.node.gauges import Gauges
from ottla.broker.node.log_dirs import rules_of
from ottla.broker.requests.producer_ids import ProducerIdBlocks
from ottla.broker.requests.record_work import RecordWork, TurnBudget
from ottla.broker.requests.services import (
    CoordinatorServices,
    Identity,
    MetadataServices,
    PartitionServices,
    RecordServices,
    Services,
)
from ottla.broker.requests.turn_queue import TurnQueue
from ottla.coordinators.group.coordinator import GroupCoordinator
from ottla.coordinators.txn.coordinator import TransactionShards
from ottla.metadata.controller.producer_id_blocks import reserve_block
from ottla.metadata.controller_interface import Controller
from ottla.metadata.publisher import Publisher
from ottla.metadata.store import MetadataStore
from ottla.metadata.unclean_elections import UncleanElections
from ottla.replication.append.appender import Appender
from ottla.replication.append.early_writeback import EarlyWriteback
from ottla.replication.append.flusher import Flusher
from ottla.replication.fetch.cold_reads import ColdReads
from ottla.replication.fetch.follower_sessions import FollowerSessions
from ottla.replication.fetch.sessions import FetchSessions
from ottla.replication.housekeeping.checkpointer import Checkpointer, DeletedPartitions
from ottla.replication.housekeeping.log_cleaner import LogCleaner
from ottla.replication.housekeeping.log_moves import LogMoves
from ottla.replication.housekeeping.tick import Tick
from ottla.replication.local_broker import LocalBroker
from ottla.replication.replicas import Replicas
from ottla.replication.throttle import ReplicationThrottles
from ottla.settings.broker import BrokerSettings
from ottla.settings.table import network
from ottla.settings.table.replicas import REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND
from ottla.storage.directory.directories import LogDirectories


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts that serve clients, and those that run in the background."""

    services: Services
    groups: GroupCoordinator
    transactions: TransactionShards
    tick: Tick
    cleaner: LogCleaner
    connections: Connections
    gauges: Gauges

    def apply_settings(self, settings: BrokerSettings) -> None:
        """Applies changed settings. `Replicas` updates the rules of topics itself."""
        self.services.settings = settings
        self.tick.rules = tick_rules(settings)
        self.cleaner.rules = cleaner_rules(settings)
        self.connections.limits = connection_limits(settings)
        self.services.partitions.throttles.apply_settings(settings)


def load_replicas(
    context: NodeContext, directories: LogDirectories, me: LocalBroker, publisher: Publisher
) -> Replicas:
    """The replicas of the image's partitions. They follow the image from then on."""
    seams, logger = context.seams, context.logger
    replicas = Replicas(
        directories=directories,
        me=me,
        rules_of=partial(rules_of, context),
        entropy=seams.entropy,
        start_writeback=EarlyWriteback(seams.threads, context.tasks.spawn).start,
    )
    for stray in replicas.load(publisher.image):
        logger.warning("stray partition set aside", partition=str(stray))
    for replica in replicas:
        if replica.is_unusable and not directories.is_unusable(replica.name):
            why = "its log directory is missing"
            logger.error("log offline", partition=str(replica.name), error=why)
    publisher.subscribe(replicas.follow)
    return replicas


def connect_brokers(
    context: NodeContext,
    *,
    identity: Identity,
    publisher: Publisher,
    controller: Controller,
    broker_epoch: Callable[[], int],
) -> InterBroker | None:
    """The channels to other brokers, which follow the image; None without other brokers."""
    if identity.inter_broker_listener is None:
        return None
    seams = context.seams
    parts = ChannelParts(
        image=lambda: publisher.image,
        is_controller=lambda: publisher.is_controller,
        node_id=identity.node_id,
        listener=identity.inter_broker_listener,
        net=seams.net,
        entropy=seams.entropy,
        logger=context.logger,
        spawn=context.tasks.spawn,
        request_timeout_ms=context.settings[network.REQUEST_TIMEOUT_MS],
    )
    inter_broker = make_inter_broker(parts, controller, broker_epoch)
    publisher.subscribe(inter_broker.follow)
    return inter_broker


def make_parts(
    context: NodeContext,
    *,
    identity: Identity,
    publisher: Publisher,
    controller: Controller,
    replicas: Replicas,
    checkpointer: Checkpointer,
    home: str,
    store: MetadataStore,
    on_offline: Callable[[str, Exception], None],
    unclean_elections: UncleanElections,
    inter_broker: InterBroker | None = None,
) -> Parts:
    """Makes the parts. The coordinators follow the image and load their partitions."""
    seams = context.seams
    flusher = Flusher(seams.threads)
    turn_budget = TurnBudget()
    appender = Appender(replicas.create_log, replicas.directories, turn_budget)
    producer_ids = ProducerIdBlocks(
        inter_broker.own_requests.reserve_producer_ids
        if inter_broker
        else partial(controller.commit, reserve_block),
        context.tasks.spawn,
    )
    coordinators = make_coordinators(
        context,
        node_id=identity.node_id,
        publisher=publisher,
        replicas=replicas,
        appender=appender,
        flusher=flusher,
        producer_ids=producer_ids,
        inter_broker=inter_broker,
    )
    tick = _tick(context, replicas, flusher, checkpointer, on_offline)
    partitions = _partition_services(
        context, identity.node_id, publisher, replicas, appender, flusher, checkpointer, tick
    )
    services = _services(
        context,
        identity=identity,
        publisher=publisher,
        controller=controller,
        partitions=partitions,
        coordinators=coordinators.services,
        producer_ids=producer_ids,
        unclean_elections=unclean_elections,
        turn_budget=turn_budget,
        inter_broker=inter_broker,
    )
    connections = Connections(
        clock=seams.clock,
        threads=seams.threads,
        limits=connection_limits(context.dynamic_settings.current),
        metrics=context.metrics,
        logger=context.logger,
    )
    gauges = Gauges(
        metrics=context.metrics,
        replicas=replicas,
        publisher=publisher,
        storage_health=StorageHealth(context.health, replicas.directories, home),
        readiness=_readiness(context, store, publisher, replicas) if identity.has_peers else None,
    )
    return Parts(
        services=services,
        groups=coordinators.groups,
        transactions=coordinators.services.transactions,
        tick=tick,
        cleaner=_cleaner(context, partitions, tick),
        connections=connections,
        gauges=gauges,
    )


def _readiness(
    context: NodeContext, store: MetadataStore, publisher: Publisher, replicas: Replicas
) -> ClusterReadiness:
    return ClusterReadiness(
        health=ClusterHealth(context.health.ready),
        store=store,
        publisher=publisher,
        me=replicas.me,
        metrics=context.metrics,
        steady_ns=context.seams.clock.steady_ns,
    )


def _partition_services(
    context: NodeContext,
    node_id: int,
    publisher: Publisher,
    replicas: Replicas,
    appender: Appender,
    flusher: Flusher,
    checkpointer: Checkpointer,
    tick: Tick,
) -> PartitionServices:
    seams = context.seams
    return PartitionServices(
        replicas=replicas,
        appender=appender,
        flusher=flusher,
        checkpointer=checkpointer,
        cold_reads=ColdReads(seams.threads),
        fetch_sessions=FetchSessions(
            context.settings[network.MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS],
            seams.clock,
            seams.entropy,
        ),
        follower_sessions=FollowerSessions(seams.clock, seams.entropy),
        throttles=_throttles(context, node_id, publisher),
        log_moves=_log_moves(context, replicas, flusher, checkpointer, tick),
    )


def _throttles(context: NodeContext, node_id: int, publisher: Publisher) -> ReplicationThrottles:
    """The throttles of replication, which follow the image."""
    throttles = ReplicationThrottles(
        node_id, context.seams.clock.steady_ns, context.dynamic_settings.current
    )
    throttles.load(publisher.image)
    publisher.subscribe(throttles.follow)
    return throttles


def make_checkpointer(context: NodeContext, directories: LogDirectories) -> Checkpointer:
    """A checkpointer, which also removes deleted partitions from checkpoints, in a thread."""
    checkpointer = Checkpointer(context.seams.threads)
    directories.forget = DeletedPartitions(checkpointer, context.tasks.spawn).forget
    return checkpointer


def _tick(
    context: NodeContext,
    replicas: Replicas,
    flusher: Flusher,
    checkpointer: Checkpointer,
    on_offline: Callable[[str, Exception], None],
) -> Tick:
    return Tick(
        replicas=replicas,
        flusher=flusher,
        checkpointer=checkpointer,
        threads=context.seams.threads,
        clock=context.seams.clock,
        rules=tick_rules(context.dynamic_settings.current),
        problem=partial(_problem, context),
        solved=partial(_solved, context),
        offline=on_offline,
    )


def _log_moves(
    context: NodeContext,
    replicas: Replicas,
    flusher: Flusher,
    checkpointer: Checkpointer,
    tick: Tick,
) -> LogMoves:
    rate = REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND
    return LogMoves(
        replicas=replicas,
        flusher=flusher,
        checkpointer=checkpointer,
        threads=context.seams.threads,
        entropy=context.seams.entropy,
        bytes_per_second=lambda: context.dynamic_settings.current[rate],
        remove_later=tick.remove_later,
        problem=partial(_problem, context),
    )


def _cleaner(context: NodeContext, partitions: PartitionServices, tick: Tick) -> LogCleaner:
    seams = context.seams
    return LogCleaner(
        replicas=partitions.replicas,
        workers=seams.workers,
        flusher=partitions.flusher,
        threads=seams.threads,
        files=seams.files,
        clock=seams.clock,
        rules=cleaner_rules(context.dynamic_settings.current),
        meter=context.metrics.cleaner,
        event_log=context.logger,
        remove_later=tick.remove_later,
    )


def _services(
    context: NodeContext,
    *,
    identity: Identity,
    publisher: Publisher,
    controller: Controller,
    partitions: PartitionServices,
    coordinators: CoordinatorServices,
    producer_ids: ProducerIdBlocks,
    unclean_elections: UncleanElections,
    turn_budget: TurnBudget,
    inter_broker: InterBroker | None,
) -> Services:
    seams, dynamic_settings = context.seams, context.dynamic_settings
    return Services(
        settings=dynamic_settings.current,
        clock=seams.clock,
        entropy=seams.entropy,
        tasks=context.tasks,
        metrics=context.metrics,
        logger=context.logger,
        identity=identity,
        metadata=MetadataServices(
            publisher=publisher,
            producer_ids=producer_ids,
            unclean_elections=unclean_elections,
        ),
        controller=controller,
        partitions=partitions,
        records=RecordServices(
            turn_budget=turn_budget,
            work=RecordWork(
                seams.threads,
                context.tasks.spawn,
                lambda: dynamic_settings.current[network.QUEUED_MAX_REQUEST_BYTES],
            ),
            verified_appends=TurnQueue(),
        ),
        coordinators=coordinators,
        inter_broker=inter_broker,
    )


def _problem(context: NodeContext, where: str, error: Exception) -> None:
    context.logger.error("disk fault", repeats_of=where, where=where, error=str(error))


def _solved(context: NodeContext, where: str) -> None:
    context.logger.info("disk fault over", repeats_of=where, where=where)
