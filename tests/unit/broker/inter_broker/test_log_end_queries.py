"""The controller asks for log ends: itself directly, others by a request."""

from typing import Any

import pytest

from ottla.broker.inter_broker.log_end_queries import Channels, LogEndQueries
from ottla.client.errors import ConnectionLost
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.unclean_election import LogEnd
from ottla.metadata.unclean_elections import ToldLogEnds
from ottla.metadata.values import Incarnation, PartitionId
from ottla.protocol.messages.describe_log_ends import (
    DescribeLogEndsRequest,
    DescribeLogEndsResponse,
    PartitionResult,
    TopicResult,
)
from tests.sim.seams.loop import run
from tests.support.metadata.sample_records import topic_id

FIRST, SECOND, OTHER = (
    PartitionId(topic_id(1), 0),
    PartitionId(topic_id(1), 1),
    PartitionId(topic_id(2), 0),
)


class FakeChannels:
    """Answers every request with the same response, or error."""

    def __init__(self, answer: DescribeLogEndsResponse | Exception) -> None:
        self.answer = answer
        self.asked: list[tuple[int, Any]] = []

    async def ask(self, broker_id: int, request: object, *, timeout_ms: int) -> Any:
        assert timeout_ms > 0
        self.asked.append((broker_id, request))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def own_log_end(where: PartitionId) -> LogEnd:
    if where == SECOND:
        raise PeerError(ErrorCode.KAFKA_STORAGE_ERROR, "offline")
    return LogEnd(4, 10)


def queries(channels: Channels | None) -> LogEndQueries:
    return LogEndQueries(
        node_id=1, broker_epoch=lambda: 5, own_log_end=own_log_end, channels=lambda: channels
    )


def ask(channels: Channels | None, broker_id: int, *partitions: PartitionId) -> ToldLogEnds:
    told: ToldLogEnds = run(queries(channels)(broker_id, partitions))
    return told


def test_its_own_logs_are_read_without_a_request_and_offline_ones_left_out() -> None:
    told = ask(None, 1, FIRST, SECOND)
    assert told == (Incarnation(1, 5), {FIRST: LogEnd(4, 10)})


def test_another_broker_is_asked_for_all_partitions_at_once() -> None:
    answer = DescribeLogEndsResponse(
        error_code=ErrorCode.NONE,
        broker_id=2,
        broker_epoch=7,
        topics=(
            TopicResult(
                topic_id=topic_id(1),
                partitions=(
                    PartitionResult(
                        partition_index=0, error_code=0, last_epoch=3, log_end_offset=8
                    ),
                    PartitionResult(partition_index=1, error_code=ErrorCode.KAFKA_STORAGE_ERROR),
                ),
            ),
            TopicResult(
                topic_id=topic_id(2),
                partitions=(
                    PartitionResult(
                        partition_index=0, error_code=0, last_epoch=-1, log_end_offset=0
                    ),
                ),
            ),
        ),
    )
    channels = FakeChannels(answer)

    told = ask(channels, 2, FIRST, OTHER, SECOND)

    assert told == (Incarnation(2, 7), {FIRST: LogEnd(3, 8), OTHER: LogEnd(-1, 0)})
    ((broker_id, request),) = channels.asked
    assert broker_id == 2
    assert isinstance(request, DescribeLogEndsRequest)
    assert [(each.topic_id, each.partition_indexes) for each in request.topics] == [
        (topic_id(1), (0, 1)),
        (topic_id(2), (0,)),
    ]


@pytest.mark.parametrize(
    "channels",
    [
        None,
        FakeChannels(ConnectionLost("gone")),
        FakeChannels(PeerError(ErrorCode.REQUEST_TIMED_OUT, "late")),
        FakeChannels(
            DescribeLogEndsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, topics=())
        ),
    ],
    ids=["no way yet", "lost", "late", "refused"],
)
def test_no_answer_is_a_peer_error(channels: Channels | None) -> None:
    with pytest.raises(PeerError):
        ask(channels, 2, FIRST)
