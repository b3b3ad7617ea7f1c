"""Requests that a broker makes for itself: producer ids, ISR changes, topics that it needs.

Each is carried out here if this broker is the controller, else by the controller.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, cast

from ottla.broker.inter_broker.controller_channel import ControllerChannel, ControllerIsHere
from ottla.broker.inter_broker.forwarding import Forwarding
from ottla.broker.inter_broker.shared_connection import client_id_of
from ottla.client.errors import error_code
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.entry_packing import in_entries
from ottla.metadata.controller.isr_changes import AskedIsr, altered_partitions
from ottla.metadata.controller.offline_logs import logs_offline
from ottla.metadata.controller.producer_id_blocks import ProducerIdBlock, reserve_block
from ottla.metadata.controller.requesting_broker import require_current
from ottla.metadata.controller_interface import Controller
from ottla.metadata.image import Image
from ottla.metadata.records import Record
from ottla.metadata.values import Incarnation, PartitionId
from ottla.protocol.exchange import decode_response, encode_request
from ottla.protocol.framing import LENGTH_BYTES
from ottla.protocol.messages import APIS
from ottla.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from ottla.protocol.messages.alter_partition import BrokerState as IsrMember
from ottla.protocol.messages.alter_partition import Partition as AskedPartition
from ottla.protocol.messages.alter_partition import Topic as AskedTopic
from ottla.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse, Topic
from ottla.protocol.messages.report_offline_logs import (
    ReportOfflineLogsRequest,
    ReportOfflineLogsResponse,
)
from ottla.protocol.messages.report_offline_logs import Topic as OfflineTopic
from ottla.protocol.primitives import Uuid

CREATE_TOPICS = APIS[19]
# A client that waits for an id, or for its coordinator, asks again after this.
TIMEOUT_MS = 10_000


class TopicOutcome(NamedTuple):
    """The outcome of the creation of one topic."""

    name: str
    code: ErrorCode
    message: str | None


class OwnRequests:
    """`broker_epoch` returns the epoch of this broker's current registration."""

    def __init__(
        self,
        *,
        controller: Controller,
        channel: ControllerChannel,
        forwarding: Forwarding,
        node_id: int,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._controller = controller
        self._channel = channel
        self._forwarding = forwarding
        self._node_id = node_id
        self._broker_epoch = broker_epoch

    async def reserve_producer_ids(self) -> ProducerIdBlock:
        """A block of ids that nobody else gets, also if an answer was lost. PeerError."""
        while True:
            request = AllocateProducerIdsRequest(
                broker_id=self._node_id, broker_epoch=self._broker_epoch()
            )
            try:
                response: AllocateProducerIdsResponse = await self._channel.ask(
                    request, timeout_ms=TIMEOUT_MS
                )
            except ControllerIsHere:
                try:
                    return await self._controller.commit(reserve_block)
                except PeerError as error:
                    if error.code is not ErrorCode.NOT_CONTROLLER:
                        raise
                    continue
            if response.error_code != ErrorCode.NONE:
                raise PeerError(
                    error_code(response.error_code), "The controller gives no producer ids."
                )
            return ProducerIdBlock(response.producer_id_start, response.producer_id_len)

    async def report_offline_logs(self, partitions: Sequence[PartitionId]) -> None:
        """Has this broker leave the ISRs of partitions whose logs are offline. PeerError."""
        by_topic: dict[Uuid, list[int]] = {}
        for topic_id, index in partitions:
            by_topic.setdefault(topic_id, []).append(index)
        request = ReportOfflineLogsRequest(
            broker_id=self._node_id,
            broker_epoch=self._broker_epoch(),
            topics=tuple(
                OfflineTopic(topic_id=topic_id, partition_indexes=tuple(indexes))
                for topic_id, indexes in by_topic.items()
            ),
        )
        try:
            response: ReportOfflineLogsResponse = await self._channel.ask(
                request, timeout_ms=TIMEOUT_MS
            )
        except ControllerIsHere:
            for portion in in_entries(partitions):
                await self._controller.commit(partial(self._decide_offline, portion))
            return
        if response.error_code != ErrorCode.NONE:
            raise PeerError(
                error_code(response.error_code), "The controller does not take offline logs."
            )

    async def alter_partitions(self, asked: Sequence[AskedIsr]) -> list[ErrorCode]:
        """Has the ISRs of partitions changed that this broker leads. The outcome of each.

        REQUEST_TIMED_OUT, a PeerError, if the outcome is not known. An outcome other than
        INELIGIBLE_REPLICA may come from a change that an earlier attempt has made.
        """
        requester = Incarnation(self._node_id, self._broker_epoch())
        try:
            response: AlterPartitionResponse = await self._channel.ask(
                alter_partition_request(requester, asked), timeout_ms=TIMEOUT_MS
            )
        except ControllerIsHere:
            outcomes: list[ErrorCode] = []
            for portion in in_entries(asked):
                outcomes += await self._controller.commit(partial(_decide_isrs, requester, portion))
            return outcomes
        if response.error_code != ErrorCode.NONE:
            raise PeerError(
                error_code(response.error_code), "The controller does not take ISR changes."
            )
        by_partition = {
            (topic.topic_id, each.partition_index): error_code(each.error_code)
            for topic in response.topics
            for each in topic.partitions
        }
        unknown = ErrorCode.UNKNOWN_SERVER_ERROR
        return [by_partition.get((each.topic_id, each.partition), unknown) for each in asked]

    def _decide_offline(
        self, partitions: Sequence[PartitionId], image: Image
    ) -> tuple[Sequence[Record], None]:
        require_current(image, Incarnation(self._node_id, self._broker_epoch()))
        return logs_offline(image, self._node_id, partitions), None

    async def create_topics(self, topics: Sequence[Topic]) -> list[TopicOutcome]:
        """Has the controller create topics. ControllerIsHere; PeerError as `Forwarding.forward`."""
        version = CREATE_TOPICS.versions[1]
        request = CreateTopicsRequest(topics=tuple(topics), timeout_ms=TIMEOUT_MS)
        parts = encode_request(0, CREATE_TOPICS, version, request, client_id_of(self._node_id))
        frame = b"".join(cast("list[bytes]", parts))[LENGTH_BYTES:]
        answer = await self._forwarding.forward(frame, None, TIMEOUT_MS)
        response: CreateTopicsResponse = decode_response(answer, CREATE_TOPICS, version)
        return [
            TopicOutcome(each.name, error_code(each.error_code), each.error_message)
            for each in response.topics
        ]


def alter_partition_request(
    requester: Incarnation, asked: Sequence[AskedIsr]
) -> AlterPartitionRequest:
    """The request of a leader for these ISRs."""
    by_topic: dict[Uuid, list[AskedPartition]] = {}
    for each in asked:
        by_topic.setdefault(each.topic_id, []).append(
            AskedPartition(
                partition_index=each.partition,
                leader_epoch=each.leader_epoch,
                new_isr_with_epochs=tuple(
                    IsrMember(broker_id=member.broker_id, broker_epoch=member.broker_epoch)
                    for member in each.isr
                ),
                partition_epoch=each.partition_epoch,
            )
        )
    return AlterPartitionRequest(
        broker_id=requester.broker_id,
        broker_epoch=requester.broker_epoch,
        topics=tuple(
            AskedTopic(topic_id=topic_id, partitions=tuple(partitions))
            for topic_id, partitions in by_topic.items()
        ),
    )


def _decide_isrs(
    requester: Incarnation, asked: Sequence[AskedIsr], image: Image
) -> tuple[Sequence[Record], list[ErrorCode]]:
    require_current(image, requester)
    records, outcomes = altered_partitions(image, requester, asked)
    return records, [each if isinstance(each, ErrorCode) else ErrorCode.NONE for each in outcomes]
