"""WriteTxnMarkers requests to other brokers, and what their answers mean."""

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

import pytest

from ottla.broker.inter_broker.broker_channels import BrokerChannels
from ottla.broker.inter_broker.marker_requests import MarkerRequests
from ottla.client.errors import ConnectionLost
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.batch import MarkerKind
from ottla.protocol.messages.write_txn_markers import (
    Marker,
    MarkerResult,
    PartitionResult,
    Topic,
    TopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.append.transaction_marker import TransactionMarker
from tests.sim.seams.loop import run

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
MARKER = TransactionMarker(7, 3, MarkerKind.ABORT, 5, 2)
NONE, ELSEWHERE = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER


class Leader:
    """Answers with the given results, or fails."""

    def __init__(self, *results: MarkerResult, failure: Exception | None = None) -> None:
        self.asked: list[WriteTxnMarkersRequest] = []
        self._results = results
        self._failure = failure

    async def ask(self, broker_id: int, request: WriteTxnMarkersRequest, **_: Any) -> Any:
        assert broker_id == 2
        self.asked.append(request)
        if self._failure is not None:
            raise self._failure
        return WriteTxnMarkersResponse(markers=self._results)


def result(**codes: dict[int, ErrorCode]) -> MarkerResult:
    return MarkerResult(
        producer_id=7,
        topics=tuple(
            TopicResult(
                name=topic,
                partitions=tuple(
                    PartitionResult(partition_index=index, error_code=code)
                    for index, code in partitions.items()
                ),
            )
            for topic, partitions in codes.items()
        ),
    )


def written(leader: Leader) -> dict[TopicPartition, ErrorCode]:
    tasks: list[asyncio.Task[Any]] = []

    def spawn(work: Coroutine[Any, Any, Any], name: str) -> None:
        tasks.append(asyncio.create_task(work, name=name))

    async def story() -> dict[TopicPartition, ErrorCode]:
        requests = MarkerRequests(cast("BrokerChannels", cast(Any, leader)), spawn)
        return dict(await requests.write(2, MARKER, [T0, U0, T1]))

    return run(story())


def test_a_marker_is_sent_with_all_of_its_fields() -> None:
    leader = Leader(result(t={0: NONE, 1: ELSEWHERE}, u={0: NONE}))
    assert written(leader) == {T0: NONE, U0: NONE, T1: ELSEWHERE}
    assert leader.asked == [
        WriteTxnMarkersRequest(
            markers=(
                Marker(
                    producer_id=7,
                    producer_epoch=3,
                    transaction_result=False,
                    topics=(
                        Topic(name="t", partition_indexes=(0, 1)),
                        Topic(name="u", partition_indexes=(0,)),
                    ),
                    coordinator_epoch=5,
                    transaction_version=2,
                ),
            )
        )
    ]


def test_a_partition_without_a_result_has_no_marker() -> None:
    missing = ErrorCode.UNKNOWN_SERVER_ERROR
    assert written(Leader(result(t={0: NONE}))) == {T0: NONE, U0: missing, T1: missing}
    assert set(written(Leader()).values()) == {missing}


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (ConnectionLost("lost"), ErrorCode.NETWORK_EXCEPTION),
        (PeerError(ErrorCode.REQUEST_TIMED_OUT, "late"), ErrorCode.REQUEST_TIMED_OUT),
        (PeerError(ErrorCode.BROKER_NOT_AVAILABLE, "gone"), ErrorCode.BROKER_NOT_AVAILABLE),
    ],
)
def test_without_an_answer_no_marker_counts_as_written(failure: Exception, code: ErrorCode) -> None:
    assert written(Leader(failure=failure)) == dict.fromkeys((T0, U0, T1), code)
