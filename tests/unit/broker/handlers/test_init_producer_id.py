"""InitProducerId, and the blocks of its ids."""

import pytest

from ottla.errors import ErrorCode
from ottla.metadata.controller.producer_id_blocks import BLOCK_IDS
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.sim.seams.loop import run
from tests.support.broker.recorded_answers import ours, recordings
from tests.support.broker.simulated_broker import Client, Machine, with_broker
from tests.support.broker.transactional_requests import Producer


def ask_for(transactional_id: str | None = None, producer_id: int = -1) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=60_000,
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 0,
    )


@pytest.mark.parametrize("version", range(6))
def test_every_version_gives_a_new_id_each_time(version: int) -> None:
    async def story(client: Client) -> None:
        given = [await client.ask(ask_for(), version) for _ in range(3)]
        assert [each.error_code for each in given] == [0, 0, 0]
        assert [each.producer_id for each in given] == [0, 1, 2]
        assert [each.producer_epoch for each in given] == [0, 0, 0]

    with_broker(story)


def test_answers_to_recorded_requests_without_transactions_are_those_of_kafka() -> None:
    compared = 0

    async def story(client: Client) -> None:
        nonlocal compared
        for pair in recordings(22):
            if pair["requestJson"]["transactionalId"] or pair["errors"] == [14]:
                continue
            answer, expected = await ours(client, pair), pair["responseJson"]
            if not expected["errorCode"]:
                answer["producerId"] = expected["producerId"]
            assert answer == expected, pair
            compared += 1

    with_broker(story)
    assert compared >= 12


def test_a_producer_that_asks_again_gets_another_id() -> None:
    async def story(client: Client) -> None:
        first = await client.ask(ask_for())
        again = await client.ask(ask_for(producer_id=first.producer_id))
        assert again.producer_id != first.producer_id
        assert (again.error_code, again.producer_epoch) == (0, 0)

    with_broker(story)


def test_a_transactional_id_needs_its_coordinator() -> None:
    async def story(client: Client) -> None:
        refused = await client.ask(ask_for("payments"))
        assert refused.error_code == ErrorCode.NOT_COORDINATOR
        assert (refused.producer_id, refused.producer_epoch) == (-1, -1)

    with_broker(story)


def test_a_producer_names_both_its_id_and_its_epoch_or_neither() -> None:
    async def story(client: Client) -> None:
        await Producer(client, "payments").find()
        for producer_id, epoch in ((5, -1), (-1, 0)):
            refused = await client.ask(
                InitProducerIdRequest(
                    transactional_id="payments",
                    transaction_timeout_ms=1_000,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                )
            )
            assert refused.error_code == ErrorCode.INVALID_REQUEST

    with_broker(story)


@pytest.mark.parametrize("version", [3, 4])
def test_a_fenced_producer_gets_the_code_that_its_version_knows(version: int) -> None:
    async def story(client: Client) -> None:
        producer = Producer(client, "payments")
        await producer.begin()
        refused = await client.ask(
            InitProducerIdRequest(
                transactional_id="payments",
                transaction_timeout_ms=1_000,
                producer_id=producer.producer_id,
                producer_epoch=7,
            ),
            version,
        )
        codes = {3: ErrorCode.INVALID_PRODUCER_EPOCH, 4: ErrorCode.PRODUCER_FENCED}
        assert refused.error_code == codes[version]

    with_broker(story)


def test_no_id_is_given_twice_over_restarts_and_crashes() -> None:
    machine = Machine()
    given: list[int] = []

    async def tell() -> None:
        for _ in range(3):
            async with machine.broker() as client:
                for _ in range(5):
                    given.append((await client.ask(ask_for())).producer_id)

    run(tell(), clock=machine.clock)
    assert len(set(given)) == len(given) == 15
    assert given[5] == BLOCK_IDS, "what is left of a block is never given"
