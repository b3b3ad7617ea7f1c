"""The leaders of a transaction's partitions in a cluster: this broker and others."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

from ottla.coordinators.txn.partition_leaders import (
    Codes,
    ComingCodes,
    PartitionLeaders,
    all_codes,
)
from ottla.metadata.image import Image
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.append.transaction_marker import TransactionMarker


class OtherBrokers(Protocol):
    """Has markers written by other brokers."""

    async def write(
        self, broker_id: int, marker: TransactionMarker, partitions: Sequence[TopicPartition]
    ) -> Codes:
        """The error code of each partition, also if the broker does not answer."""
        ...


class ClusterPartitionLeaders:
    """Markers of this broker's partitions are written at once, those of others by requests.

    `here` also answers for partitions that nobody leads.
    """

    def __init__(
        self,
        here: PartitionLeaders,
        others: OtherBrokers,
        node_id: int,
        image: Callable[[], Image],
    ) -> None:
        self._here = here
        self._others = others
        self._node_id = node_id
        self._image = image

    def write(
        self, marker: TransactionMarker, partitions: Iterable[TopicPartition]
    ) -> Codes | Awaitable[Codes]:
        image = self._image()
        here: list[TopicPartition] = []
        elsewhere: dict[int, list[TopicPartition]] = {}
        for name in partitions:
            leader_id = image.leader_id(*name)
            if leader_id is None or leader_id == self._node_id:
                here.append(name)
            else:
                elsewhere.setdefault(leader_id, []).append(name)
        written = self._here.write(marker, here)
        if not elsewhere:
            return written
        return ComingCodes(partial(self._settled, marker, written, elsewhere))

    async def _settled(
        self,
        marker: TransactionMarker,
        written: Codes | Awaitable[Codes],
        elsewhere: Mapping[int, Sequence[TopicPartition]],
    ) -> Codes:
        coming: list[Awaitable[Codes]] = [
            self._others.write(broker_id, marker, names) for broker_id, names in elsewhere.items()
        ]
        if isinstance(written, Mapping):
            return {**written, **await all_codes(coming)}
        return await all_codes([written, *coming])
