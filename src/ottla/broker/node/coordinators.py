"""Composes the coordinators of a node: of groups and of transactions."""

from typing import NamedTuple

from ottla.broker.inter_broker.inter_broker import InterBroker
from ottla.broker.inter_broker.marker_requests import MarkerRequests
from ottla.broker.inter_broker.verification_requests import VerificationRequests
from ottla.broker.node.context import NodeContext
from ottla.broker.node.group_coordinator import GroupEnvironment, group_coordinator
from ottla.broker.node.transaction_coordinator import TransactionEnvironment, transaction_shards
from ottla.broker.requests.producer_ids import ProducerIdBlocks
from ottla.broker.requests.services import CoordinatorServices
from ottla.coordinators.group.coordinator import GroupCoordinator
from ottla.coordinators.runtime.shards import ShardParts
from ottla.coordinators.txn.cluster_leaders import ClusterPartitionLeaders
from ottla.coordinators.txn.cluster_verifier import ClusterVerifier
from ottla.coordinators.txn.coordinator import LocalVerifier
from ottla.coordinators.txn.partition_leaders import LocalPartitionLeaders, PartitionLeaders
from ottla.coordinators.txn.verification import TransactionVerifier
from ottla.metadata.image import Image
from ottla.metadata.publisher import Publisher
from ottla.metadata.topic_names import CONSUMER_OFFSETS
from ottla.replication.append.appender import Appender
from ottla.replication.append.flusher import Flusher
from ottla.replication.replicas import Replicas
from ottla.settings.broker import BrokerSettings
from ottla.settings.table.transactions import TRANSACTION_PARTITION_VERIFICATION_ENABLE


class NodeCoordinators(NamedTuple):
    """The coordinators of a node, and their parts for handlers."""

    groups: GroupCoordinator
    services: CoordinatorServices


def make_coordinators(
    context: NodeContext,
    *,
    node_id: int,
    publisher: Publisher,
    replicas: Replicas,
    appender: Appender,
    flusher: Flusher,
    producer_ids: ProducerIdBlocks,
    inter_broker: InterBroker | None,
) -> NodeCoordinators:
    """The coordinators, which follow the image and load their partitions."""
    seams, metrics = context.seams, context.metrics
    parts = ShardParts(
        replicas=replicas,
        appender=appender,
        flusher=flusher,
        clock=seams.clock,
        threads=seams.threads,
        spawn=context.tasks.spawn,
    )

    def settings() -> BrokerSettings:
        return context.dynamic_settings.current

    def image() -> Image:
        return publisher.image

    groups = group_coordinator(
        GroupEnvironment(settings, image, metrics.groups), parts, context.logger
    )
    local_leaders = LocalPartitionLeaders(
        replicas, appender, flusher, seams.clock, {CONSUMER_OFFSETS: groups.shards}
    )
    leaders: PartitionLeaders = local_leaders
    if inter_broker is not None:
        markers = MarkerRequests(inter_broker.marker_channels, context.tasks.spawn)
        leaders = ClusterPartitionLeaders(local_leaders, markers, node_id, image)
    transactions = transaction_shards(
        TransactionEnvironment(settings, image, producer_ids, metrics.transactions, context.logger),
        leaders,
        parts,
    )

    def is_verified() -> bool:
        return settings()[TRANSACTION_PARTITION_VERIFICATION_ENABLE]

    verifier: TransactionVerifier = LocalVerifier(transactions, is_verified)
    if inter_broker is not None:
        others = VerificationRequests(inter_broker.verification_channels, context.tasks.spawn)
        verifier = ClusterVerifier(verifier, others, transactions, node_id, image, is_verified)
    for coordinator in (groups, transactions):
        publisher.subscribe(coordinator.follow)
        coordinator.start(publisher.image)
    services = CoordinatorServices(
        groups=groups.shards,
        transactions=transactions,
        verifier=verifier,
        partition_leaders=local_leaders,
    )
    return NodeCoordinators(groups, services)
