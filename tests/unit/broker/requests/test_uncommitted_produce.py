"""Produce requests with acks=all that wait for replicas: gathered, pipelined and refused."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from ottla.broker.requests.produce_fast_path import PRODUCE_KEY
from ottla.broker.requests.uncommitted_produce import (
    WAITING_BATCH_BYTES,
    begin_wait,
    native_outcomes,
)
from ottla.errors import ErrorCode
from ottla.protocol.exchange import decode_response
from ottla.protocol.messages import APIS
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    Entity,
    Entry,
    Operation,
)
from ottla.replication.append.acknowledgement import CommitWait
from ottla.seams.files import Buffer
from tests.sim.seams.files import SimFile
from tests.support.broker.cluster import Cluster, with_cluster
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.sessions import IN_ONE_PIECE, by_codec
from tests.support.broker.simulated_broker import Client, encoded
from tests.unit.broker.node.test_replication import (
    FAST,
    LAG_S,
    bytes_of,
    cut_off,
    heal,
    led,
    replica_of,
)

CLIENTS = 8
VERSION = 9


def tell(story: Any, **settings: str) -> None:
    """Runs a story with three brokers and frames that arrive in one piece."""
    cluster = Cluster(3, **{**FAST, **settings})
    cluster.machines[0].network.conditions = IN_ONE_PIECE
    with_cluster(story, cluster)


async def begun(cluster: Cluster) -> tuple[int, list[int], list[Client]]:
    """A topic with one record, its leader and followers, and clients of the leader."""
    leader_id, followers, client = await led(cluster, min_insync_replicas="2")
    for value in (b"one", b"two"):
        await client.ask(produce("orders", batch(value)), VERSION)
    others = [await cluster.client(leader_id) for _ in range(CLIENTS - 1)]
    await asyncio.sleep(1)
    return leader_id, followers, [client, *others]


def hold_back(cluster: Cluster, followers: Sequence[int]) -> None:
    for follower in followers:
        cut_off(cluster, follower)


def sent(value: bytes, *, acks: int = -1, timeout_ms: int = 60_000, **fields: Any) -> bytes:
    request = produce("orders", batch(value, **fields), acks=acks, timeout_ms=timeout_ms)
    return encoded(request, VERSION)


def numbered(sequence: int, **options: Any) -> bytes:
    """A batch of an idempotent producer."""
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
    return sent(b"%d" % sequence, **options, **producer)


async def answer(client: Client) -> Any:
    frame = await asyncio.wait_for(client.next_frame(), 30)
    return only(decode_response(frame, APIS[PRODUCE_KEY], VERSION))


async def contents(client: Client) -> list[bytes | None]:
    found = only(await client.ask(fetch("orders", wanted(0, 0)), 12))
    return values(found.records)


def test_produces_of_one_turn_are_written_together_and_wait_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[str] = []
    waits: list[int] = []
    write_at, init = SimFile.write_at, CommitWait.__init__

    def noted(file: SimFile, position: int, parts: Sequence[Buffer]) -> int:
        written.append(file.path)
        return write_at(file, position, parts)

    def counted(wait: CommitWait, appends: Any, wait_ms: int) -> None:
        waits.append(wait_ms)
        init(wait, appends, wait_ms)

    async def story(cluster: Cluster) -> None:
        leader_id, followers, clients = await begun(cluster)
        monkeypatch.setattr(CommitWait, "__init__", counted)
        hold_back(cluster, followers)
        monkeypatch.setattr(SimFile, "write_at", noted)
        for number, client in enumerate(clients):
            # One asks for acks=1, one for none; one has another timeout.
            acks = {3: 1, 4: 0}.get(number, -1)
            timeout_ms = 50_000 if number == 5 else 60_000
            await client.send_bytes(sent(b"%d" % number, acks=acks, timeout_ms=timeout_ms))
        await asyncio.sleep(0.1)
        assert written == ["/data/orders-0/00000000000000000000.log"]
        assert sorted(waits) == [50_000, 60_000]
        replica = replica_of(cluster, leader_id)
        assert (replica.high_watermark, replica.end_offset) == (2, 2 + CLIENTS)
        assert (await answer(clients[3])).error_code == ErrorCode.NONE, "acks=1 does not wait"
        heal(cluster)
        found = [
            await answer(client) for number, client in enumerate(clients) if number not in (3, 4)
        ]
        assert {each.error_code for each in found} == {ErrorCode.NONE}
        stored = await contents(clients[0])
        for number, result in zip((0, 1, 2, 5, 6, 7), found, strict=True):
            assert stored[result.base_offset] == b"%d" % number
        assert replica.commits.waiters == type(replica.commits.waiters)()
        logs = [bytes_of(replica_of(cluster, each)) for each in (1, 2, 3)]
        assert logs[0] == logs[1] == logs[2]

    tell(story)


def test_gathered_produces_that_wait_too_long_are_told_so() -> None:
    async def story(cluster: Cluster) -> None:
        leader_id, followers, clients = await begun(cluster)
        hold_back(cluster, followers)
        for number, client in enumerate(clients):
            await client.send_bytes(sent(b"%d" % number, timeout_ms=500 + 100 * (number % 2)))
        began_s = asyncio.get_running_loop().time()
        for parity in (0, 1):
            found = [await answer(client) for client in clients[parity::2]]
            took_ms = (asyncio.get_running_loop().time() - began_s) * 1000
            assert {each.error_code for each in found} == {ErrorCode.REQUEST_TIMED_OUT}
            assert 500 + 100 * parity <= took_ms <= 520 + 100 * parity
        assert len(replica_of(cluster, leader_id).commits) == 0

    tell(story)


def test_gathered_produces_are_refused_when_too_few_are_in_sync() -> None:
    async def story(cluster: Cluster) -> None:
        leader_id, followers, clients = await begun(cluster)
        hold_back(cluster, followers)
        for client in clients:
            await client.send_bytes(sent(b"late"))
        late = [await answer(client) for client in clients]
        after_append = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert {each.error_code for each in late} == {after_append}
        assert sorted(each.base_offset for each in late) == list(range(2, 2 + CLIENTS))
        end_offset = replica_of(cluster, leader_id).end_offset
        for number, client in enumerate(clients):
            await client.send_bytes(sent(b"refused", acks=1 if number == 3 else -1))
        found = [(await answer(client)).error_code for client in clients]
        refused = ErrorCode.NOT_ENOUGH_REPLICAS
        assert found == [refused] * 3 + [ErrorCode.NONE] + [refused] * (CLIENTS - 4)
        assert replica_of(cluster, leader_id).end_offset == end_offset + 1

    tell(story)


def test_waiting_produces_are_refused_when_leadership_is_lost() -> None:
    async def story(cluster: Cluster) -> None:
        leader_id, followers, clients = await begun(cluster)
        hold_back(cluster, followers)
        await clients[0].send_bytes(b"".join(numbered(number) for number in range(3)))
        await clients[1].send_bytes(sent(b"other"))
        await asyncio.sleep(0.1)
        cluster.expire(leader_id)
        found = [await answer(clients[0]) for _ in range(3)] + [await answer(clients[1])]
        assert {each.error_code for each in found} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}

    tell(story)


def test_an_idempotent_producer_has_five_requests_in_flight() -> None:
    async def story(cluster: Cluster) -> None:
        leader_id, followers, clients = await begun(cluster)
        client = clients[0]
        hold_back(cluster, followers)
        await client.send_bytes(b"".join(numbered(number) for number in range(5)))
        await asyncio.sleep(0.1)
        replica = replica_of(cluster, leader_id)
        assert (replica.high_watermark, replica.end_offset) == (2, 7)
        # The last one again: it waits for the offset of the first append.
        await client.send_bytes(numbered(4))
        await asyncio.sleep(0.1)
        assert (replica.end_offset, len(replica.commits)) == (7, 6)
        heal(cluster)
        found = [await answer(client) for _ in range(6)]
        assert [each.base_offset for each in found] == [2, 3, 4, 5, 6, 6]
        assert {each.error_code for each in found} == {ErrorCode.NONE}
        assert await contents(client) == [b"one", b"two", b"0", b"1", b"2", b"3", b"4"]

    tell(story)


def test_a_refused_batch_in_the_middle_is_answered_in_its_turn() -> None:
    async def story(cluster: Cluster) -> None:
        _, followers, clients = await begun(cluster)
        client = clients[0]
        hold_back(cluster, followers)
        # The second leaves a gap in the sequence. The last is answered at once.
        frames = [numbered(0), numbered(5), numbered(1), sent(b"x", acks=1)]
        await client.send_bytes(b"".join(frames))
        await asyncio.sleep(0.1)
        heal(cluster)
        found = [await answer(client) for _ in range(4)]
        gap = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert [each.error_code for each in found] == [0, gap, 0, 0]
        assert [each.base_offset for each in found] == [2, -1, 3, 4]

    tell(story)


def test_a_request_for_several_partitions_answers_each_by_itself() -> None:
    async def story(cluster: Cluster) -> None:
        _, followers, clients = await begun(cluster)
        client = clients[0]
        hold_back(cluster, followers)
        request = produce("orders", batch(b"a"), batch(b"nowhere"), timeout_ms=60_000)
        await client.send_bytes(encoded(request, VERSION))
        await asyncio.sleep(0.1)
        heal(cluster)
        frame = await asyncio.wait_for(client.next_frame(), 30)
        (topic,) = decode_response(frame, APIS[PRODUCE_KEY], VERSION).responses
        found = [(each.index, each.error_code) for each in topic.partition_responses]
        assert found == [(0, ErrorCode.NONE), (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]

    tell(story)


def test_a_request_that_the_codec_reads_waits_too() -> None:
    async def story(cluster: Cluster) -> None:
        leader_id, followers, clients = await begun(cluster)
        client = clients[0]
        hold_back(cluster, followers)
        await client.send_bytes(by_codec(numbered(0)) + numbered(1))
        await asyncio.sleep(0.1)
        assert replica_of(cluster, leader_id).end_offset == 3, "nothing overtakes it"
        heal(cluster)
        found = [await answer(client) for _ in range(2)]
        assert [(each.error_code, each.base_offset) for each in found] == [(0, 2), (0, 3)]

    tell(story)


def test_a_client_that_disconnects_leaves_the_queue_at_once() -> None:
    async def story(cluster: Cluster) -> None:
        leader_id, followers, clients = await begun(cluster)
        hold_back(cluster, followers)
        await clients[0].send_bytes(b"".join(numbered(number) for number in range(3)))
        for client in clients[1:]:
            await client.send_bytes(sent(b"together"))
        await asyncio.sleep(0.1)
        commits = replica_of(cluster, leader_id).commits
        assert len(commits) == 4
        clients[0].close()
        await asyncio.sleep(0.1)
        assert len(commits) == 1
        for client in clients[2:]:
            client.close()
        await asyncio.sleep(0.1)
        assert len(commits) == 1, "one of them still waits"
        clients[1].close()
        await asyncio.sleep(0.1)
        assert len(commits) == 0
        heal(cluster)
        await asyncio.sleep(LAG_S)
        assert replica_of(cluster, leader_id).high_watermark == 5 + CLIENTS - 1

    tell(story)


def test_a_client_whose_request_the_codec_reads_leaves_the_queue_too() -> None:
    async def story(cluster: Cluster) -> None:
        leader_id, followers, clients = await begun(cluster)
        hold_back(cluster, followers)
        await clients[0].send_bytes(by_codec(numbered(0)))
        await asyncio.sleep(0.1)
        commits = replica_of(cluster, leader_id).commits
        assert len(commits) == 1
        clients[0].close()
        await asyncio.sleep(0.1)
        assert len(commits) == 0

    tell(story)


async def limit(client: Client, rate: float) -> None:
    entry = Entry(
        entity=(Entity(entity_type="client-id", entity_name=None),),
        ops=(Operation(key="producer_byte_rate", value=rate, remove=False),),
    )
    found = await client.ask(AlterClientQuotasRequest(entries=(entry,), validate_only=False))
    assert [each.error_code for each in found.entries] == [0]


def test_a_producer_within_its_quota_has_several_in_flight_and_one_beyond_it_has_not() -> None:
    async def story(cluster: Cluster) -> None:
        leader_id, followers, clients = await begun(cluster)
        client = clients[0]
        await limit(client, 100.0)
        await asyncio.sleep(1)
        hold_back(cluster, followers)
        # The fourth exceeds the burst of the quota.
        await client.send_bytes(b"".join(numbered(number) for number in range(20)))
        await asyncio.sleep(0.1)
        replica = replica_of(cluster, leader_id)
        taken = replica.end_offset - 2
        assert 2 <= taken <= 15
        heal(cluster)
        throttled = []
        for number in range(taken + 1):
            frame = await asyncio.wait_for(client.next_frame(), 60)
            found = decode_response(frame, APIS[PRODUCE_KEY], VERSION)
            assert only(found).base_offset == 2 + number
            throttled.append(found.throttle_time_ms > 0)
        # Only the request that exceeds the quota says so, and nothing is handled behind it.
        assert throttled == [False] * (taken - 1) + [True, True]

    tell(story)


def test_only_offsets_are_answered_natively() -> None:
    class Appended:
        first_offset, start_offset, log_append_time_ms = 5, 1, -1

    class Produced:
        appended: Any = Appended()
        error: Any = None

    plain, refused, stamped, missing = Produced(), Produced(), Produced(), Produced()
    refused.error = ValueError()
    stamped.appended = Appended()
    stamped.appended.log_append_time_ms = 9
    missing.appended = None

    def answers(*outcomes: Any) -> Any:
        return [("orders", list(outcomes))]

    assert native_outcomes(answers(plain, plain)) == [(5, 1), (5, 1)]
    for other in (refused, stamped, missing):
        assert native_outcomes(answers(plain, other)) is None


def test_the_memory_of_a_waiting_request_grows_with_its_batches() -> None:
    async def story() -> None:
        class Refused:
            unacknowledged = None

        answers: Any = [("orders", [Refused()] * 3), ("others", [Refused()])]
        assert begin_wait(answers, 100).size_bytes == 4 * WAITING_BATCH_BYTES

    asyncio.run(story())
