"""AlterPartition and ReportOfflineLogs on the controller: the wire, with decisions of the test."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ottla.broker.handlers import report_offline_logs
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller import isr_changes
from ottla.metadata.controller.isr_changes import AskedIsr
from ottla.metadata.image import Image
from ottla.metadata.records import Partition as PartitionRecord
from ottla.metadata.values import Incarnation, PartitionId
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    Partition,
    Topic,
)
from ottla.protocol.messages.report_offline_logs import ReportOfflineLogsRequest
from ottla.protocol.messages.report_offline_logs import Topic as OfflineTopic
from ottla.protocol.primitives import Uuid
from tests.support.broker.cluster import BROKERS_PORT, Cluster, with_cluster
from tests.support.broker.simulated_broker import create, new_topic

NONE = ErrorCode.NONE


class Scene:
    """A cluster with a topic of two partitions, and what its controller was asked."""

    def __init__(self, cluster: Cluster, topic_id: Uuid) -> None:
        self.topic_id = topic_id
        self.services = cluster.services(1)
        self.epochs = {each: cluster.broker_epoch(each) for each in (1, 2)}
        self.asked: list[tuple[Incarnation, AskedIsr]] = []
        self.offline: list[tuple[int, list[PartitionId]]] = []
        self.refusal: PeerError | None = None
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(isr_changes, "altered", self._altered)
        self.patch.setattr(report_offline_logs, "logs_offline", self._logs_offline)

    def partition(self, index: int) -> PartitionRecord:
        found = self.services.image.partition(self.topic_id, index)
        assert found is not None
        return found

    def request(self, *indexes: int, version: int = 3, epoch: int | None = None) -> Any:
        isr: dict[str, Any] = {"new_isr": (1, 2)}
        if version >= 3:
            members = [
                BrokerState(broker_id=each, broker_epoch=at) for each, at in self.epochs.items()
            ]
            isr = {"new_isr_with_epochs": tuple(members)}
        partitions = tuple(
            Partition(partition_index=index, leader_epoch=0, partition_epoch=0, **isr)
            for index in indexes
        )
        return AlterPartitionRequest(
            broker_id=2,
            broker_epoch=self.epochs[2] if epoch is None else epoch,
            topics=(Topic(topic_id=self.topic_id, partitions=partitions),),
        )

    def _altered(self, image: Image, requester: Incarnation, asked: AskedIsr) -> PartitionRecord:
        self.asked.append((requester, asked))
        if self.refusal is not None and asked.partition == 1:
            raise self.refusal
        known = image.partition(asked.topic_id, asked.partition)
        if known is None:
            raise PeerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "none")
        if known.partition_epoch > 0:
            return known
        return replace(known, isr=asked.isr, partition_epoch=known.partition_epoch + 1)

    def _logs_offline(
        self, image: Image, broker_id: int, offline: Sequence[PartitionId]
    ) -> list[PartitionRecord]:
        self.offline.append((broker_id, list(offline)))
        return []


def tell(story: Any) -> None:
    async def begin(cluster: Cluster) -> None:
        client = await cluster.client(1)
        topic = new_topic("events", partitions=-1, factor=-1, assignments={0: (2, 1), 1: (2, 1)})
        (created,) = await create(client, topic)
        broker = await cluster.client(1, BROKERS_PORT)
        scene = Scene(cluster, created.topic_id)
        try:
            await story(scene, broker)
        finally:
            scene.patch.undo()

    with_cluster(begin)


@pytest.mark.parametrize("version", [2, 3])
def test_the_controller_commits_what_it_decides_and_answers_with_the_new_record(
    version: int,
) -> None:
    async def story(scene: Scene, broker: Any) -> None:
        answer = await broker.ask(scene.request(0, version=version), version)
        assert answer.error_code == NONE
        ((topic_id, (result,)),) = [(each.topic_id, each.partitions) for each in answer.topics]
        assert topic_id == scene.topic_id
        assert (result.partition_index, result.error_code, result.isr) == (0, NONE, (2, 1)[::-1])
        assert (result.leader_id, result.leader_epoch, result.partition_epoch) == (2, 0, 1)
        ((requester, asked),) = scene.asked
        members = tuple(Incarnation(each, at) for each, at in scene.epochs.items())
        assert requester == Incarnation(2, scene.epochs[2])
        assert asked == AskedIsr(scene.topic_id, 0, 0, 0, members)
        assert scene.partition(0).isr == members
        # An unchanged partition is answered, and not written again.
        offset = scene.services.image.offset
        answer = await broker.ask(scene.request(0, version=version), version)
        assert answer.topics[0].partitions[0].partition_epoch == 1
        assert scene.services.image.offset == offset

    tell(story)


def test_each_partition_is_changed_or_refused_by_itself() -> None:
    async def story(scene: Scene, broker: Any) -> None:
        scene.refusal = PeerError(ErrorCode.INELIGIBLE_REPLICA, "no")
        answer = await broker.ask(scene.request(1, 0, 0, 9))
        codes = [each.error_code for each in answer.topics[0].partitions]
        assert codes == [
            ErrorCode.INELIGIBLE_REPLICA,
            NONE,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert [scene.partition(index).partition_epoch for index in (0, 1)] == [1, 0]

    tell(story)


def test_a_controller_that_is_behind_the_leader_refuses_all_and_commits_nothing() -> None:
    async def story(scene: Scene, broker: Any) -> None:
        scene.refusal = PeerError(ErrorCode.NOT_CONTROLLER, "later")
        answer = await broker.ask(scene.request(0, 1))
        assert (answer.error_code, answer.topics) == (ErrorCode.NOT_CONTROLLER, ())
        assert scene.partition(0).partition_epoch == 0

    tell(story)


def test_an_earlier_incarnation_changes_nothing() -> None:
    async def story(scene: Scene, broker: Any) -> None:
        answer = await broker.ask(scene.request(0, epoch=scene.epochs[2] - 1))
        assert (answer.error_code, scene.asked) == (ErrorCode.STALE_BROKER_EPOCH, [])
        topic = OfflineTopic(topic_id=scene.topic_id, partition_indexes=(0, 1))
        stale = ReportOfflineLogsRequest(
            broker_id=2, broker_epoch=scene.epochs[2] - 1, topics=(topic,)
        )
        assert (await broker.ask(stale)).error_code == ErrorCode.STALE_BROKER_EPOCH
        assert scene.offline == []
        current = ReportOfflineLogsRequest(
            broker_id=2, broker_epoch=scene.epochs[2], topics=(topic,)
        )
        assert (await broker.ask(current)).error_code == NONE
        ids = [PartitionId(scene.topic_id, index) for index in (0, 1)]
        assert scene.offline == [(2, ids)]

    tell(story)


def test_a_leader_shrinks_its_isr_and_a_follower_changes_nothing() -> None:
    async def story(scene: Scene, broker: Any) -> None:
        # The controller's own decisions.
        scene.patch.undo()
        before = scene.partition(0)
        assert [member.broker_id for member in before.isr] == [2, 1]

        def request(requester: int) -> AlterPartitionRequest:
            leader = BrokerState(broker_id=requester, broker_epoch=scene.epochs[requester])
            partition = Partition(
                partition_index=0,
                leader_epoch=before.leader_epoch,
                new_isr_with_epochs=(leader,),
                partition_epoch=before.partition_epoch,
            )
            return AlterPartitionRequest(
                broker_id=requester,
                broker_epoch=scene.epochs[requester],
                topics=(Topic(topic_id=scene.topic_id, partitions=(partition,)),),
            )

        (result,) = (await broker.ask(request(1))).topics[0].partitions
        assert result.error_code == ErrorCode.INVALID_REQUEST
        assert scene.partition(0) == before
        (result,) = (await broker.ask(request(2))).topics[0].partitions
        assert (result.error_code, result.isr, result.leader_id) == (NONE, (2,), 2)
        assert result.partition_epoch == before.partition_epoch + 1
        assert scene.partition(0).isr == (Incarnation(2, scene.epochs[2]),)
        # Asked again, as after a lost answer.
        (result,) = (await broker.ask(request(2))).topics[0].partitions
        assert result.error_code == ErrorCode.INVALID_UPDATE_VERSION

    tell(story)
