"""TxnOffsetCommit and OffsetFetch: members, verification, stable offsets, deletion."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from ottla.broker.requests.services import Services
from ottla.errors import ErrorCode
from ottla.metadata.topic_names import CONSUMER_OFFSETS
from ottla.protocol.batch import MarkerKind
from ottla.protocol.messages import delete_groups, offset_delete, offset_fetch, txn_offset_commit
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.delete_topics import Topic as DeletedTopic
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.replication.append.transaction_marker import TransactionMarker
from tests.sim.seams.loop import run
from tests.support.broker.group_requests import (
    COMMIT_VERSION,
    QUICK,
    codes,
    commit,
    committed,
    find,
    join,
)
from tests.support.broker.recorded_answers import (
    SETTINGS,
    Pair,
    comparable,
    ours,
    recorded_machine,
    recordings,
)
from tests.support.broker.sessions import begun, services_of
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic, with_broker
from tests.support.broker.transactional_producer import ScriptedCoordinator
from tests.support.broker.transactional_requests import Producer

NONE = ErrorCode.NONE
NO_OFFSET = -1
BOTH = pytest.mark.parametrize("version", [1, 2])


async def begin(client: Client, version: int = 2) -> Producer:
    """A topic of two partitions, the coordinator of group `g`, and a producer."""
    await create(client, new_topic("events", 2))
    await find(client, "g")
    producer = Producer(client, version=version)
    await producer.begin()
    return producer


async def fetched(
    client: Client,
    *indexes: int,
    is_stable_required: bool = True,
    version: int = 9,
    topic_id: Any = ZERO_UUID,
) -> list[tuple[int, int]]:
    """The offset and the error code of these partitions; without an index, of all."""
    name = "events" if version < 10 else ""
    topic = offset_fetch.Topic(name=name, topic_id=topic_id, partition_indexes=indexes)
    topics = (topic,) if indexes else None
    fields: dict[str, Any] = {"groups": (offset_fetch.Group(group_id="g", topics=topics),)}
    if version < 8:
        fields = {"group_id": "g", "topics": topics}
    request = offset_fetch.OffsetFetchRequest(require_stable=is_stable_required, **fields)
    response = await client.ask(request, version)
    found = response.topics if version < 8 else response.groups[0].topics
    return [
        (each.committed_offset, each.error_code) for topic in found for each in topic.partitions
    ]


# Stable offsets


@pytest.mark.parametrize("version", [7, 8, 9])
def test_offsets_of_an_open_transaction_are_unstable_also_where_nothing_is_committed(
    version: int,
) -> None:
    unstable = NO_OFFSET, ErrorCode.UNSTABLE_OFFSET_COMMIT

    async def story(client: Client) -> None:
        producer = await begin(client)
        await client.ask(commit("g", "events", {0: 5}), COMMIT_VERSION)
        assert await producer.commit_offsets("g", "events", {0: 7, 1: 8}) == [NONE, NONE]
        assert await fetched(client, 0, 1, version=version) == [unstable, unstable]
        # Of all partitions those that have a committed offset are named.
        assert await fetched(client, version=version) == [unstable]
        plain = await fetched(client, 0, 1, is_stable_required=False, version=version)
        assert plain == [(5, NONE), (NO_OFFSET, NONE)]
        assert await producer.end() == NONE
        assert await fetched(client, 0, 1, version=version) == [(7, NONE), (8, NONE)]

    with_broker(story)


def test_stable_offsets_may_be_required_of_a_topic_by_its_id() -> None:
    async def story(client: Client) -> None:
        producer = await begin(client)
        (created,) = await create(client, new_topic("other"))
        assert await producer.commit_offsets("g", "other", {0: 7}) == [NONE]
        topic_id = created.topic_id
        assert await fetched(client, 0, version=10, topic_id=topic_id) == [
            (NO_OFFSET, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        ]

    with_broker(story)


def test_an_aborted_transaction_leaves_the_offset_that_was_committed_before() -> None:
    async def story(client: Client) -> None:
        producer = await begin(client)
        await client.ask(commit("g", "events", {0: 5}), COMMIT_VERSION)
        assert await producer.commit_offsets("g", "events", {0: 7}) == [NONE]
        assert await producer.end(committed=False) == NONE
        assert await fetched(client, 0) == [(5, NONE)]

    with_broker(story)


def test_a_plain_commit_that_follows_a_transactional_one_wins_also_after_a_restart() -> None:
    machine = Machine()
    expected = {("events", 0): 5, ("events", 1): 8}

    async def tell() -> None:
        async with machine.broker() as client:
            producer = await begin(client)
            assert await producer.commit_offsets("g", "events", {0: 7, 1: 8}) == [NONE, NONE]
            assert codes(await client.ask(commit("g", "events", {0: 5}), COMMIT_VERSION)) == [NONE]
            assert await producer.end() == NONE
            assert await committed(client, "g") == expected
        async with machine.broker() as client:
            assert await committed(client, "g") == expected

    run(tell(), clock=machine.clock)


def test_two_commits_of_a_transaction_count_together() -> None:
    async def story(client: Client) -> None:
        producer = await begin(client)
        assert await producer.commit_offsets("g", "events", {0: 7, 1: 8}) == [NONE, NONE]
        assert await producer.commit_offsets("g", "events", {0: 9}) == [NONE]
        assert await producer.end() == NONE
        assert await committed(client, "g") == {("events", 0): 9, ("events", 1): 8}

    with_broker(story)


# Partitions and members


def test_unknown_partitions_are_refused_alone() -> None:
    async def story(client: Client) -> None:
        producer = await begin(client)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await producer.commit_offsets("g", "events", {0: 7, 2: 8}) == [NONE, unknown]
        assert await producer.commit_offsets("g", "nothing", {0: 7}) == [unknown]
        assert await producer.end() == NONE
        assert await committed(client, "g") == {("events", 0): 7}

    with_broker(story)


@BOTH
def test_a_member_is_checked_and_a_producer_that_names_none_is_not(version: int) -> None:
    async def story(client: Client) -> None:
        producer = await begin(client, version)
        joined = await join(client, "g")
        member = {"member_id": joined.member_id, "generation_id": joined.generation_id}
        for fields, code in [
            (member, NONE),
            ({}, NONE),
            ({**member, "generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
            ({**member, "member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({**member, "member_id": ""}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({**member, "group_instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ]:
            assert await producer.commit_offsets("g", "events", {0: 7}, **fields) == [code], fields

    with_broker(story, **QUICK)


def test_a_generation_of_a_group_that_does_not_exist_is_illegal() -> None:
    async def story(client: Client) -> None:
        producer = await begin(client)
        refused = await producer.commit_offsets("g", "events", {0: 7}, generation_id=1)
        assert refused == [ErrorCode.ILLEGAL_GENERATION]
        assert (await client.ask(ListGroupsRequest())).groups == ()

    with_broker(story)


# As Kafka answers

RECORDED_TOPIC = "vec-tx-80348"


def test_recorded_requests_are_answered_as_kafka_answered() -> None:
    """The commits of one topic, and then the fetches of its unstable offsets."""
    machine = recorded_machine()
    compared: set[tuple[int, int, int]] = set()

    async def tell() -> None:
        async with machine.broker(**SETTINGS) as admin:
            await find(admin, "g")
            client, session = await begun(machine)
            services = services_of(session)
            services.coordinators = replace(
                services.coordinators, verifier=ScriptedCoordinator(NONE)
            )
            by_id = [pair for pair in recorded(9) if "topicId" in json.dumps(pair["requestJson"])]
            asked_id = by_id[0]["requestJson"]["groups"][0]["topics"][0]["topicId"]
            machine.entropy.ids.append(Uuid.parse(asked_id))
            await create(client, new_topic(RECORDED_TOPIC, 2))
            # The commits of members that do not exist came last.
            for pair in (*sorted(recorded(28), key=lambda pair: pair["errors"]), *recorded(9)):
                found = comparable(await ours(client, pair))
                assert found == comparable(pair["responseJson"]), pair
                compared.update(
                    (pair["key"], pair["version"], code) for code in pair["errors"] or (0,)
                )

    run(tell(), clock=machine.clock)
    assert compared == {
        *((28, version, 0) for version in range(6)),
        *((28, version, 25) for version in (3, 4, 5)),
        *((9, version, 88) for version in (7, 8, 9, 10)),
    }


def recorded(key: int) -> list[Pair]:
    """The recorded commits and fetches of unstable offsets of one group."""
    return [
        pair
        for pair in recordings(key)
        if "vec-txg-80348" in json.dumps(pair["requestJson"])
        and (key == 28 or 88 in pair["errors"])
    ]


# Verification


Story = Callable[["Stage"], Coroutine[Any, Any, None]]


class Stage:
    """A client of a broker whose transaction coordinator answers as told."""

    def __init__(
        self,
        client: Client,
        services: Services,
        coordinator: ScriptedCoordinator,
        machine: Machine,
    ) -> None:
        self.client = client
        self.machine = machine
        self.services = services
        self.coordinator = coordinator

    @property
    def shard(self) -> Any:
        return self.services.coordinators.groups.of("g")

    async def commit(
        self,
        offsets: dict[int, int],
        version: int = 5,
        *,
        group_id: str = "g",
        transactional_id: str = "t",
        producer_id: int = 7,
        epoch: int = 1,
    ) -> list[int]:
        request = txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=group_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=(
                txn_offset_commit.Topic(
                    name="events",
                    partitions=tuple(
                        txn_offset_commit.Partition(
                            partition_index=index, committed_offset=offset, committed_metadata=None
                        )
                        for index, offset in offsets.items()
                    ),
                ),
            ),
        )
        return codes(await self.client.ask(request, version))

    def end(self, kind: MarkerKind = MarkerKind.COMMIT, epoch: int = 1) -> None:
        self.shard.append_marker(TransactionMarker(7, epoch, kind, 0))

    def pending(self) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = self.shard.machine.offsets.pending.partitions("g")
        return found


def on_stage(story: Story, *answers: ErrorCode, **settings: str) -> None:
    machine = Machine()

    async def tell() -> None:
        async with machine.broker(**settings) as admin:
            await create(admin, new_topic("events", 2))
            await find(admin, "g")
            client, session = await begun(machine)
            services = services_of(session)
            coordinator = ScriptedCoordinator(*answers)
            services.coordinators = replace(services.coordinators, verifier=coordinator)
            stage = Stage(client, services, coordinator, machine)
            await story(stage)
            replica = stage.shard.replica
            assert not replica.verifications._used, "a guard was not ended"

    run(tell(), clock=machine.clock)


@pytest.mark.parametrize("version", range(6))
def test_the_coordinator_is_asked_once_per_transaction(version: int) -> None:
    async def story(stage: Stage) -> None:
        for asked, epoch in ((1, 1), (1, 1), (2, 2)):
            assert await stage.commit({0: 5, 1: 6}, version, epoch=epoch) == [NONE, NONE]
            assert len(stage.coordinator.asked) == asked
        stage.end(epoch=2)
        assert await stage.commit({0: 5}, version, epoch=2) == [NONE]
        assert len(stage.coordinator.asked) == 3
        verification = stage.coordinator.asked[-1]
        index = stage.services.coordinators.groups.partition_of("g")
        assert verification.partitions == ((CONSUMER_OFFSETS, index),)
        assert verification[:3] == ("t", 7, 2)
        # From v5 on the producer does not send AddOffsetsToTxn.
        assert verification.adds is (version >= 5)

    on_stage(story)


@pytest.mark.parametrize(
    ("told", "version", "code"),
    [
        (ErrorCode.PRODUCER_FENCED, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_EPOCH, 3, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 5, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 5, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 3, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.NETWORK_EXCEPTION, 2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NETWORK_EXCEPTION, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 5, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_COORDINATOR, 5, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_the_coordinators_errors_have_kafkas_codes(
    told: ErrorCode, version: int, code: ErrorCode
) -> None:
    async def story(stage: Stage) -> None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await stage.commit({0: 5, 9: 6, 1: 7}, version) == [code, unknown, code]
        assert stage.pending() == []
        assert await stage.commit({0: 5}, version) == [NONE]

    on_stage(story, told, NONE)


def test_a_request_without_an_existing_partition_asks_no_coordinator() -> None:
    async def story(stage: Stage) -> None:
        assert await stage.commit({9: 6}, group_id="") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert stage.coordinator.asked == []

    on_stage(story)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"producer_id": -1}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"epoch": -1}, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_forged_requests_are_refused_even_if_nothing_is_verified(
    fields: dict[str, Any], code: ErrorCode
) -> None:
    async def story(stage: Stage) -> None:
        assert await stage.commit({0: 5}, **fields) == [code]
        assert stage.coordinator.asked == []
        assert await stage.commit({0: 5}) == [NONE]

    on_stage(story)


def test_a_producer_that_is_fenced_in_the_partition_is_refused_and_the_shard_goes_on() -> None:
    async def story(stage: Stage) -> None:
        assert await stage.commit({0: 5}, epoch=2) == [NONE]
        shard = stage.shard
        assert await stage.commit({0: 6}, epoch=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert await stage.commit({0: 7}, epoch=2) == [NONE]
        assert stage.shard is shard
        stage.end(epoch=2)
        assert await committed(stage.client, "g") == {("events", 0): 7}

    on_stage(story)


def test_a_marker_written_during_the_verification_refuses_the_commit() -> None:
    """Otherwise no marker would end the transaction that the commit begins."""

    async def story(stage: Stage) -> None:
        stage.coordinator.may_answer.clear()
        committing = asyncio.create_task(stage.commit({0: 5}))
        await asyncio.sleep(1)
        stage.end(MarkerKind.ABORT)
        stage.coordinator.may_answer.set()
        assert await committing == [ErrorCode.INVALID_TXN_STATE]
        assert stage.pending() == []
        assert stage.shard.replica.last_stable_offset == stage.shard.replica.high_watermark

    on_stage(story)


def test_a_topic_deleted_during_the_verification_gets_no_offset() -> None:
    async def story(stage: Stage) -> None:
        stage.coordinator.may_answer.clear()
        committing = asyncio.create_task(stage.commit({0: 5}))
        await asyncio.sleep(1)
        await delete_topic(stage)
        stage.coordinator.may_answer.set()
        assert await committing == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert stage.pending() == []

    on_stage(story)


async def delete_topic(stage: Stage) -> None:
    """By a second connection: the first one has a request in progress."""
    admin = await stage.machine.client()
    topic = DeletedTopic(name="events", topic_id=ZERO_UUID)
    await admin.ask(DeleteTopicsRequest(topics=(topic,), timeout_ms=1_000))
    admin.close()
    assert stage.services.image.topic("events") is None


def test_a_client_that_goes_away_during_the_verification_leaves_nothing_behind() -> None:
    async def story(stage: Stage) -> None:
        stage.coordinator.may_answer.clear()
        committing = asyncio.create_task(stage.commit({0: 5}))
        await asyncio.sleep(1)
        stage.client.close()
        await asyncio.sleep(1)
        stage.coordinator.may_answer.set()
        await asyncio.sleep(1)
        assert stage.pending() == []
        with pytest.raises(ConnectionError):
            await committing

    on_stage(story)


# Deletion


def test_a_group_is_deleted_with_the_offsets_of_open_transactions() -> None:
    async def story(client: Client) -> None:
        producer = await begin(client)
        assert await producer.commit_offsets("g", "events", {0: 7}) == [NONE]
        assert [each.group_id for each in (await client.ask(ListGroupsRequest())).groups] == ["g"]
        deleted = await client.ask(delete_groups.DeleteGroupsRequest(groups_names=("g",)))
        assert [each.error_code for each in deleted.results] == [NONE]
        assert (await client.ask(ListGroupsRequest())).groups == ()
        assert await fetched(client, 0) == [(NO_OFFSET, NONE)]
        assert await producer.end() == NONE
        assert await committed(client, "g") == {}

    with_broker(story)


def test_a_deleted_offset_does_not_come_back_with_the_end_of_its_transaction() -> None:
    async def story(client: Client) -> None:
        producer = await begin(client)
        assert await producer.commit_offsets("g", "events", {0: 7, 1: 8}) == [NONE, NONE]
        topic = offset_delete.Topic(
            name="events", partitions=(offset_delete.Partition(partition_index=0),)
        )
        request = offset_delete.OffsetDeleteRequest(group_id="g", topics=(topic,))
        assert codes(await client.ask(request)) == [NONE]
        assert await producer.end() == NONE
        assert await committed(client, "g") == {("events", 1): 8}

    with_broker(story)


def test_a_group_with_an_open_transaction_outlives_its_retention() -> None:
    retention_s = 60

    async def story(stage: Stage) -> None:
        client = stage.client
        await client.ask(commit("g", "events", {0: 5}), COMMIT_VERSION)
        assert await stage.commit({0: 7, 1: 8}) == [NONE, NONE]
        await asyncio.sleep(2 * retention_s)
        assert await committed(client, "g") == {("events", 0): 5}
        stage.end(MarkerKind.ABORT)
        await asyncio.sleep(2 * retention_s)
        assert (await client.ask(ListGroupsRequest())).groups == ()

    on_stage(story, offsets_retention_minutes="1", offsets_retention_check_interval_ms="1000")
