"""A transaction hangs if it is open in a partition and no coordinator will write its marker."""

from typing import Any

import pytest

from ottla.client.admin.hanging_transactions import HangingTransactions, find_hanging
from ottla.client.errors import Refused
from ottla.client.routing.router import Router
from ottla.errors import ErrorCode
from tests.support.client.fake_transactions import (
    NOW_MS,
    ORDERS,
    PRODUCER,
    USERS,
    FakeTransactions,
    with_transactions,
)

HOUR_MS = 3_600_000


async def found_in(router: Router, **limits: int) -> HangingTransactions:
    given = {"older_than_ms": 900_000, "now_ms": NOW_MS} | limits
    return await find_hanging(router, [ORDERS, USERS], **given)


def test_a_transaction_of_a_producer_without_a_transactional_id_hangs() -> None:
    async def story(fake: FakeTransactions, router: Router) -> None:
        fake.open(ORDERS)
        ((transaction,), _) = await found_in(router)
        assert (transaction.partition, transaction.producer) == (ORDERS, PRODUCER)
        assert transaction.start_offset == 5

    with_transactions(story)


@pytest.mark.parametrize("state", ["Ongoing", "PrepareAbort", "PrepareCommit"])
def test_a_transaction_that_its_coordinator_knows_does_not_hang(state: str) -> None:
    async def story(fake: FakeTransactions, router: Router) -> None:
        fake.open(ORDERS)
        fake.add("till", ORDERS, transaction_state=state)
        assert (await found_in(router)).found == []

    with_transactions(story)


@pytest.mark.parametrize(
    ("partitions", "fields"),
    [
        ((), {"transaction_state": "Empty"}),
        ((USERS,), {"transaction_state": "Ongoing"}),
        # The id has got another producer id since.
        ((ORDERS,), {"producer_id": PRODUCER.producer_id + 1}),
    ],
    ids=["no transaction", "other partitions", "another producer"],
)
def test_a_transaction_that_its_coordinator_does_not_know_hangs(
    partitions: tuple[Any, ...], fields: dict[str, Any]
) -> None:
    async def story(fake: FakeTransactions, router: Router) -> None:
        fake.open(ORDERS)
        fake.add("till", *partitions, **fields)
        assert [each.partition for each in (await found_in(router)).found] == [ORDERS]

    with_transactions(story)


def test_a_transaction_of_an_id_that_expires_meanwhile_hangs() -> None:
    async def story(fake: FakeTransactions, router: Router) -> None:
        fake.open(ORDERS)
        fake.listed[1] = ["expired"]
        assert [each.partition for each in (await found_in(router)).found] == [ORDERS]

    with_transactions(story)


def test_a_transaction_with_a_recent_record_is_not_examined() -> None:
    async def story(fake: FakeTransactions, router: Router) -> None:
        fake.open(ORDERS)
        assert (await found_in(router, older_than_ms=HOUR_MS)).found == []
        assert fake.cluster.brokers[2].asked_for("ListTransactions") == []
        assert len((await found_in(router, older_than_ms=HOUR_MS - 1)).found) == 1

    with_transactions(story)


@pytest.mark.parametrize("next_start", [None, 8], ids=["and none begins", "and the next begins"])
def test_a_transaction_that_ends_during_the_search_does_not_hang(next_start: int | None) -> None:
    """Its coordinator does not know it any more, since its marker is written."""

    async def story(fake: FakeTransactions, router: Router) -> None:
        fake.open(ORDERS)
        list_before = fake.cluster.brokers[1].answers["ListTransactions"]

        def end_it(request: Any, version: int) -> Any:
            fake.producers.clear()
            if next_start is not None:
                fake.open(ORDERS, current_txn_start_offset=next_start)
            return list_before(request, version)

        fake.cluster.brokers[1].answers["ListTransactions"] = end_it
        assert (await found_in(router)).found == []

    with_transactions(story)


def test_a_partition_that_cannot_be_examined_is_named_beside_the_results() -> None:
    async def story(fake: FakeTransactions, router: Router) -> None:
        fake.open(ORDERS)
        fake.producer_codes[USERS] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        found, not_examined = await found_in(router)
        assert [each.partition for each in found] == [ORDERS]
        assert list(not_examined) == [USERS]
        assert isinstance(refused := not_examined[USERS], Refused)
        assert refused.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    with_transactions(story)
