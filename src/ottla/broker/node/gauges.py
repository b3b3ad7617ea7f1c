"""Refreshes the gauges of partitions, replicas and log directories once a second."""

import asyncio
from collections.abc import Iterable, Iterator

from ottla.broker.http.storage_health import StorageHealth, why_offline
from ottla.broker.node.cluster_readiness import ClusterReadiness
from ottla.broker.node.controller_gauges import ControllerGauges
from ottla.metadata.image import Image
from ottla.metadata.publisher import Publisher
from ottla.metrics.meters import BrokerMeter
from ottla.metrics.node import NodeMetrics
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.partition import Partition
from ottla.replication.replica import Replica
from ottla.replication.replicas import Replicas

PERIOD_S = 1.0
# The partitions per turn of the event loop: a broker may have ten thousand.
SLICE_PARTITIONS_MAX = 500


class Gauges:
    """A node's gauges, and the metrics per topic and per partition."""

    def __init__(
        self,
        *,
        metrics: NodeMetrics,
        replicas: Replicas,
        publisher: Publisher,
        storage_health: StorageHealth,
        readiness: ClusterReadiness | None = None,
    ) -> None:
        """`readiness` is that of a broker in a cluster."""
        self._metrics = metrics
        self._storage_health = storage_health
        self._readiness = readiness
        self._replicas = replicas
        self._publisher = publisher
        self._controller = ControllerGauges(metrics.controller, publisher)
        self._topics: set[str] = set()
        self._shown: set[TopicPartition] = set()

    async def run(self) -> None:
        while True:
            await self.refresh()
            await asyncio.sleep(PERIOD_S)

    async def refresh(self) -> None:
        """Measures everything once."""
        found = BrokerMeter()
        shown = set()
        offline_logs: dict[TopicPartition, str] = {}
        lags: dict[int, int] = {}
        directories = self._replicas.directories
        for replicas in _slices(self._replicas):
            for replica in replicas:
                _count(replica, found, self._publisher.image)
                if self._readiness is not None:
                    self._readiness.examine(replica, is_offline=_is_offline(replica))
                _note_lag(replica.partition, lags)
                why = why_offline(replica, directories)
                if why is not None:
                    offline_logs[replica.name] = why
                if replica.log is not None:
                    shown.add(replica.name)
                    self._metrics.partitions.add(*replica.name, replica.log)
            await asyncio.sleep(0)
        for gone in self._shown - shown:
            self._metrics.partitions.remove(*gone)
        self._shown = shown
        found.offline_log_dirs = len(directories.offline)
        self._set_broker_gauges(found)
        self._metrics.max_lag_by_leader = lags
        self._storage_health.show(offline_logs)
        if self._readiness is not None:
            self._readiness.show()
        # Read once: the names of all topics are many.
        topics = tuple(self._publisher.image.topic_names)
        self._remove_deleted_topics(set(topics))
        await self._controller.refresh(topics)

    def _set_broker_gauges(self, found: BrokerMeter) -> None:
        meter = self._metrics.broker
        meter.leaders = found.leaders
        meter.partitions = found.partitions
        meter.under_replicated_partitions = found.under_replicated_partitions
        meter.under_min_isr_partitions = found.under_min_isr_partitions
        meter.at_min_isr_partitions = found.at_min_isr_partitions
        meter.offline_replicas = found.offline_replicas
        meter.offline_log_dirs = found.offline_log_dirs

    def _remove_deleted_topics(self, topics: set[str]) -> None:
        for gone in self._topics - topics:
            self._metrics.topics.remove(gone)
        self._topics = topics


def _slices(replicas: Iterable[Replica]) -> Iterator[list[Replica]]:
    """The replicas of this moment, in slices."""
    snapshot = list(replicas)
    for begin in range(0, len(snapshot), SLICE_PARTITIONS_MAX):
        yield snapshot[begin : begin + SLICE_PARTITIONS_MAX]


def _count(replica: Replica, meter: BrokerMeter, image: Image) -> None:
    partition = replica.partition
    meter.partitions += 1
    if _is_offline(replica):
        meter.offline_replicas += 1
    if partition.is_leader:
        meter.leaders += 1
        in_sync = len(partition.isr)
        record = image.partition(partition.topic_id, partition.index)
        # Replicas that a reassignment adds are not expected in sync yet.
        expected = len(partition.replicas) - (0 if record is None else len(record.adding))
        meter.under_replicated_partitions += in_sync < expected
        meter.under_min_isr_partitions += in_sync < partition.min_isr_in_force
        meter.at_min_isr_partitions += in_sync == partition.min_isr_in_force


def _is_offline(replica: Replica) -> bool:
    return replica.is_unusable or (replica.log is not None and replica.log.offline is not None)


def _note_lag(partition: Partition, lags: dict[int, int]) -> None:
    """Keeps the largest lag by leader."""
    if partition.leader is not None and not partition.is_leader:
        leader_id = partition.leader.broker_id
        lags[leader_id] = max(lags.get(leader_id, 0), partition.lag)
