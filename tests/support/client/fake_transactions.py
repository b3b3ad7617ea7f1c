"""A fake cluster with transactions: the second broker coordinates every id and leads partitions."""

from collections.abc import Awaitable, Callable
from typing import Any

from ottla.client.routing.router import Router
from ottla.errors import ErrorCode
from ottla.protocol.messages import (
    describe_producers,
    describe_transactions,
    find_coordinator,
    init_producer_id,
    list_transactions,
    write_txn_markers,
)
from ottla.protocol.producer_epoch import ProducerIdAndEpoch
from ottla.protocol.topic_partition import TopicPartition, by_topic
from tests.sim.seams.loop import run
from tests.support.client.fake_cluster import PORT, FakeBroker, FakeCluster

NOW_MS = 1_700_000_000_000
PRODUCER = ProducerIdAndEpoch(7, 3)
ORDERS = TopicPartition("orders", 0)
USERS = TopicPartition("users", 1)


class FakeTransactions:
    """What the brokers know. Tests change it, also from within an answer."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.described: dict[str, describe_transactions.Transaction] = {}
        # By broker: the ids that it lists, which may differ from those that exist.
        self.listed: dict[int, list[str]] = {1: [], 2: []}
        self.producers: dict[TopicPartition, list[describe_producers.Producer]] = {}
        # The error codes of answers; lists are of the next ones.
        self.list_code = ErrorCode.NONE
        self.init_codes: list[ErrorCode] = []
        self.marker_codes: list[ErrorCode] = []
        self.producer_codes: dict[TopicPartition, ErrorCode] = {}
        # Whether a leader that accepts a marker ends the transaction.
        self.applies_markers = True
        cluster.leaders = {"orders": [2], "users": [2, 2]}
        cluster.answer_everywhere("FindCoordinator", lambda _: self._find)
        cluster.answer_everywhere("ListTransactions", self._list)
        leader = cluster.brokers[2].answers
        leader["DescribeTransactions"] = self._describe
        leader["DescribeProducers"] = self._describe_producers
        leader["InitProducerId"] = self._init
        leader["WriteTxnMarkers"] = self._write_markers

    def add(self, name: str, *partitions: TopicPartition, **fields: Any) -> None:
        """A transactional id of PRODUCER, with an open transaction in these partitions."""
        given: dict[str, Any] = {
            "error_code": 0,
            "transactional_id": name,
            "transaction_state": "Ongoing",
            "transaction_timeout_ms": 60_000,
            "transaction_start_time_ms": NOW_MS - 5_000,
            "producer_id": PRODUCER.producer_id,
            "producer_epoch": PRODUCER.producer_epoch,
            "topics": tuple(
                describe_transactions.Topic(
                    topic=topic, partitions=tuple(each.partition for each in own)
                )
                for topic, own in by_topic(partitions).items()
            ),
        }
        self.described[name] = describe_transactions.Transaction(**given | fields)
        self.listed[2].append(name)

    def open(self, partition: TopicPartition, **fields: Any) -> None:
        """A transaction of PRODUCER that its leader knows, with a record an hour ago."""
        given: dict[str, Any] = {
            "producer_id": PRODUCER.producer_id,
            "producer_epoch": PRODUCER.producer_epoch,
            "last_sequence": 0,
            "last_timestamp": NOW_MS - 3_600_000,
            "coordinator_epoch": -1,
            "current_txn_start_offset": 5,
        }
        producer = describe_producers.Producer(**given | fields)
        self.producers.setdefault(partition, []).append(producer)

    def _find(self, request: Any, version: int) -> Any:
        assert request.key_type == 1
        return find_coordinator.FindCoordinatorResponse(node_id=2, host="b2", port=PORT)

    def _list(self, broker: FakeBroker) -> Any:
        def answer(request: Any, version: int) -> Any:
            ids, states = request.producer_id_filters, request.state_filters
            return list_transactions.ListTransactionsResponse(
                error_code=self.list_code,
                unknown_state_filters=tuple(each for each in states if each == "Dead"),
                transaction_states=tuple(
                    list_transactions.Transaction(
                        transactional_id=name,
                        producer_id=PRODUCER.producer_id,
                        transaction_state="Ongoing",
                    )
                    for name in self.listed[broker.node_id]
                    if not ids or PRODUCER.producer_id in ids
                ),
            )

        return answer

    def _describe(self, request: Any, version: int) -> Any:
        (name,) = request.transactional_ids
        missing = describe_transactions.Transaction(
            error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
            transactional_id=name,
            transaction_state="",
            transaction_timeout_ms=0,
            transaction_start_time_ms=0,
            producer_id=0,
            producer_epoch=0,
            topics=(),
        )
        found = self.described.get(name, missing)
        return describe_transactions.DescribeTransactionsResponse(transaction_states=(found,))

    def _describe_producers(self, request: Any, version: int) -> Any:
        def result(partition: TopicPartition) -> describe_producers.Partition:
            return describe_producers.Partition(
                partition_index=partition.partition,
                error_code=self.producer_codes.get(partition, ErrorCode.NONE),
                active_producers=tuple(self.producers.get(partition, ())),
            )

        return describe_producers.DescribeProducersResponse(
            topics=tuple(
                describe_producers.Topic(
                    name=topic.name,
                    partitions=tuple(
                        result(TopicPartition(topic.name, index))
                        for index in topic.partition_indexes
                    ),
                )
                for topic in request.topics
            )
        )

    def _init(self, request: Any, version: int) -> Any:
        code = self.init_codes.pop(0) if self.init_codes else ErrorCode.NONE
        return init_producer_id.InitProducerIdResponse(
            error_code=code, producer_id=PRODUCER.producer_id, producer_epoch=5
        )

    def _write_markers(self, request: Any, version: int) -> Any:
        code = self.marker_codes.pop(0) if self.marker_codes else ErrorCode.NONE
        ((marker,),) = (request.markers,)
        (topic,) = marker.topics
        if code == ErrorCode.NONE and self.applies_markers:
            self.producers.pop(TopicPartition(topic.name, topic.partition_indexes[0]))
        return write_txn_markers.WriteTxnMarkersResponse(
            markers=(
                write_txn_markers.MarkerResult(
                    producer_id=marker.producer_id,
                    topics=(
                        write_txn_markers.TopicResult(
                            name=topic.name,
                            partitions=tuple(
                                write_txn_markers.PartitionResult(
                                    partition_index=index, error_code=code
                                )
                                for index in topic.partition_indexes
                            ),
                        ),
                    ),
                ),
            )
        )


def with_transactions(story: Callable[[FakeTransactions, Router], Awaitable[None]]) -> None:
    async def tell() -> None:
        async with FakeCluster(2) as cluster, cluster.router() as router:
            await story(FakeTransactions(cluster), router)

    run(tell())
