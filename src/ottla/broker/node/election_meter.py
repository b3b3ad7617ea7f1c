"""Counts the leaders that this broker elects as the controller, and the time of their commits."""

from collections.abc import Callable, Iterable, Sequence

from ottla.metadata.image import Image
from ottla.metadata.records import Partition, Record
from ottla.metrics.meters import LeaderElectionMeter


def count_elections(image: Image, records: Iterable[Record]) -> int:
    """The partitions of the image that these records give another leader, or a new leader epoch.

    The first leader of a new partition was assigned, not elected.
    """
    count = 0
    for record in records:
        if isinstance(record, Partition) and record.leader is not None:
            before = image.partition(record.topic_id, record.index)
            count += before is not None and record.leader_epoch > before.leader_epoch
    return count


class ElectionMeter:
    """A `CommitMeter` of a publisher."""

    def __init__(self, meter: LeaderElectionMeter, steady_ns: Callable[[], int]) -> None:
        self._meter = meter
        self._steady_ns = steady_ns
        self._elections = 0
        self._begin_ns = 0

    def begin(self, image: Image, records: Sequence[Record]) -> None:
        self._elections = count_elections(image, records)
        self._begin_ns = self._steady_ns()

    def end(self) -> None:
        if self._elections:
            self._meter.count += self._elections
            self._meter.total_ms += (self._steady_ns() - self._begin_ns) / 1e6
