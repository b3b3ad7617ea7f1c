"""Small produces of many clients that arrive in one turn of the event loop."""

import asyncio
import errno
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.requests.produce_fast_path import GATHERED_PRODUCES_MAX, PRODUCE_KEY
from ottla.coordinators.txn.verification import Verification
from ottla.errors import ErrorCode
from ottla.native import produce as native_produce
from ottla.protocol.batch import CRC_START
from ottla.protocol.exchange import decode_response, encode_request
from ottla.protocol.messages import APIS
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.files import Buffer
from tests.sim.seams.files import SimFile
from tests.sim.seams.loop import run
from tests.sim.seams.wire import Conditions
from tests.support.broker.produce_and_fetch import (
    NOW_MS,
    batch,
    fetch,
    only,
    produce,
    values,
    wanted,
)
from tests.support.broker.sessions import begun, services_of
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic

CLIENTS = 12
# Earlier batches, after which the broker knows the free space of its segment.
FIRST = [b"one", b"two"]
# Everything arrives in one piece, and at the same time.
AT_ONCE = Conditions(split_rate=0.0, gather_rate=0.0, latency_us_min=500, latency_us_max=500)


def tell(story: Any, **settings: str) -> None:
    """Runs a story with many clients of one broker, which has one topic with some records."""
    machine = Machine()
    machine.network.conditions = AT_ONCE

    async def begin() -> None:
        async with machine.broker(**settings) as client:
            await create(client, new_topic("events", 2))
            for value in FIRST:
                await client.ask(produce("events", batch(value)), 9)
            clients = [client, *[await machine.client() for _ in range(CLIENTS - 1)]]
            await story(clients, machine)

    run(begin(), clock=machine.clock)


def framed(request: Any, version: int = 9) -> bytes:
    parts = encode_request(7, APIS[PRODUCE_KEY], version, request, "tests")
    return b"".join(bytes(cast("bytes", part)) for part in parts)


async def ask_all(clients: list[Client], *requests: Any, version: int = 9) -> list[Any]:
    return await asyncio.gather(
        *(client.ask(request, version) for client, request in zip(clients, requests, strict=False))
    )


def test_requests_of_one_turn_share_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    write_at = SimFile.write_at

    def noted(file: SimFile, position: int, parts: Sequence[Buffer]) -> int:
        written.append(file.path)
        return write_at(file, position, parts)

    async def story(clients: list[Client], machine: Machine) -> None:
        monkeypatch.setattr(SimFile, "write_at", noted)
        requests = [produce("events", batch(b"%d" % number)) for number in range(CLIENTS)]
        answers = await ask_all(clients, *requests)
        assert written == ["/data/events-0/00000000000000000000.log"]
        results = [only(answer) for answer in answers]
        assert {result.error_code for result in results} == {0}
        assert sorted(result.base_offset for result in results) == list(range(2, CLIENTS + 2))
        stored = values(only(await clients[0].ask(fetch("events", wanted()), 12)).records)
        for number, result in enumerate(results):
            assert stored[result.base_offset] == b"%d" % number

    tell(story)


def test_requests_without_acks_of_one_client_share_one_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count = 3 * GATHERED_PRODUCES_MAX
    writes: list[int] = []
    write_at = SimFile.write_at

    def noted(file: SimFile, position: int, parts: Sequence[Buffer]) -> int:
        writes.append(position)
        return write_at(file, position, parts)

    async def story(clients: list[Client], machine: Machine) -> None:
        monkeypatch.setattr(SimFile, "write_at", noted)
        silent = [
            framed(produce("events", batch(b"%d" % number), acks=0)) for number in range(count)
        ]
        last = framed(produce("events", batch(b"last")))
        answer = decode_response(
            await clients[0].exchange(b"".join([*silent, last])), APIS[PRODUCE_KEY], 9
        )
        assert only(answer).base_offset == len(FIRST) + count
        assert len(writes) < count / 50
        wide = wanted(bytes_max=1 << 24)
        stored = values(only(await clients[0].ask(fetch("events", wide), 12)).records)
        assert stored == [*FIRST, *[b"%d" % number for number in range(count)], b"last"]

    tell(story)


def test_a_refused_request_does_not_affect_the_others() -> None:
    async def story(clients: list[Client], machine: Machine) -> None:
        torn = batch(b"torn")
        torn[CRC_START + 3] ^= 1
        good = [produce("events", batch(b"good")) for _ in range(4)]
        late = produce("events", batch(b"late", timestamp_ms=NOW_MS + 10**10))
        answers = await ask_all(clients, produce("events", torn), *good, late)
        codes = [only(answer).error_code for answer in answers]
        assert codes == [
            ErrorCode.CORRUPT_MESSAGE,
            *[0] * 4,
            ErrorCode.INVALID_TIMESTAMP,
        ]
        stored = values(only(await clients[0].ask(fetch("events", wanted()), 12)).records)
        assert stored == [*FIRST, *[b"good"] * 4]

    tell(story)


def test_gathered_produces_may_differ_in_partition_topic_and_acks() -> None:
    async def story(clients: list[Client], machine: Machine) -> None:
        requests = [
            produce("events", batch(b"a"), acks=1),
            produce("events", batch(b"b"), acks=-1),
            produce("events", batch(b"c"), partition=1),
            produce("events", batch(b"d"), partition=1),
            produce("events", batch(b"e"), batch(b"f")),
            produce("nothing", batch(b"g")),
            produce("events", batch(b"h"), partition=7),
        ]
        answers = await ask_all(clients, *requests)
        codes = [
            [result.error_code for result in answer.responses[0].partition_responses]
            for answer in answers
        ]
        assert codes == [[0], [0], [0], [0], [0, 0], [3], [3]]
        first = values(only(await clients[0].ask(fetch("events", wanted(0)), 12)).records)
        second = values(only(await clients[0].ask(fetch("events", wanted(1)), 12)).records)
        assert (first[:2], set(first[2:])) == (FIRST, {b"a", b"b", b"e"})
        assert set(second) == {b"c", b"d", b"f"}

    tell(story)


def test_a_producer_that_repeats_itself_on_two_connections_is_written_once() -> None:
    async def story(clients: list[Client], machine: Machine) -> None:
        def numbered(sequence: int) -> Any:
            made = batch(b"%d" % sequence, producer_id=5, producer_epoch=0, base_sequence=sequence)
            return produce("events", made)

        await clients[0].ask(numbered(0), 9)
        answers = await ask_all(clients, numbered(1), numbered(1), numbered(1))
        assert {only(answer).base_offset for answer in answers} == {3}
        stored = values(only(await clients[0].ask(fetch("events", wanted()), 12)).records)
        assert stored == [*FIRST, b"0", b"1"]

    tell(story)


def test_a_waiting_fetch_is_woken_by_what_was_gathered() -> None:
    async def story(clients: list[Client], machine: Machine) -> None:
        waiting = asyncio.ensure_future(
            clients[0].ask(fetch("events", wanted(0, 2), wait_ms=60_000), 12)
        )
        await asyncio.sleep(0.1)
        await ask_all(clients[1:], *[produce("events", batch(b"new")) for _ in range(5)])
        stored = values(only(await waiting).records)
        assert stored
        assert set(stored) == {b"new"}

    tell(story)


@pytest.mark.parametrize(
    ("error", "expected"), [(errno.ENOSPC, 0), (errno.EIO, ErrorCode.KAFKA_STORAGE_ERROR)]
)
def test_a_disk_error_acknowledges_nothing_that_is_not_written(error: int, expected: int) -> None:
    """On a full disk each batch is tried by itself; a disk that fails takes the log offline."""

    async def story(clients: list[Client], machine: Machine) -> None:
        machine.disk.faults.fail_next_write("*events-0*.log", error=error)
        answers = await ask_all(clients, *[produce("events", batch(b"new")) for _ in range(6)])
        assert {only(answer).error_code for answer in answers} == {expected}
        if not expected:
            stored = values(only(await clients[0].ask(fetch("events", wanted()), 12)).records)
            assert stored == [*FIRST, *[b"new"] * 6]

    tell(story)


def test_a_request_that_is_not_gathered_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(clients: list[Client], machine: Machine) -> None:
        reads: list[int] = []
        read = native_produce.read
        monkeypatch.setattr(
            native_produce, "read", lambda frame: (reads.append(len(frame)), read(frame))[1]
        )
        several = produce("events", batch(b"a"), batch(b"b"))
        (topic,) = (await clients[0].ask(several, 9)).responses
        assert [each.error_code for each in topic.partition_responses] == [0, 0]
        assert reads == [], "it was read when it was not gathered"

    tell(story)


def test_a_frame_is_not_taken_for_the_one_that_was_declined_before_it() -> None:
    async def story(clients: list[Client], machine: Machine) -> None:
        await asyncio.sleep(1)
        _, session = await begun(machine)
        dispatch, connection = session.handler, cast("Any", SimpleNamespace(session=session))
        declined = memoryview(framed(produce("events", batch(b"a"), batch(b"b"))))[4:]
        other = memoryview(framed(produce("events", batch(b"c"), partition=1)))[4:]
        assert not dispatch.gather(declined, connection)
        for count in (1, 2):
            assert isinstance(dispatch.handle(other, connection), list)
            stored = only(await clients[0].ask(fetch("events", wanted(1)), 12)).records
            assert values(stored) == [b"c"] * count

    tell(story)


# Transactional requests


class AnyTransaction:
    """A coordinator that knows every transaction."""

    def __init__(self) -> None:
        self.asked = 0

    async def verify(self, verification: Verification) -> Mapping[TopicPartition, ErrorCode]:
        self.asked += 1
        await asyncio.sleep(max(0.1 - self.asked / 100, 0))  # later answers come sooner
        return dict.fromkeys(verification.partitions, ErrorCode.NONE)


def in_transaction(
    producer_id: int, sequence: int, *, acks: int = -1, is_named: bool = True
) -> ProduceRequest:
    records = batch(
        b"%d" % producer_id,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    transactional_id = f"t{producer_id}" if is_named else None
    return produce("events", records, acks=acks, transactional_id=transactional_id)


async def known_transactions(machine: Machine) -> AnyTransaction:
    await asyncio.sleep(1)  # all clients are connected then
    _, session = await begun(machine)
    services, coordinator = services_of(session), AnyTransaction()
    services.coordinators = replace(services.coordinators, verifier=coordinator)
    return coordinator


def test_batches_of_open_transactions_share_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    write_at = SimFile.write_at

    def noted(file: SimFile, position: int, parts: Sequence[Buffer]) -> int:
        written.append(file.path)
        return write_at(file, position, parts)

    async def story(clients: list[Client], machine: Machine) -> None:
        coordinator = await known_transactions(machine)
        for sequence in range(2):
            if sequence:
                monkeypatch.setattr(SimFile, "write_at", noted)
            requests = [in_transaction(producer_id, sequence) for producer_id in range(CLIENTS)]
            requests[3] = produce("events", batch(b"plain"))
            for answer in await ask_all(clients, *requests):
                assert only(answer).error_code == 0
            # Each of the first batches begins a transaction, and is verified by itself.
            assert coordinator.asked == CLIENTS - 1
        assert written == ["/data/events-0/00000000000000000000.log"]

    tell(story)


def test_batches_without_a_transactional_id_do_not_hide_among_those_that_have_one() -> None:
    async def story(clients: list[Client], machine: Machine) -> None:
        await known_transactions(machine)
        await ask_all(clients, *(in_transaction(producer_id, 0) for producer_id in range(3)))
        requests = [in_transaction(number, 1, is_named=number != 1) for number in range(3)]
        answers = await ask_all(clients, *requests)
        assert [only(answer).error_code for answer in answers] == [0, 53, 0]

    tell(story)


def test_transactional_batches_without_answers_keep_their_order() -> None:
    async def story(clients: list[Client], machine: Machine) -> None:
        coordinator = await known_transactions(machine)
        # After one request without an answer the broker gathers several of them.
        await clients[0].send_bytes(framed(produce("events", batch(b"plain"), acks=0)) * 2)
        await asyncio.sleep(1)
        sent = [framed(in_transaction(5, sequence, acks=0)) for sequence in range(10)]
        await clients[0].send_bytes(b"".join(sent))
        await asyncio.sleep(1)
        stored = values(only(await clients[0].ask(fetch("events", wanted()), 12)).records)
        assert (stored, coordinator.asked) == ([*FIRST, *[b"plain"] * 2, *[b"5"] * 10], 1)

    tell(story)
