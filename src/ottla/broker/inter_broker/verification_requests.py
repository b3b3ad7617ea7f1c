"""Verifies transactions with coordinators on other brokers: AddPartitionsToTxn requests (KIP-890).

The questions of many produce requests share a request. A leader that gets no answer does not know
whether the partitions were added: the producer sends its records again, and adding is repeatable.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any

from ottla.broker.inter_broker.batched_requests import BatchedRequests
from ottla.broker.inter_broker.broker_channels import BrokerChannels
from ottla.client.errors import ClientError, error_code
from ottla.coordinators.txn.verification import Verification
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    Topic,
    Transaction,
    TransactionResult,
)
from ottla.protocol.topic_partition import TopicPartition, by_topic

TIMEOUT_MS = 10_000
# A question about more partitions is divided, so that it fits a request.
QUESTION_PARTITIONS_MAX = 1_000

_Codes = Mapping[TopicPartition, ErrorCode]


class VerificationRequests:
    """The transaction coordinators on other brokers."""

    def __init__(
        self,
        channels: BrokerChannels,
        spawn: Callable[[Coroutine[Any, Any, Any], str], object],
    ) -> None:
        self._channels = channels
        self._requests = BatchedRequests[Verification, _Codes](
            "verifications", self._send, lambda each: 1 + 2 * len(each.partitions), spawn
        )

    async def verify(self, broker_id: int, verification: Verification) -> _Codes:
        """The error code of each partition; NETWORK_EXCEPTION if there is no answer."""
        partitions = verification.partitions
        if len(partitions) <= QUESTION_PARTITIONS_MAX:
            return await self._verify(broker_id, verification)
        async with asyncio.TaskGroup() as group:
            answers = [
                group.create_task(
                    self._verify(broker_id, verification._replace(partitions=portion)),
                    name="verification",
                )
                for portion in _portions(partitions)
            ]
        return {name: code for each in answers for name, code in each.result().items()}

    async def _verify(self, broker_id: int, verification: Verification) -> _Codes:
        try:
            return await self._requests.ask(broker_id, verification)
        except PeerError as error:
            code = error.code
            if code is ErrorCode.BROKER_NOT_AVAILABLE:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            elif code is ErrorCode.REQUEST_TIMED_OUT:
                code = ErrorCode.NETWORK_EXCEPTION
        except ClientError:
            code = ErrorCode.NETWORK_EXCEPTION
        return dict.fromkeys(verification.partitions, code)

    async def _send(self, broker_id: int, asked: Sequence[Verification]) -> list[_Codes]:
        request = AddPartitionsToTxnRequest(transactions=tuple(map(_transaction, asked)))
        response: AddPartitionsToTxnResponse = await self._channels.ask(
            broker_id, request, timeout_ms=TIMEOUT_MS
        )
        if response.error_code != ErrorCode.NONE:
            raise PeerError(_whole_code(response.error_code), "the coordinator refuses to verify")
        results = response.results_by_transaction
        if [each.transactional_id for each in results] != [each.transactional_id for each in asked]:
            raise PeerError(ErrorCode.UNKNOWN_SERVER_ERROR, "other transactions were verified")
        return [_codes(*each) for each in zip(asked, results, strict=True)]


def _portions(partitions: Sequence[TopicPartition]) -> Iterator[Sequence[TopicPartition]]:
    for begin in range(0, len(partitions), QUESTION_PARTITIONS_MAX):
        yield partitions[begin : begin + QUESTION_PARTITIONS_MAX]


def _transaction(verification: Verification) -> Transaction:
    return Transaction(
        transactional_id=verification.transactional_id,
        producer_id=verification.producer_id,
        producer_epoch=verification.producer_epoch,
        verify_only=not verification.adds,
        topics=tuple(
            Topic(name=topic, partitions=tuple(each.partition for each in partitions))
            for topic, partitions in by_topic(verification.partitions).items()
        ),
    )


def _whole_code(number: int) -> ErrorCode:
    """The code of a refused request. As in Kafka, no client sees the rights of a broker."""
    code = error_code(number)
    return ErrorCode.INVALID_TXN_STATE if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED else code


def _codes(asked: Verification, result: TransactionResult) -> _Codes:
    named = {
        TopicPartition(topic.name, partition.partition_index): error_code(
            partition.partition_error_code
        )
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }
    return {name: named.get(name, ErrorCode.UNKNOWN_SERVER_ERROR) for name in asked.partitions}
