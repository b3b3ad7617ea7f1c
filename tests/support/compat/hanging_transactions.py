"""Transactional records that no coordinator knows, so that it never ends their transaction."""

import time
from collections.abc import Sequence

from ottla.client.blocking.client import BlockingClient
from ottla.client.blocking.connection import BlockingConnection
from ottla.client.errors import refusal
from ottla.client.routing.coordinators import CoordinatorKey
from ottla.client.routing.outcomes import Outcomes, unwrap
from ottla.errors import ErrorCode
from ottla.protocol.batch import Record, build
from ottla.protocol.coordinator_type import CoordinatorType
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import Partition, ProduceRequest, Topic
from ottla.protocol.producer_epoch import ProducerIdAndEpoch
from ottla.protocol.topic_partition import TopicPartition

# The last version in which a leader does not add the partition to the transaction itself.
_VERIFY_ONLY_VERSION = 11


def init_producer(servers: str, transactional_id: str) -> ProducerIdAndEpoch:
    """A producer with a transactional id, and without a transaction."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=60_000
    )
    key = CoordinatorKey(transactional_id, CoordinatorType.TRANSACTION)
    with BlockingClient(servers) as client:
        answer = client.router.ask_coordinator(key, request, lambda answer: [answer.error_code])
    assert answer.error_code == ErrorCode.NONE
    return ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)


def hang_transaction(
    servers: str, partition: TopicPartition, producer: ProducerIdAndEpoch, *, age_s: int
) -> int:
    """Two records of a transaction that its coordinator does not know; returns its first offset.

    The broker must not verify transactions.
    """
    then_ms = int(time.time() - age_s) * 1000
    batch = build(
        [Record(index, then_ms, None, b"never committed") for index in range(2)],
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    request = ProduceRequest(
        transactional_id="unknown",
        acks=-1,
        timeout_ms=30_000,
        topic_data=(
            Topic(
                name=partition.topic,
                partition_data=(Partition(index=partition.partition, records=bytes(batch)),),
            ),
        ),
    )

    def ask(leader: BlockingConnection, _: Sequence[TopicPartition]) -> Outcomes[int]:
        answer = leader.ask(request, version_max=_VERIFY_ONLY_VERSION)
        ((result,),) = [each.partition_responses for each in answer.responses]
        return {partition: refusal(result.error_code, str(partition)) or result.base_offset}

    with BlockingClient(servers) as client:
        # A leader may have to hear of a new topic first.
        return unwrap(client.router.ask_leaders([partition], ask)[partition])
