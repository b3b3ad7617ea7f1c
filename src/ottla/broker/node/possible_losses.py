"""Reports elections of leaders that may have lost records, on every broker of the cluster.

The partition's record says so itself (`possible_loss_epoch`), until all replicas are in sync again.
So every broker that applies it reports it, whatever becomes of the controller that decided it: by a
line of the log, a counter, and a warning of `/health`. The warning lasts as long as the record says
so. It does not make the broker unready: what is lost does not come back by waiting, and clients are
served. A broker that starts shows what its image says; it counts only what it then applies.
"""

from collections.abc import Callable

from ottla.broker.event_log import Logger
from ottla.broker.http.health import Condition, some_of
from ottla.metadata.image import Image
from ottla.metadata.records import Partition, TopicDeleted
from ottla.metadata.store import Entry
from ottla.metadata.values import PartitionId
from ottla.metrics.node import NodeMetrics
from ottla.protocol.topic_partition import TopicPartition

PART = "possible data loss"
# Limits the length of the page.
NAMED_PARTITIONS_MAX = 20


class PossibleLosses:
    """Follows the metadata log."""

    def __init__(
        self,
        metrics: NodeMetrics,
        warnings: Condition,
        logger: Logger,
        is_controller: Callable[[], bool],
    ) -> None:
        self._metrics = metrics
        self._warnings = warnings
        self._logger = logger
        self._is_controller = is_controller
        # The leader epochs of losses, of partitions that are not in sync since then.
        self._epochs: dict[PartitionId, int] = {}
        self._names: dict[PartitionId, TopicPartition] = {}

    def load(self, image: Image) -> None:
        """Takes the losses of the image, which happened before this broker started."""
        for name in sorted(image.topic_names):
            topic = image.topic(name)
            for partition in () if topic is None else image.partitions(topic.topic_id):
                if self._is_new(partition):
                    lost = self._add(partition, name)
                    self._logger.warning("possible data loss before the start", partition=str(lost))
        self._warn()

    def follow(self, image: Image, entry: Entry) -> None:
        """Reports the losses of an entry of the metadata log."""
        before = len(self._epochs)
        has_new = False
        for record in entry.records:
            if isinstance(record, Partition):
                has_new = self._take(image, record) or has_new
            elif isinstance(record, TopicDeleted) and self._epochs:
                self._forget(record)
        if has_new or len(self._epochs) != before:
            self._warn()

    def _take(self, image: Image, partition: Partition) -> bool:
        """Whether it is a new loss."""
        if partition.possible_loss_epoch is None:
            if self._epochs:
                self._remove(PartitionId(partition.topic_id, partition.index))
            return False
        topic = image.topic_by_id(partition.topic_id)
        if topic is None or not self._is_new(partition):
            return False
        name = self._add(partition, topic.name)
        self._logger.warning("possible data loss", partition=str(name))
        self._metrics.broker.possible_data_losses += 1
        if self._is_controller():
            self._metrics.controller.unclean_elections += 1
        return True

    def _is_new(self, partition: Partition) -> bool:
        epoch = partition.possible_loss_epoch
        known = self._epochs.get(PartitionId(partition.topic_id, partition.index))
        return epoch is not None and epoch != known

    def _add(self, partition: Partition, topic: str) -> TopicPartition:
        where = PartitionId(partition.topic_id, partition.index)
        self._epochs[where] = partition.possible_loss_epoch or 0
        name = self._names[where] = TopicPartition(topic, partition.index)
        return name

    def _remove(self, where: PartitionId) -> None:
        self._epochs.pop(where, None)
        self._names.pop(where, None)

    def _forget(self, deleted: TopicDeleted) -> None:
        for where in [each for each in self._epochs if each.topic_id == deleted.topic_id]:
            self._remove(where)

    def _warn(self) -> None:
        if not self._names:
            self._warnings.clear(PART)
            return
        names = [str(name) for name in sorted(self._names.values())]
        shown = some_of(names, NAMED_PARTITIONS_MAX)
        self._warnings.fail(
            PART, f"their leaders may have lost records, and not all replicas are in sync: {shown}"
        )
