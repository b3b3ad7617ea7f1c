"""Questions to transaction coordinators on other brokers, and what their failures mean."""

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

import pytest

from ottla.broker.inter_broker import verification_requests
from ottla.broker.inter_broker.broker_channels import BrokerChannels
from ottla.broker.inter_broker.verification_requests import VerificationRequests
from ottla.client.errors import ConnectionLost
from ottla.coordinators.txn.verification import Verification
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    PartitionResult,
    TopicResult,
    TransactionResult,
)
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.seams.loop import run

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
QUESTION = Verification("id", 7, 3, (T0, U0, T1), adds=False)
NONE, ABORTABLE = ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE


class Coordinator:
    """Answers NONE for all partitions but those that it refuses, or fails."""

    def __init__(self) -> None:
        self.asked: list[AddPartitionsToTxnRequest] = []
        self.refused: set[TopicPartition] = set()
        self.failure: Exception | None = None
        self.whole_code = NONE
        self.is_mistaken = False

    async def ask(self, broker_id: int, request: AddPartitionsToTxnRequest, **_: Any) -> Any:
        assert broker_id == 2
        self.asked.append(request)
        if self.failure is not None:
            raise self.failure
        results = tuple(
            TransactionResult(
                transactional_id="other" if self.is_mistaken else each.transactional_id,
                topic_results=tuple(
                    TopicResult(
                        name=topic.name,
                        results_by_partition=tuple(
                            PartitionResult(
                                partition_index=index,
                                partition_error_code=ABORTABLE
                                if TopicPartition(topic.name, index) in self.refused
                                else NONE,
                            )
                            for index in topic.partitions
                        ),
                    )
                    for topic in each.topics
                ),
            )
            for each in request.transactions
        )
        return AddPartitionsToTxnResponse(
            error_code=self.whole_code, results_by_transaction=results
        )


def verified(coordinator: Coordinator, question: Verification = QUESTION) -> dict[Any, ErrorCode]:
    tasks: list[asyncio.Task[Any]] = []

    def spawn(work: Coroutine[Any, Any, Any], name: str) -> None:
        tasks.append(asyncio.create_task(work, name=name))

    async def story() -> dict[Any, ErrorCode]:
        channels = cast("BrokerChannels", cast(Any, coordinator))
        return dict(await VerificationRequests(channels, spawn).verify(2, question))

    return run(story())


def test_each_partition_has_its_own_code() -> None:
    coordinator = Coordinator()
    coordinator.refused = {U0}
    assert verified(coordinator) == {T0: NONE, U0: ABORTABLE, T1: NONE}
    (request,) = coordinator.asked
    (transaction,) = request.transactions
    assert (transaction.transactional_id, transaction.producer_id) == ("id", 7)
    assert transaction.producer_epoch == 3
    assert transaction.verify_only
    assert [(each.name, each.partitions) for each in transaction.topics] == [
        ("t", (0, 1)),
        ("u", (0,)),
    ]


def test_partitions_of_newer_producers_are_added() -> None:
    coordinator = Coordinator()
    verified(coordinator, QUESTION._replace(adds=True))
    assert not coordinator.asked[0].transactions[0].verify_only


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (ConnectionLost("lost"), ErrorCode.NETWORK_EXCEPTION),
        (PeerError(ErrorCode.REQUEST_TIMED_OUT, "late"), ErrorCode.NETWORK_EXCEPTION),
        (PeerError(ErrorCode.BROKER_NOT_AVAILABLE, "gone"), ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_without_an_answer_the_producer_retries(failure: Exception, code: ErrorCode) -> None:
    coordinator = Coordinator()
    coordinator.failure = failure
    assert verified(coordinator) == dict.fromkeys(QUESTION.partitions, code)


def test_no_client_sees_that_a_broker_may_not_ask() -> None:
    coordinator = Coordinator()
    coordinator.whole_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert set(verified(coordinator).values()) == {ErrorCode.INVALID_TXN_STATE}


def test_an_answer_about_another_transaction_is_not_taken() -> None:
    coordinator = Coordinator()
    coordinator.is_mistaken = True
    assert set(verified(coordinator).values()) == {ErrorCode.UNKNOWN_SERVER_ERROR}


def test_a_question_about_many_partitions_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification_requests, "QUESTION_PARTITIONS_MAX", 2)
    coordinator = Coordinator()
    coordinator.refused = {T1}
    assert verified(coordinator) == {T0: NONE, U0: NONE, T1: ABORTABLE}
    asked = [each for request in coordinator.asked for each in request.transactions]
    assert [sum(len(topic.partitions) for topic in each.topics) for each in asked] == [2, 1]
