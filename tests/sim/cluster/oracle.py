"""Checks of the metadata log, of every broker's image, and of who appends to which leader epoch.

The numbers are those of the invariants that a cluster keeps whatever happens:

1. Per (partition, leader epoch) at most one incarnation appends.
6. A leader is in the ISR. ISR, ELR and unclean replicas are disjoint subsets of the replicas. A
   partition with a live candidate is led.
7. Every broker's image is the fold of one prefix of one log. Controller epochs never decrease, a
   partition epoch rises by one.
11. Within a bound after the last fault every broker is up and every partition is led.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ottla.metadata.entry_codec import encode
from ottla.metadata.image import Image
from ottla.metadata.records import ControllerStarted, Partition, Record, TopicDeleted
from ottla.metadata.store import Entry
from ottla.metadata.values import BrokerState
from ottla.protocol.primitives import Uuid

PartitionKey = tuple[Uuid, int]


class InvariantBroken(AssertionError):
    """`number` is the invariant's."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"invariant {number}: {reason}")
        self.number = number


@dataclass(slots=True)
class _Tail:
    """The newest entry that any broker has applied, and the state that the next one must follow."""

    offset: int
    controller_epoch: int
    partitions: dict[PartitionKey, Partition]


class Oracle:
    """Its callbacks run inside brokers, where an error would be the broker's: `check` raises it."""

    def __init__(self) -> None:
        self.images: dict[str, Image] = {}
        self.entries = 0
        self.appends = 0
        self._failure: InvariantBroken | None = None
        self._digests: dict[int, bytes] = {}
        self._controller_epochs: dict[str, int] = {}
        self._writers: dict[tuple[PartitionKey, int], str] = {}
        self._tail: _Tail | None = None

    def check(self) -> None:
        """Raises the first violation, if there was one."""
        if self._failure is not None:
            raise self._failure

    # Callbacks

    def loaded(self, process: str, image: Image) -> None:
        """A process has built its image anew."""
        self._guard(lambda: self._take_image(process, image, _all_partitions(image)))

    def applied(self, process: str, image: Image, entry: Entry) -> None:
        """A process has applied an entry."""
        self._guard(lambda: self._take_entry(entry))
        records = (record for record in entry.records if isinstance(record, Partition))
        self._guard(lambda: self._take_image(process, image, records))

    def appended(
        self, process: str, broker_id: int, partition: PartitionKey, leader_epoch: int
    ) -> None:
        """A process has appended to a partition as its leader."""
        self.appends += 1
        self._check_leads(process, broker_id, partition)
        first = self._writers.setdefault((partition, leader_epoch), process)
        if first != process:
            topic_id, index = partition
            self._fail(
                1,
                f"{process} appends to {topic_id}-{index} in leader epoch {leader_epoch}, in which"
                f" {first} has appended",
            )

    def _check_leads(self, process: str, broker_id: int, partition: PartitionKey) -> None:
        """A broker appends only to partitions of which its own image says that it leads them."""
        image = self.images.get(process)
        record = None if image is None else image.partition(*partition)
        leader = None if record is None or record.leader is None else record.leader.broker_id
        if image is not None and broker_id != leader:
            topic_id, index = partition
            self._fail(
                1,
                f"{process} appends to {topic_id}-{index}, which broker {leader} leads in its own"
                f" image of entry {image.offset}",
            )

    def _guard(self, step: Callable[[], None]) -> None:
        try:
            step()
        except InvariantBroken as broken:
            self._failure = self._failure or broken

    def _fail(self, number: int, reason: str) -> None:
        self._failure = self._failure or InvariantBroken(number, reason)

    # Images

    def _take_image(self, process: str, image: Image, partitions: Iterable[Partition]) -> None:
        self.images[process] = image
        digest = hashlib.blake2b(encode(image.snapshot().records), digest_size=16).digest()
        if self._digests.setdefault(image.offset, digest) != digest:
            raise InvariantBroken(
                7, f"the image of {process} at entry {image.offset} is not that of others"
            )
        before = self._controller_epochs.get(process, 0)
        if image.controller_epoch < before:
            raise InvariantBroken(
                7, f"the controller epoch of {process} falls to {image.controller_epoch}"
            )
        self._controller_epochs[process] = image.controller_epoch
        for partition in partitions:
            check_partition(partition)

    # Entries

    def _take_entry(self, entry: Entry) -> None:
        """Each entry once, by whichever broker applies it first; a jump begins a new tail."""
        tail = self._tail
        if tail is not None and entry.offset <= tail.offset:
            return
        self.entries += 1
        if tail is None or entry.offset != tail.offset + 1:
            tail = self._tail = _Tail(entry.offset, 0, {})
        tail.offset = entry.offset
        for record in entry.records:
            self._take_record(tail, record)

    def _take_record(self, tail: _Tail, record: Record) -> None:
        if isinstance(record, ControllerStarted):
            if record.epoch <= tail.controller_epoch:
                raise InvariantBroken(
                    7, f"controller epoch {record.epoch} follows {tail.controller_epoch}"
                )
            tail.controller_epoch = record.epoch
        elif isinstance(record, Partition):
            key = record.topic_id, record.index
            before = tail.partitions.get(key)
            if before is not None:
                check_successor(before, record)
            tail.partitions[key] = record
        elif isinstance(record, TopicDeleted):
            tail.partitions = {
                key: partition
                for key, partition in tail.partitions.items()
                if key[0] != record.topic_id
            }


def check_partition(partition: Partition) -> None:
    """Invariant 6 of one record."""
    name = f"{partition.topic_id}-{partition.index}"
    if partition.leader is not None and partition.leader not in partition.isr:
        raise InvariantBroken(6, f"{name}: the leader {partition.leader} is not in the ISR")
    members = [
        *(member.broker_id for member in partition.isr),
        *(member.broker_id for member in partition.elr),
        *partition.unclean,
    ]
    if len(set(members)) != len(members):
        raise InvariantBroken(6, f"{name}: ISR, ELR and unclean replicas overlap: {members}")
    if not set(members) <= set(partition.replicas):
        raise InvariantBroken(6, f"{name}: {members} are not all of {partition.replicas}")


def check_successor(before: Partition, after: Partition) -> None:
    """Invariant 7 of two records of a partition."""
    name = f"{after.topic_id}-{after.index}"
    if after.partition_epoch != before.partition_epoch + 1:
        raise InvariantBroken(
            7, f"{name}: partition epoch {after.partition_epoch} follows {before.partition_epoch}"
        )
    is_new_epoch = after.leader != before.leader or not set(before.replicas) <= set(after.replicas)
    if after.leader_epoch != before.leader_epoch + is_new_epoch:
        raise InvariantBroken(
            7, f"{name}: leader epoch {after.leader_epoch} follows {before.leader_epoch}"
        )


def check_settled(images: dict[str, Image]) -> None:
    """Invariants 6 and 7 in peace: all images are one, and every partition with a candidate is led.

    All brokers must be up.
    """
    first = next(iter(images.values()))
    for process, image in images.items():
        if image.offset != first.offset or image != first:
            raise InvariantBroken(7, f"the image of {process} differs in peace")
    live = {
        broker.incarnation for broker in first.brokers.values() if broker.state is BrokerState.UP
    }
    for partition in _all_partitions(first):
        name = f"{partition.topic_id}-{partition.index}"
        candidates = live.intersection(partition.isr + partition.elr)
        if partition.leader is None and candidates:
            raise InvariantBroken(6, f"{name} has no leader, and candidates: {sorted(candidates)}")
        if partition.leader is not None and partition.leader not in live:
            raise InvariantBroken(6, f"{name} is led by {partition.leader}, which is gone")


def not_serving(image: Image, broker_ids: Iterable[int]) -> list[str]:
    """Invariant 11: the brokers that are not up, and the partitions that no live broker leads."""
    up = {
        broker.broker_id: broker.incarnation
        for broker in image.brokers.values()
        if broker.state is BrokerState.UP
    }
    brokers = [f"broker {broker_id}" for broker_id in broker_ids if broker_id not in up]
    live = list(up.values())
    return brokers + [
        f"{partition.topic_id}-{partition.index}"
        for partition in _all_partitions(image)
        if partition.leader not in live
    ]


def _all_partitions(image: Image) -> list[Partition]:
    topics = (image.topic(name) for name in sorted(image.topic_names))
    return [
        partition
        for topic in topics
        if topic is not None
        for partition in image.partitions(topic.topic_id)
    ]
