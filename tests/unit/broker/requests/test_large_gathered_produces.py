"""Produces of several kilobytes that arrive in one turn, for partitions with followers."""

import asyncio
from collections.abc import Sequence

import pytest

from ottla.broker.requests.gathering import GATHERED_BYTES_MAX, GATHERED_TOGETHER_BYTES_MAX
from ottla.broker.requests.produce_fast_path import GATHERED_REPLICATED_BYTES_MAX, PRODUCE_KEY
from ottla.errors import ErrorCode
from ottla.protocol.exchange import decode_response
from ottla.protocol.messages import APIS
from ottla.seams.files import Buffer
from tests.sim.seams.files import SimFile
from tests.support.broker.cluster import Cluster
from tests.support.broker.produce_and_fetch import batch, only, produce
from tests.support.broker.simulated_broker import Client, Machine, create, encoded, new_topic
from tests.unit.broker.node.test_replication import bytes_of, replica_of
from tests.unit.broker.requests import test_produce_fast_path as alone
from tests.unit.broker.requests.test_uncommitted_produce import (
    CLIENTS,
    VERSION,
    answer,
    begun,
    heal,
    hold_back,
    sent,
    tell,
)

LARGE_BYTES = 16 << 10


def valued(number: int, size: int = LARGE_BYTES) -> bytes:
    return bytes([number]) * size


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The path and the size of each write to a log, of all brokers."""
    found: list[tuple[str, int]] = []
    write_at = SimFile.write_at

    def noted(file: SimFile, position: int, parts: Sequence[Buffer]) -> int:
        written = write_at(file, position, parts)
        if file.path.endswith(".log"):
            found.append((file.path, written))
        return written

    monkeypatch.setattr(SimFile, "write_at", noted)
    return found


async def send_all(clients: list[Client], *values: bytes, acks: int = -1) -> None:
    for client, value in zip(clients, values, strict=False):
        await client.send_bytes(sent(value, acks=acks))
    await asyncio.sleep(0.1)


def test_large_produces_of_one_turn_are_written_together_and_committed_together(
    writes: list[tuple[str, int]],
) -> None:
    async def story(cluster: Cluster) -> None:
        leader_id, followers, clients = await begun(cluster)
        hold_back(cluster, followers)
        replica = replica_of(cluster, leader_id)
        writes.clear()
        await send_all(clients, *map(valued, range(CLIENTS)))
        assert len(writes) == 1
        assert writes[0][1] > CLIENTS * LARGE_BYTES
        assert len(replica.commits) == 1
        assert (replica.high_watermark, replica.end_offset) == (2, 2 + CLIENTS)
        heal(cluster)
        found = [await answer(client) for client in clients]
        assert {each.error_code for each in found} == {ErrorCode.NONE}
        assert sorted(each.base_offset for each in found) == list(range(2, 2 + CLIENTS))
        await asyncio.sleep(1)
        logs = [bytes_of(replica_of(cluster, each)) for each in (1, 2, 3)]
        assert logs[0] == logs[1] == logs[2]
        for number, result in enumerate(found):
            before = logs[0].index(valued(number))
            assert before // LARGE_BYTES == result.base_offset - 2

    tell(story)


@pytest.mark.parametrize("spoil_at", [0, 3])
def test_a_damaged_one_among_them_is_refused_alone(spoil_at: int) -> None:
    async def story(cluster: Cluster) -> None:
        _, _, clients = await begun(cluster)
        for number, client in enumerate(clients):
            frame = bytearray(sent(valued(number)))
            if number == spoil_at:
                frame[-10] ^= 1
            await client.send_bytes(bytes(frame))
        codes = [(await answer(client)).error_code for client in clients]
        expected = [ErrorCode.NONE] * CLIENTS
        expected[spoil_at] = ErrorCode.CORRUPT_MESSAGE
        assert codes == expected

    tell(story)


@pytest.mark.parametrize(
    ("size", "acks", "count"),
    [
        (GATHERED_REPLICATED_BYTES_MAX - 500, -1, 1),
        (GATHERED_REPLICATED_BYTES_MAX - 500, 1, 1),
        (GATHERED_REPLICATED_BYTES_MAX, -1, CLIENTS),
        (GATHERED_BYTES_MAX, 0, CLIENTS),
    ],
)
def test_larger_ones_and_those_without_acks_are_written_one_by_one(
    writes: list[tuple[str, int]], size: int, acks: int, count: int
) -> None:
    async def story(cluster: Cluster) -> None:
        _, followers, clients = await begun(cluster)
        hold_back(cluster, followers)
        writes.clear()
        await send_all(clients, *[valued(each, size) for each in range(CLIENTS)], acks=acks)
        assert len(writes) == count

    tell(story)


def test_what_is_gathered_has_a_limit(writes: list[tuple[str, int]]) -> None:
    size, count = 30 << 10, 80

    async def story(cluster: Cluster) -> None:
        leader_id, followers, clients = await begun(cluster)
        clients += [await cluster.client(leader_id) for _ in range(count - len(clients))]
        await asyncio.sleep(1)
        hold_back(cluster, followers)
        writes.clear()
        await send_all(clients, *[valued(each, size) for each in range(count)])
        assert len(writes) == -(-count * size // GATHERED_TOGETHER_BYTES_MAX)
        assert all(written <= GATHERED_TOGETHER_BYTES_MAX for _, written in writes)
        assert replica_of(cluster, leader_id).end_offset == 2 + count

    tell(story)


def test_those_of_a_topic_with_one_replica_are_written_one_by_one(
    writes: list[tuple[str, int]],
) -> None:
    async def story(cluster: Cluster) -> None:
        leader_id, _, clients = await begun(cluster)
        await create(clients[0], new_topic("single", -1, factor=-1, assignments={0: (leader_id,)}))
        await asyncio.sleep(1)
        request = produce("single", batch(valued(1)))
        for _ in range(2):
            await clients[0].ask(request, VERSION)
        writes.clear()
        for client in clients:
            await client.send_bytes(encoded(request, VERSION))
        for client in clients:
            frame = await asyncio.wait_for(client.next_frame(), 30)
            assert only(decode_response(frame, APIS[PRODUCE_KEY], VERSION)).error_code == 0
        assert len(writes) == CLIENTS

    tell(story)


def test_a_broker_without_peers_writes_large_ones_one_by_one(
    writes: list[tuple[str, int]],
) -> None:
    async def story(clients: list[Client], machine: Machine) -> None:
        writes.clear()
        requests = [produce("events", batch(valued(number))) for number in range(len(clients))]
        answers = await alone.ask_all(clients, *requests)
        assert {only(each).error_code for each in answers} == {0}
        assert len(writes) == len(clients)

    alone.tell(story)
