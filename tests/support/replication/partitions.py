"""Partitions of one broker on a simulated disk, without the broker around them."""

from dataclasses import replace
from typing import Any

from ottla.metadata import records
from ottla.metadata.image import Image
from ottla.metadata.store import Entry
from ottla.metadata.values import Incarnation
from ottla.protocol.batch import MarkerKind, read_header
from ottla.protocol.primitives import Uuid
from ottla.replication.append.appender import Appender, AppendResult
from ottla.replication.append.transaction_marker import TransactionMarker
from ottla.replication.local_broker import LocalBroker
from ottla.replication.lookup import TopicKey, find_replica
from ottla.replication.replica import Replica, RetentionRules, TopicRules
from ottla.replication.replicas import Replicas
from ottla.storage.admission.rules import AdmissionRules
from ottla.storage.directory.directories import LogDirectories
from ottla.storage.directory.directory_opening import open_directory
from ottla.storage.log.config import LogConfig
from tests.sim.seams.clock import SimClock
from tests.sim.seams.disk import SimDisk
from tests.sim.seams.entropy import SimEntropy
from tests.support.broker.produce_and_fetch import NOW_MS, batch

ME = Incarnation(1, 10)
OTHER = Incarnation(2, 20)
RULES = TopicRules(
    admission=AdmissionRules(),
    log=LogConfig(),
    retention=RetentionRules(
        retention_ms=-1, retention_bytes=-1, deletes=True, file_delete_delay_ms=0
    ),
)


def topic_id(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


class Partitions:
    """A metadata log in memory, and the replicas that follow it. The first topic has id 1."""

    def __init__(self, rules: TopicRules = RULES, paths: tuple[str, ...] = ("/data",)) -> None:
        self.clock = SimClock()
        self.disk = SimDisk(clock=self.clock)
        self.image = Image()
        self.rules = rules
        files = self.disk.process()
        for path in paths:
            files.make_dir(path)
        directories = [
            open_directory(
                files,
                path,
                cluster_id="tests",
                node_id=ME.broker_id,
                directory_id=Uuid(bytes(range(number, number + 16))),
                config_of=lambda _: self.rules.log,
                clock=self.clock,
            )
            for number, path in enumerate(paths)
        ]
        self.replicas = Replicas(
            directories=LogDirectories(directories, {}),
            me=LocalBroker(ME.broker_id, "me", ME),
            rules_of=lambda _image, _topic: self.rules,
            entropy=SimEntropy(),
            start_writeback=lambda _file, _position, _size: True,
        )
        self.appender = Appender(self.replicas.create_log, self.replicas.directories)
        self._topics = 0

    def commit(self, *changes: records.Record) -> Entry:
        entry = Entry(self.image.offset + 1, changes)
        self.image.replay(entry)
        self.replicas.follow(self.image, entry)
        return entry

    def create(
        self,
        name: str = "events",
        partitions: int = 1,
        *,
        isr: tuple[Incarnation, ...] = (ME,),
        min_isr: int = 1,
        leader: Incarnation = ME,
        replicas: tuple[int, ...] = (),
    ) -> Replica:
        """A new topic; its first partition. The replicas are those of the ISR unless given."""
        self._topics += 1
        created = [
            records.Partition(
                topic_id=topic_id(self._topics),
                index=index,
                replicas=replicas or tuple(member.broker_id for member in isr),
                leader=leader,
                leader_epoch=self.image.first_epoch(name),
                isr=isr,
                min_isr=min_isr,
                partition_epoch=0,
            )
            for index in range(partitions)
        ]
        self.commit(records.Topic(name, topic_id(self._topics)), *created)
        return self.find(name)

    def change(self, replica: Replica, **fields: Any) -> None:
        """The next record of a partition: the epochs go as they must."""
        before = self.image.partition(replica.partition.topic_id, replica.name.partition)
        assert before is not None
        leader = fields.get("leader", before.leader)
        self.commit(
            replace(
                before,
                **fields,
                partition_epoch=before.partition_epoch + 1,
                leader_epoch=before.leader_epoch + (leader != before.leader),
            )
        )

    def delete(self, replica: Replica) -> None:
        partition = replica.partition
        self.commit(
            records.DeletedName(replica.name.topic, partition.leader_epoch + 1),
            records.TopicDeleted(partition.topic_id, replica.name.topic),
        )

    def find(self, topic: TopicKey, index: int = 0) -> Replica:
        return find_replica(self.replicas, self.image, topic, index)

    def append(self, replica: Replica, *values: bytes, **fields: Any) -> AppendResult:
        """Appends a batch of these values as the leader. Its transaction counts as verified."""
        sent = memoryview(batch(*values, **fields))
        header, leader_epoch = read_header(sent), replica.partition.leader_epoch
        guard = None
        if header.is_transactional:
            guard = replica.verifications.begin(header.producer_id, 0, 0, leader_epoch)
        try:
            return self.appender.append(
                replica,
                sent,
                acks=1,
                transactional_id_given=True,
                now_ms=self.clock.wall_ms(),
                guard=guard,
            )
        finally:
            if guard is not None:
                replica.verifications.end(guard, is_retried=False)

    def end_transaction(self, replica: Replica, kind: MarkerKind, producer_id: int) -> None:
        """What a coordinator writes; committed at once."""
        marker = TransactionMarker(producer_id, 0, kind, coordinator_epoch=0)
        self.appender.append_marker(replica, marker, now_ms=NOW_MS)
