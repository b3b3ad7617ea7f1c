"""All replicas of this broker, by topic id and by topic name. They follow the metadata log."""

from collections.abc import Callable, Iterator, Mapping, Sequence, ValuesView
from contextlib import suppress
from functools import cache

from ottla.errors import LogOffline, StorageError
from ottla.metadata.image import Image
from ottla.metadata.records import Broker, Config, TopicDeleted
from ottla.metadata.records import Partition as PartitionRecord
from ottla.metadata.store import Entry
from ottla.metadata.values import ResourceKind
from ottla.protocol.primitives import NO_LEADER_EPOCH, Uuid
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.isr import IsrCandidates
from ottla.replication.local_broker import LocalBroker
from ottla.replication.partition import Partition
from ottla.replication.replica import Replica, TopicRules
from ottla.seams.entropy import Entropy
from ottla.storage.directory.directories import LogDirectories, StoredPartition
from ottla.storage.log.log import Log
from ottla.storage.log.writeback import StartWriteback

RulesOf = Callable[[Image, str], TopicRules]


class Replicas:
    """`load` fills the table at a start, `follow` applies each entry of the metadata log."""

    def __init__(
        self,
        *,
        directories: LogDirectories,
        me: LocalBroker,
        rules_of: RulesOf,
        entropy: Entropy,
        start_writeback: StartWriteback,
    ) -> None:
        self.directories = directories
        directories.checkpoint_high_watermarks(self._high_watermark_of)
        # The partitions of this broker whose ISR may have to change.
        self.isr_candidates = IsrCandidates()
        # (file.delete.delay.ms, path) of deleted partitions.
        self._leftovers: list[tuple[int, str]] = []
        self.me = me
        self._rules_of = rules_of
        self._entropy = entropy
        self._start_writeback = start_writeback
        self._by_id: dict[tuple[Uuid, int], Replica] = {}
        # By topic name and by topic id. No name equals an id: one is text, the other bytes.
        self.by_key: dict[tuple[str | bytes, int], Replica] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Replica]:
        return iter(self._by_id.values())

    @property
    def all(self) -> ValuesView[Replica]:
        return self._by_id.values()

    def get(self, topic_id: Uuid, index: int) -> Replica | None:
        return self._by_id.get((topic_id, index))

    def named(self, topic: str, index: int) -> Replica | None:
        return self.by_key.get((topic, index))

    # Following the metadata log

    def load(self, image: Image) -> list[TopicPartition]:
        """Takes the image at a start. Returns the stray partitions, which are set aside.

        Partitions whose log is in a missing log directory are unusable.
        """
        stored_partitions = self.directories.stored_partitions()
        claimed = {each.partition for each in stored_partitions if each.topic_id is not None}
        strays = [
            each
            for each in stored_partitions
            if not self._is_known(image, each)
            or (each.topic_id is None and each.partition in claimed)
        ]
        for stray in strays:
            self.directories.set_aside(stray, self._unique())
        known = image.brokers.get(self.me.broker_id)
        if known is not None:
            self.me.follow(known)
        for topic_name in sorted(image.topic_names):
            topic = image.topic(topic_name)
            if topic is not None:
                rules = self._rules_of(image, topic_name)
                for record in image.partitions(topic.topic_id):
                    self._assign(topic_name, record, rules)
        empty = {key for key, replica in self._by_id.items() if self._is_empty(replica)}
        for key in self.directories.settle_placements(empty, self._by_id.__contains__):
            self._by_id[key].is_unusable = True
        return [stray.partition for stray in strays]

    def follow(self, image: Image, entry: Entry) -> None:
        """Applies one entry of the metadata log."""
        reset: set[str] = set()
        deleted: set[Uuid] = set()
        # The partitions of a new topic come in one entry and share their rules.
        rules = cache(lambda topic: self._rules_of(image, topic))
        for record in entry.records:
            match record:
                case PartitionRecord():
                    # A new partition must not find the log of a deleted one of its name.
                    self._drop_topics(deleted)
                    topic = image.topic_by_id(record.topic_id)
                    if topic is not None:
                        self._assign(topic.name, record, rules(topic.name))
                case TopicDeleted():
                    deleted.add(record.topic_id)
                case Broker():
                    self.me.follow(record)
                case Config(kind=ResourceKind.TOPIC):
                    reset.add(record.name)
                case Config(kind=ResourceKind.BROKER):
                    # A broker's settings are those of all topics that do not set them.
                    reset.update(image.topic_names)
                case _:
                    pass
        self._drop_topics(deleted)
        if reset:
            self._refresh_rules({topic: rules(topic) for topic in reset})

    def lose_session(self, broker_epoch: int) -> None:
        """The broker's session of this epoch has ended: it leads nothing until the next one."""
        self.me.lose_session(broker_epoch)
        for replica in self.all:
            if replica.partition.is_leader:
                replica.partition.resign()
                replica.leadership_lost()

    def _assign(self, topic: str, record: PartitionRecord, rules: TopicRules) -> None:
        replica = self._by_id.get((record.topic_id, record.index))
        if self.me.broker_id not in record.replicas:
            if replica is not None:
                self._remove([replica])
            return
        if replica is None:
            replica = self._add(topic, record, rules)
        self._take(replica, record)

    @staticmethod
    def _take(replica: Replica, record: PartitionRecord) -> None:
        partition, before = replica.partition, replica.high_watermark
        led, leadership = partition.is_leader, (partition.leader, partition.leader_epoch)
        begins = partition.assign(record, replica.end_offset)
        if led and (begins or not partition.is_leader):
            replica.leadership_lost()
        if replica.log is not None:
            # A log that is offline gets its epoch when it is opened again.
            with suppress(LogOffline):
                if begins:
                    replica.log.begin_epoch(record.leader_epoch)
                elif not partition.is_leader:
                    # An epoch in which it led and wrote nothing is not one of its log.
                    replica.log.truncate(replica.log.end_offset)
        if replica.high_watermark > before:
            replica.high_watermark_moved(before)
        if replica.commits.waiters and (error := replica.why_not_committed()):
            replica.commits.fail(error)
        if leadership != (partition.leader, partition.leader_epoch):
            replica.wake_all()
        else:
            # Followers learn nothing from another ISR: with a broker's death thousands change.
            replica.waiting.wake_all()

    def _add(self, topic: str, record: PartitionRecord, rules: TopicRules) -> Replica:
        name = TopicPartition(topic, record.index)
        log = self.directories.get(name)
        if log is not None:
            self.directories.write_topic_id(name, record.topic_id)
            log.config = rules.log
            log.writeback.start = self._start_writeback
        partition = Partition(record.topic_id, record.index, self.me)
        if log is not None:
            partition.high_watermark = min(self.directories.high_watermark(name), log.end_offset)
        replica = Replica(name, partition, rules, log)
        replica.isr_candidates = self.isr_candidates
        replica.is_unusable = self.directories.is_unusable(name)
        self._by_id[record.topic_id, record.index] = replica
        self.by_key[topic, record.index] = self.by_key[record.topic_id, record.index] = replica
        return replica

    def _drop_topics(self, deleted: set[Uuid]) -> None:
        """Removes the partitions of these topics with one checkpoint. Empties `deleted`."""
        if not deleted:
            return
        dropped = [each for each in self.all if each.partition.topic_id in deleted]
        deleted.clear()
        self._remove(dropped)

    def _remove(self, dropped: Sequence[Replica]) -> None:
        """Removes replicas that this broker no longer has. It stops leading them first."""
        for replica in dropped:
            replica.partition.resign()
            replica.leadership_lost()
        for replica in dropped:
            topic_id, index = replica.partition.topic_id, replica.name.partition
            del self._by_id[topic_id, index]
            del self.by_key[replica.name]
            del self.by_key[topic_id, index]
        kept = [each for each in dropped if each.log is not None or each.is_unusable]
        if kept:
            # Readers get the longest file.delete.delay.ms of them.
            delay_ms = max(each.rules.retention.file_delete_delay_ms for each in kept)
            left = self.directories.delete([each.name for each in kept], self._unique())
            self._leftovers += [(delay_ms, path) for path in left]
        for replica in kept:
            replica.log = None

    def _refresh_rules(self, rules: Mapping[str, TopicRules]) -> None:
        """Applies changed topic settings."""
        for replica in self.all:
            if replica.name.topic in rules:
                replica.rules = rules[replica.name.topic]
                if replica.log is not None:
                    replica.log.config = replica.rules.log

    def take_leftovers(self) -> list[tuple[int, str]]:
        """The paths of deleted partitions, each with the milliseconds until its removal."""
        leftovers, self._leftovers = self._leftovers, []
        return leftovers

    # Logs

    @staticmethod
    def _is_empty(replica: Replica) -> bool:
        return replica.log is None and not replica.is_unusable

    def _high_watermark_of(self, name: TopicPartition) -> int | None:
        replica = self.by_key.get(name)
        return None if replica is None else replica.partition.high_watermark

    def create_log(self, replica: Replica) -> Log:
        """Creates the log of a partition that this broker leads.

        OSError or StorageError if the disk refuses.
        """
        log = self.create_followers_log(replica, 0)
        log.begin_epoch(replica.partition.leader_epoch)
        return log

    def create_followers_log(self, replica: Replica, start_offset: int) -> Log:
        """As `create_log`, for a follower, whose leader's log starts at `start_offset`."""
        if replica.is_unusable:
            raise StorageError(f"{replica.name} could not be opened")
        log = self.directories.create(replica.name, replica.partition.topic_id, start_offset)
        log.config = replica.rules.log
        log.writeback.start = self._start_writeback
        replica.log = log
        return log

    def _unique(self) -> str:
        return self._entropy.token(16).hex()

    def _is_known(self, image: Image, stored: StoredPartition) -> bool:
        """Whether the image has a stored partition, with a replica on this broker."""
        name = stored.partition
        topic = image.topic(name.topic)
        record = None if topic is None else image.partition(topic.topic_id, name.partition)
        if topic is None or record is None or self.me.broker_id not in record.replicas:
            return False
        if stored.topic_id is not None:
            return stored.topic_id == topic.topic_id
        # Its id was lost with the power. An earlier topic of this name had lower epochs.
        log = stored.directory.logs.get(name)
        latest = NO_LEADER_EPOCH if log is None else log.epochs.latest_epoch
        return latest == NO_LEADER_EPOCH or latest >= image.deleted_names.get(name.topic, 0)
