"""Which replicas may have lost records that they had, and when nothing is promised any more.

A cluster promises a committed record while fewer than `min.insync.replicas` of its holders have
lost power or their disk. A replica counts as a loser from its loss until an incarnation from after
the loss is in the ISR again: then it has fetched all committed records anew. When a loss makes the
number of losers reach `min.insync.replicas`, all records of the partition are excused, once.

Where every message is flushed before it is acknowledged, only those that were not acknowledged are
excused: all members of the ISR have an acknowledged record on their disks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.metadata.records import Partition
from ottla.protocol.primitives import Uuid

PartitionKey = tuple[Uuid, int]


@dataclass(slots=True)
class _Losers:
    """Of one partition. `zxid_of_loss` is by broker: incarnations after it have a later epoch."""

    min_isr: int
    zxid_of_loss: dict[int, int] = field(default_factory=dict)


class Losses:
    """Follows the partition records and the power losses. Both dicts count, by partition."""

    def __init__(self, *, is_flushed: bool = False) -> None:
        self.is_flushed = is_flushed
        self.newest: dict[PartitionKey, Partition] = {}
        self.excused: dict[PartitionKey, int] = {}
        # How often only acknowledged records were left to be promised.
        self.weakened: dict[PartitionKey, int] = {}
        # The leader epoch of each partition when something was promised no more for the last time.
        self._lost_in: dict[PartitionKey, int] = {}
        self._losers: dict[PartitionKey, _Losers] = {}
        self._deleted: set[Uuid] = set()

    def recorded(self, record: Partition) -> None:
        """A record of the metadata log, in any order, any number of times."""
        key = record.topic_id, record.index
        before = self.newest.get(key)
        if record.topic_id in self._deleted:
            return
        if before is not None and before.partition_epoch >= record.partition_epoch:
            return
        self.newest[key] = record
        in_force = min(record.min_isr, len(record.replicas))
        losers = self._losers.setdefault(key, _Losers(in_force))
        # A record that was committed under a smaller one has fewer holders.
        losers.min_isr = min(losers.min_isr, in_force)
        for broker_id in [each for each in losers.zxid_of_loss if each not in record.replicas]:
            del losers.zxid_of_loss[broker_id]
        for broker_id, broker_epoch in record.isr:
            if broker_epoch > losers.zxid_of_loss.get(broker_id, broker_epoch):
                del losers.zxid_of_loss[broker_id]

    def deleted(self, topic_id: Uuid) -> None:
        """Nothing is promised of the topic any more, and nothing is lost with it."""
        self._deleted.add(topic_id)
        for key in [key for key in self.newest if key[0] == topic_id]:
            del self.newest[key]
            del self._losers[key]

    def power_lost(self, broker_id: int, zxid: int) -> list[PartitionKey]:
        """A broker's machine has lost power after this transaction.

        The partitions that are excused, or of which only acknowledged records are promised.
        """
        counts = self.weakened if self.is_flushed else self.excused
        excused = []
        for key, record in self.newest.items():
            if not _may_hold(record, broker_id):
                continue
            losers = self._losers[key]
            losers.zxid_of_loss[broker_id] = zxid
            if len(losers.zxid_of_loss) >= losers.min_isr:
                counts[key] = counts.get(key, 0) + 1
                self._lost_in[key] = record.leader_epoch
                excused.append(key)
        return excused

    def may_be_damaged(self, key: PartitionKey, broker_id: int) -> bool:
        """Whether another member of the ISR has all records, and nobody has lost any."""
        record = self.newest.get(key)
        others = [] if record is None else [each for each in record.isr if each[0] != broker_id]
        return bool(others) and not self._losers[key].zxid_of_loss

    def damaged(self, key: PartitionKey, broker_id: int, zxid: int) -> None:
        """The log of one replica was damaged after this transaction, where that may be."""
        if _may_hold(self.newest[key], broker_id):
            self._losers[key].zxid_of_loss[broker_id] = zxid

    def is_loser(self, key: PartitionKey, broker_id: int) -> bool:
        losers = self._losers.get(key)
        return losers is not None and broker_id in losers.zxid_of_loss

    def excuses(self, key: PartitionKey) -> int:
        """How often nothing was promised any more, also of acknowledged records."""
        return self.excused.get(key, 0)

    def may_be_lost(self, key: PartitionKey, leader_epoch: int) -> bool:
        """Whether a leader of this epoch may have committed what is promised no more.

        What later leaders commit is a promise, also where they are deposed and do not know it.
        """
        return key in self._lost_in and leader_epoch <= self._lost_in[key]

    def interruptions(self, key: PartitionKey) -> int:
        """How often something was promised no more."""
        return self.excuses(key) + self.weakened.get(key, 0)


def _may_hold(record: Partition, broker_id: int) -> bool:
    """Whether a replica may have records that others rely on."""
    members: Mapping[int, int] = dict((*record.isr, *record.elr))
    return broker_id in members or broker_id in record.unclean
