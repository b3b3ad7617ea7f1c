"""Has other brokers write transaction markers: WriteTxnMarkers requests of a coordinator.

The markers of many transactions share a request. The coordinator retries what was not written.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from ottla.broker.inter_broker.batched_requests import BatchedRequests
from ottla.broker.inter_broker.broker_channels import BrokerChannels
from ottla.client.errors import ClientError, error_code
from ottla.coordinators.txn.partition_leaders import Codes
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.batch import MarkerKind
from ottla.protocol.messages.write_txn_markers import (
    Marker,
    MarkerResult,
    Topic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.protocol.topic_partition import TopicPartition, by_topic
from ottla.replication.append.transaction_marker import TransactionMarker

# The partition's leader waits for replication, and may have to make logs.
TIMEOUT_MS = 30_000


class _Wanted(NamedTuple):
    marker: TransactionMarker
    partitions: Sequence[TopicPartition]


class MarkerRequests:
    """The leaders of partitions on other brokers."""

    def __init__(
        self,
        channels: BrokerChannels,
        spawn: Callable[[Coroutine[Any, Any, Any], str], object],
    ) -> None:
        self._channels = channels
        self._requests = BatchedRequests[_Wanted, Codes](
            "markers", self._send, lambda wanted: 1 + 2 * len(wanted.partitions), spawn
        )

    async def write(
        self, broker_id: int, marker: TransactionMarker, partitions: Sequence[TopicPartition]
    ) -> Codes:
        """The error code of each partition. Without an answer, the marker may have been written."""
        try:
            return await self._requests.ask(broker_id, _Wanted(marker, partitions))
        except PeerError as error:
            return dict.fromkeys(partitions, error.code)
        except ClientError:
            return dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION)

    async def _send(self, broker_id: int, wanted: Sequence[_Wanted]) -> list[Codes]:
        request = WriteTxnMarkersRequest(markers=tuple(_encoded(each) for each in wanted))
        response: WriteTxnMarkersResponse = await self._channels.ask(
            broker_id, request, timeout_ms=TIMEOUT_MS
        )
        if len(response.markers) != len(wanted):
            raise PeerError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"{len(response.markers)} results for {len(wanted)} markers",
            )
        return [_codes(*each) for each in zip(wanted, response.markers, strict=True)]


def _encoded(wanted: _Wanted) -> Marker:
    marker = wanted.marker
    return Marker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.kind is MarkerKind.COMMIT,
        topics=tuple(
            Topic(name=topic, partition_indexes=tuple(each.partition for each in partitions))
            for topic, partitions in by_topic(wanted.partitions).items()
        ),
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )


def _codes(wanted: _Wanted, result: MarkerResult) -> Codes:
    """The codes of the wanted partitions. One that the broker does not name is retried."""
    named = {
        TopicPartition(topic.name, partition.partition_index): error_code(partition.error_code)
        for topic in result.topics
        for partition in topic.partitions
    }
    return {name: named.get(name, ErrorCode.UNKNOWN_SERVER_ERROR) for name in wanted.partitions}
