"""Transaction requests: which broker gets them, and how their responses are decoded."""

import pytest

from ottla.address import Address
from ottla.client.admin.transactions import (
    STATES,
    DescribedTransaction,
    ListedTransaction,
    OpenTransaction,
    PartitionProducer,
    TransactionFilter,
    describe_partition_producers,
    describe_transaction,
    fence_producer,
    list_all_transactions,
    open_transactions,
    write_abort_marker,
)
from ottla.client.errors import Refused, UnsupportedByBroker
from ottla.client.routing.outcomes import unwrap
from ottla.client.routing.router import Router
from ottla.coordinators.txn.states import TransactionState
from ottla.errors import ErrorCode
from ottla.protocol.producer_epoch import ProducerIdAndEpoch
from ottla.protocol.topic_partition import TopicPartition
from tests.support.client.fake_cluster import PORT
from tests.support.client.fake_transactions import (
    NOW_MS,
    ORDERS,
    PRODUCER,
    USERS,
    FakeTransactions,
    with_transactions,
)

HANGING = OpenTransaction(ORDERS, PRODUCER, None, 5, NOW_MS)


def test_every_state_of_a_coordinator_is_known() -> None:
    assert set(STATES) == {state.kafka_name for state in TransactionState}


def test_transactions_of_all_brokers_are_listed_once_and_in_order() -> None:
    async def story(fake: FakeTransactions, router: Router) -> None:
        fake.listed = {1: ["c", "a", "a"], 2: ["b"]}
        assert await list_all_transactions(router) == [
            ListedTransaction(name, PRODUCER.producer_id, "Ongoing", broker)
            for name, broker in (("a", 1), ("b", 2), ("c", 1))
        ]

    with_transactions(story)


def test_the_brokers_filter_the_list() -> None:
    async def story(fake: FakeTransactions, router: Router) -> None:
        await list_all_transactions(
            router, TransactionFilter(("Empty", "Ongoing"), (7, 8), 900_000, "pay.*")
        )
        for broker in fake.cluster.brokers.values():
            ((version, request),) = broker.asked_for("ListTransactions")
            assert version == 2
            assert (request.state_filters, request.producer_id_filters) == (
                ("Empty", "Ongoing"),
                (7, 8),
            )
            assert (request.duration_filter, request.transactional_id_pattern) == (
                900_000,
                "pay.*",
            )

    with_transactions(story)


@pytest.mark.parametrize(
    ("wanted", "last_version", "words"),
    [
        (TransactionFilter(older_than_ms=1), 0, "by duration_filter"),
        (TransactionFilter(pattern="a"), 1, "by transactional_id_pattern"),
        (TransactionFilter(states=("Dead",)), 2, "does not know the state Dead"),
    ],
)
def test_a_filter_that_a_broker_does_not_know_is_not_ignored(
    wanted: TransactionFilter, last_version: int, words: str
) -> None:
    async def story(fake: FakeTransactions, router: Router) -> None:
        for broker in fake.cluster.brokers.values():
            broker.versions["ListTransactions"] = (0, last_version)
        with pytest.raises(UnsupportedByBroker, match=words):
            await list_all_transactions(router, wanted)

    with_transactions(story)


def test_a_transaction_is_described_by_its_coordinator() -> None:
    async def story(fake: FakeTransactions, router: Router) -> None:
        fake.add("till", USERS, ORDERS)
        assert await describe_transaction(router, "till") == DescribedTransaction(
            transactional_id="till",
            state="Ongoing",
            producer=PRODUCER,
            timeout_ms=60_000,
            start_ms=NOW_MS - 5_000,
            coordinator=Address("b2", PORT),
            partitions=frozenset({ORDERS, USERS}),
        )

    with_transactions(story)


def test_an_id_without_a_transaction_has_no_start() -> None:
    async def story(fake: FakeTransactions, router: Router) -> None:
        fake.add("till", transaction_state="Empty", transaction_start_time_ms=-1)
        assert (await describe_transaction(router, "till")).start_ms is None

    with_transactions(story)


def test_an_id_that_does_not_exist_is_refused() -> None:
    async def story(fake: FakeTransactions, router: Router) -> None:
        with pytest.raises(Refused) as refused:
            await describe_transaction(router, "till")
        assert refused.value.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert refused.value.what == "transactional id till"

    with_transactions(story)


def test_a_leader_tells_its_producers_and_which_of_them_have_open_transactions() -> None:
    async def story(fake: FakeTransactions, router: Router) -> None:
        fake.open(ORDERS, current_txn_start_offset=9, coordinator_epoch=4, last_timestamp=1)
        fake.open(ORDERS, producer_id=8, current_txn_start_offset=5, last_timestamp=2)
        fake.open(ORDERS, producer_id=9, current_txn_start_offset=-1)
        outcomes = await describe_partition_producers(router, [ORDERS, USERS])
        assert unwrap(outcomes[USERS]) == ()
        producers = unwrap(outcomes[ORDERS])
        assert producers[0] == PartitionProducer(PRODUCER, 0, 1, 4, 9)
        assert producers[2].start_offset is None
        assert open_transactions(ORDERS, producers) == [
            OpenTransaction(ORDERS, ProducerIdAndEpoch(8, 3), None, 5, 2),
            OpenTransaction(ORDERS, PRODUCER, 4, 9, 1),
        ]

    with_transactions(story)


def test_a_leader_is_asked_about_a_limited_number_of_partitions_at_once() -> None:
    async def story(fake: FakeTransactions, router: Router) -> None:
        fake.cluster.leaders["wide"] = [2] * 1_001
        partitions = [TopicPartition("wide", number) for number in range(1_001)]
        outcomes = await describe_partition_producers(router, partitions)
        assert list(outcomes) == partitions
        asked = fake.cluster.brokers[2].asked_for("DescribeProducers")
        assert [len(request.topics[0].partition_indexes) for _, request in asked] == [500, 500, 1]

    with_transactions(story)


def test_a_fence_is_repeated_until_the_transaction_is_aborted() -> None:
    async def story(fake: FakeTransactions, router: Router) -> None:
        fake.init_codes = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE]
        producer = await fence_producer(router, "till", 60_000)
        assert producer == ProducerIdAndEpoch(PRODUCER.producer_id, 5)
        asked = fake.cluster.brokers[2].asked_for("InitProducerId")
        assert len(asked) == 3
        _, request = asked[-1]
        assert (request.transactional_id, request.transaction_timeout_ms) == ("till", 60_000)
        # As a new producer would: whoever has the id now is fenced.
        assert (request.producer_id, request.producer_epoch) == (-1, -1)

    with_transactions(story)


@pytest.mark.parametrize(("known", "sent"), [(None, 0), (4, 4)])
def test_an_abort_marker_carries_the_epochs_that_its_leader_knows(
    known: int | None, sent: int
) -> None:
    async def story(fake: FakeTransactions, router: Router) -> None:
        fake.open(ORDERS)
        fake.marker_codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        await write_abort_marker(router, HANGING._replace(coordinator_epoch=known))
        asked = fake.cluster.brokers[2].asked_for("WriteTxnMarkers")
        assert len(asked) == 2
        (marker,) = asked[-1][1].markers
        assert (marker.producer_id, marker.producer_epoch) == PRODUCER
        assert marker.transaction_result is False
        assert marker.coordinator_epoch == sent
        # A marker of transaction.version 2 would need a higher producer epoch.
        assert marker.transaction_version == 0
        ((topic),) = marker.topics
        assert (topic.name, topic.partition_indexes) == ("orders", (0,))

    with_transactions(story)


def test_a_marker_that_its_leader_does_not_accept_is_refused() -> None:
    async def story(fake: FakeTransactions, router: Router) -> None:
        fake.marker_codes = [ErrorCode.INVALID_PRODUCER_EPOCH]
        with pytest.raises(Refused) as refused:
            await write_abort_marker(router, HANGING)
        assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH

    with_transactions(story)
