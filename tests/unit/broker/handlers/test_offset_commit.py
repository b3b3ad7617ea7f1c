"""OffsetCommit and OffsetFetch: simple consumers, members, restarts, and expiration."""

import asyncio
import base64
import json
from contextlib import suppress
from typing import Any

import pytest

from ottla.broker.node.node import Node
from ottla.coordinators.runtime.shard import Shard
from ottla.errors import ErrorCode, PeerError, StorageError
from ottla.protocol.batch import Record, build
from ottla.protocol.exchange import decode_response
from ottla.protocol.messages import (
    APIS,
    delete_groups,
    describe_groups,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.delete_topics import Topic as DeletedTopic
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, Resource
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest, Member
from ottla.protocol.messages.metadata import MetadataRequest, RequestedTopic
from ottla.protocol.primitives import ZERO_UUID, Uuid
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
from tests.support.broker.nodes import framed, with_node
from tests.support.broker.produce_and_fetch import NOW_MS, only, produce
from tests.support.broker.recorded_answers import (
    SETTINGS,
    comparable,
    create_as_recorded,
    ours,
    recorded_machine,
    recordings,
)
from tests.support.broker.sessions import by_codec
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic, with_broker

TOPICS = ("vec-a-80296", "vec-a-80348")
SECOND_ID = Uuid.parse("38QXhI8nQySP59Mf7D-g4g")
MINUTE_S = 60


# As Kafka answers


async def create_topics(client: Client, machine: Machine) -> None:
    """Creates the topics of the recorded requests, with their ids."""
    first, second = (new_topic(name, 3) for name in TOPICS)
    await create_as_recorded(client, machine, [first])
    machine.entropy.ids.append(SECOND_ID)
    await create(client, second)


def test_finding_a_coordinator_is_answered_as_kafka_answers() -> None:
    compared: set[int] = set()

    async def story(client: Client) -> None:
        await find(client, "any")
        for pair in recordings(10):
            asked = pair["requestJson"]
            # The recorded request came too early; transactions and share groups are not served.
            if asked.get("keyType", 0) in (0, 5) and not {15, 30}.intersection(pair["errors"]):
                assert comparable(await ours(client, pair)) == comparable(pair["responseJson"])
                compared.add(pair["version"])

    with_broker(story, machine=recorded_machine(), **SETTINGS)
    assert compared == set(range(7))


def test_commits_are_answered_as_kafka_answers() -> None:
    machine = recorded_machine()
    pairs = [pair for pair in recordings(8) if not {30, 35, 113}.intersection(pair["errors"])]
    members = {
        pair["requestJson"]["groupId"]: pair["requestJson"]["memberId"]
        for pair in pairs
        if pair["requestJson"]["memberId"].startswith("vectors-")
    }
    compared: set[int] = set()

    async def story(client: Client) -> None:
        await find(client, "any")
        await create_topics(client, machine)
        for group_id, member_id in members.items():
            fresh = member_id.removeprefix("vectors-").replace("-", "")
            machine.entropy.ids.append(Uuid(bytes.fromhex(fresh)))
            await join(client, group_id, instance_id="vectors")
        for pair in pairs:
            if pair["requestJson"]["groupId"] in members:
                found = comparable(await ours(client, pair))
                assert found == comparable(pair["responseJson"]), pair
                compared.update(pair["errors"])

    with_broker(story, machine=machine, **SETTINGS, **QUICK)
    assert compared == {3, 12, 22, 25, 100}


def test_offset_fetch_is_answered_as_kafka_answers() -> None:
    machine = recorded_machine()
    versions: set[int] = set()

    async def story(client: Client) -> None:
        await find(client, "any")
        await create_topics(client, machine)
        for topic in TOPICS:
            group_id = topic.replace("vec-a", "vec-g0")
            assert codes(await client.ask(commit(group_id, topic, {0: 5}, metadata="m"), 3)) == [0]
            assert codes(await client.ask(commit(group_id, topic, {2: 7}, metadata=None), 3)) == [0]
        for pair in recordings(9):
            asked = json.dumps(pair["requestJson"])
            is_known = "vec-g0" in asked or "no-such-group" in asked
            if is_known and "vec-free" not in asked:
                found = comparable(await ours(client, pair))
                assert found == comparable(pair["responseJson"]), pair
                versions.add(pair["version"])

    with_broker(story, machine=machine, **SETTINGS)
    assert versions == set(range(1, 11)) - {9}


@pytest.mark.parametrize("key", [15, 42, 47])
def test_missing_groups_are_answered_as_kafka_answers(key: int) -> None:
    compared: list[int] = []

    async def story(client: Client) -> None:
        await find(client, "any")
        for pair in recordings(key):
            asked = json.dumps(pair["requestJson"])
            is_about_nobody = "vec-" not in asked and (
                "no-such" in asked or "none" in asked or "nope" in asked or "[]" in asked
            )
            if is_about_nobody and 30 not in pair["errors"]:
                found = comparable(await ours(client, pair))
                assert found == comparable(pair["responseJson"]), pair
                compared.append(pair["version"])

    with_broker(story, **SETTINGS)
    assert key == 47 or compared


# The topic


def test_the_offsets_topic_is_created_on_the_first_find_coordinator() -> None:
    async def story(client: Client) -> None:
        name = RequestedTopic(name="__consumer_offsets")
        for _ in range(2):
            # Asking for its metadata does not make it.
            (topic,) = (await client.ask(MetadataRequest(topics=(name,)))).topics
            assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            await asyncio.sleep(1)
        (found,) = await find(client, "g")
        assert (found.node_id, found.host) == (1, "one")
        (topic,) = (await client.ask(MetadataRequest(topics=(name,)))).topics
        assert (topic.error_code, topic.is_internal, len(topic.partitions)) == (0, True, 50)
        asked = Resource(
            resource_type=2, resource_name=topic.name, configuration_keys=("cleanup.policy",)
        )
        described = await client.ask(DescribeConfigsRequest(resources=(asked,)))
        assert described.results[0].configs[0].value == "compact"

    with_broker(story)


def test_the_offsets_topic_is_created_with_the_brokers_settings() -> None:
    async def story(client: Client) -> None:
        await find(client, "g")
        name = "__consumer_offsets"
        (topic,) = (await client.ask(MetadataRequest(topics=(RequestedTopic(name=name),)))).topics
        assert len(topic.partitions) == 7
        asked = Resource(resource_type=2, resource_name=name, configuration_keys=("segment.bytes",))
        described = await client.ask(DescribeConfigsRequest(resources=(asked,)))
        assert described.results[0].configs[0].value == "2000000"

    with_broker(story, offsets_topic_num_partitions="7", offsets_topic_segment_bytes="2000000")


def test_clients_cannot_write_to_the_offsets_topic() -> None:
    async def story(client: Client) -> None:
        await find(client, "g")
        await create(client, new_topic("events"))
        await client.ask(commit("g", "events", {0: 5}), COMMIT_VERSION)
        content = build([Record(0, NOW_MS, b"key", b"value")])
        answer = await client.ask(produce("__consumer_offsets", bytes(content)), 9)
        assert only(answer).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert await committed(client, "g") == {("events", 0): 5}

    with_broker(story, offsets_topic_num_partitions="1")


def test_concurrent_find_coordinators_create_the_offsets_topic_once() -> None:
    machine = Machine()

    async def tell() -> None:
        async with machine.broker() as client:
            others = [await machine.client() for _ in range(3)]
            found = await asyncio.gather(*(find(each, "g") for each in (client, *others)))
            assert len({coordinators[0].node_id for coordinators in found}) == 1
            for other in others:
                other.close()

    run(tell(), clock=machine.clock)


@pytest.mark.parametrize("version", range(7))
def test_the_transaction_topic_is_created_on_the_first_find_coordinator(version: int) -> None:
    async def story(client: Client) -> None:
        request = FindCoordinatorRequest(
            key="t" if 1 <= version < 4 else "",
            key_type=1 if version else 0,
            coordinator_keys=("t",) if version >= 4 else (),
        )
        response = await client.ask(request, version)
        (found,) = response.coordinators if version >= 4 else (response,)
        assert (found.error_code, found.node_id) == (ErrorCode.NONE, 1)
        name = RequestedTopic(name="__transaction_state")
        (topic,) = (await client.ask(MetadataRequest(topics=(name,)))).topics
        # Before v1 there are no coordinators but those of groups.
        expected = ErrorCode.NONE if version else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert topic.error_code == expected

    with_broker(story)


# Simple consumers


def test_there_is_no_coordinator_before_the_offsets_topic_exists() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events"))
        answer = await client.ask(commit("g", "events", {0: 1}), COMMIT_VERSION)
        assert codes(answer) == [ErrorCode.NOT_COORDINATOR]
        assert (await client.ask(list_groups.ListGroupsRequest())).groups == ()

    with_broker(story)


@pytest.mark.parametrize("version", range(2, 11))
def test_a_simple_consumer_commits_in_every_version(version: int) -> None:
    async def story(client: Client) -> None:
        await find(client, "g")
        (topic,) = await create(client, new_topic("events", 2))
        request = commit("g", "events", {0: 5, 1: 7})
        if version >= 10:
            by_id = offset_commit.Topic(
                topic_id=topic.topic_id, partitions=request.topics[0].partitions
            )
            request = offset_commit.OffsetCommitRequest(group_id="g", member_id="", topics=(by_id,))
        assert codes(await client.ask(request, version)) == [0, 0]
        assert await committed(client, "g") == {("events", 0): 5, ("events", 1): 7}

    with_broker(story)


def test_a_commit_for_an_unknown_generation_is_refused() -> None:
    async def story(client: Client) -> None:
        await find(client, "g")
        await create(client, new_topic("events"))
        request = commit("g", "events", {0: 5}, member_id="me", generation=3)
        assert codes(await client.ask(request, 8)) == [ErrorCode.ILLEGAL_GENERATION]
        assert codes(await client.ask(request, 9)) == [ErrorCode.GROUP_ID_NOT_FOUND]
        await client.ask(commit("g", "events", {0: 5}), 9)
        assert codes(await client.ask(request, 9)) == [ErrorCode.UNKNOWN_MEMBER_ID]

    with_broker(story)


def test_a_refused_commit_keeps_the_codes_of_its_partitions_and_is_counted() -> None:
    async def story(client: Client, node: Node) -> None:
        await find(client, "g")
        await create(client, new_topic("events"))
        request = commit("g", "events", {0: 5, 9: 5}, member_id="me", generation=3)
        expected = [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        for is_native in (True, False):
            frame = framed(request, 8)
            answer = await client.exchange(frame if is_native else by_codec(frame))
            assert codes(decode_response(answer, APIS[8], 8)) == expected
        counts = node.metrics.request("OffsetCommit").errors.counts
        assert counts["ILLEGAL_GENERATION"] == 2

    with_node(story)


def test_a_commit_that_does_not_fit_one_batch_is_refused() -> None:
    async def story(client: Client) -> None:
        await find(client, "g")
        await create(client, new_topic("events", 1000))
        note = "n" * 4096
        all_of_them = dict.fromkeys(range(1000), 1)
        fits = await client.ask(commit("g", "events", all_of_them, metadata=note[:3000]), 9)
        assert set(codes(fits)) == {ErrorCode.NONE}
        twice = commit("g", "events", all_of_them, metadata=note)
        twice = offset_commit.OffsetCommitRequest(
            group_id="g", member_id="", topics=twice.topics * 2
        )
        refused = await client.ask(twice, 9)
        assert set(codes(refused)) == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
        assert codes(await client.ask(commit("g", "events", {0: 2}), 9)) == [0]

    with_broker(story, ottla_request_besides_produce_max_bytes="100000000")


def test_the_metadata_of_an_offset_is_limited() -> None:
    async def story(client: Client) -> None:
        await find(client, "g")
        await create(client, new_topic("events"))
        for size, code in ((10, ErrorCode.NONE), (11, ErrorCode.OFFSET_METADATA_TOO_LARGE)):
            request = commit("g", "events", {0: size}, metadata="n" * size)
            assert codes(await client.ask(request, COMMIT_VERSION)) == [code]
        assert await committed(client, "g") == {("events", 0): 10}

    with_broker(story, offset_metadata_max_bytes="10")


@pytest.mark.parametrize("is_clean", [True, False])
def test_committed_offsets_survive_a_restart(is_clean: bool) -> None:
    machine = Machine()

    async def first_life() -> None:
        node = machine.node()
        await node.start()
        client = await machine.client()
        await find(client, "g")
        await create(client, new_topic("events", 2))
        for offset in range(20):
            for group_id in ("g", "h", "i"):
                request = commit(group_id, "events", {0: offset, 1: offset + 1})
                assert codes(await client.ask(request, COMMIT_VERSION)) == [0, 0]
        client.close()
        if is_clean:
            await node.stop()
            return
        assert machine.files is not None
        machine.files.crash()
        with suppress(StorageError):
            await node.stop()

    async def second_life(client: Client) -> None:
        for group_id in ("g", "h", "i"):
            assert await committed(client, group_id) == {("events", 0): 19, ("events", 1): 20}

    run(first_life(), clock=machine.clock)
    with_broker(second_life, machine=machine)


def test_a_simple_consumers_group_is_listed_described_and_deleted() -> None:
    async def story(client: Client) -> None:
        await find(client, "g")
        await create(client, new_topic("events"))
        await client.ask(commit("g", "events", {0: 5}), COMMIT_VERSION)
        (listed,) = (await client.ask(list_groups.ListGroupsRequest())).groups
        assert (listed.group_id, listed.group_state, listed.group_type) == ("g", "Empty", "classic")
        asked = describe_groups.DescribeGroupsRequest(
            groups=("g",), include_authorized_operations=True
        )
        (group,) = (await client.ask(asked)).groups
        assert (group.error_code, group.group_state, group.members) == (0, "Empty", ())
        assert group.authorized_operations == 3400
        deleted = await client.ask(delete_groups.DeleteGroupsRequest(groups_names=("g", "h")))
        assert [each.error_code for each in deleted.results] == [0, ErrorCode.GROUP_ID_NOT_FOUND]
        assert (await client.ask(list_groups.ListGroupsRequest())).groups == ()
        assert await committed(client, "g") == {}

    with_broker(story)


def test_a_group_with_too_many_offsets_for_one_batch_is_deleted_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.coordinators.group.machine.MAX_TOMBSTONES_PER_DECISION", 2)

    async def story(client: Client) -> None:
        await find(client, "g")
        await create(client, new_topic("events", 7))
        for group_id in ("g", "h"):
            offsets = dict.fromkeys(range(7), 5)
            await client.ask(commit(group_id, "events", offsets), COMMIT_VERSION)
        deleted = await client.ask(delete_groups.DeleteGroupsRequest(groups_names=("g",)))
        assert [each.error_code for each in deleted.results] == [0]
        assert await committed(client, "g") == {}
        assert len(await committed(client, "h")) == 7
        (listed,) = (await client.ask(list_groups.ListGroupsRequest())).groups
        assert listed.group_id == "h"

    with_broker(story)


def test_groups_are_listed_by_state_and_type_in_any_case() -> None:
    async def story(client: Client) -> None:
        await find(client, "g")
        await create(client, new_topic("events"))
        await client.ask(commit("simple", "events", {0: 5}), COMMIT_VERSION)
        await join(client, "live")

        async def listed(states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> set[str]:
            request = list_groups.ListGroupsRequest(states_filter=states, types_filter=types)
            return {group.group_id for group in (await client.ask(request)).groups}

        assert await listed() == {"simple", "live"}
        assert await listed(("eMPTY",)) == {"simple"}
        assert await listed(("Stable", "Dead")) == {"live"}
        assert await listed(types=("CLASSIC",)) == {"simple", "live"}
        assert await listed(types=("consumer",)) == set()
        assert await listed(types=("no such type",)) == set()

    with_broker(story, **QUICK)


def test_the_number_of_groups_is_limited() -> None:
    async def story(client: Client) -> None:
        await find(client, "g")
        await create(client, new_topic("events"))
        for number in range(3):
            answer = await client.ask(commit(f"g{number}", "events", {0: 1}), COMMIT_VERSION)
            expected = 0 if number < 2 else ErrorCode.POLICY_VIOLATION
            assert codes(answer) == [expected]
        assert codes(await client.ask(commit("g0", "events", {0: 2}), COMMIT_VERSION)) == [0]

    with_broker(story, ottla_groups_max="2", offsets_topic_num_partitions="1")


# Members


def test_a_members_commit_is_accepted_and_one_from_outside_is_refused() -> None:
    async def story(client: Client) -> None:
        await find(client, "g")
        await create(client, new_topic("events"))
        joined = await join(client, "g")
        member, generation = joined.member_id, joined.generation_id
        mine = commit("g", "events", {0: 9}, member_id=member, generation=generation)
        assert codes(await client.ask(mine, COMMIT_VERSION)) == [0]
        for stranger, code in (
            (commit("g", "events", {0: 1}), ErrorCode.UNKNOWN_MEMBER_ID),
            (
                commit("g", "events", {0: 1}, member_id=member, generation=generation + 1),
                ErrorCode.ILLEGAL_GENERATION,
            ),
        ):
            assert codes(await client.ask(stranger, COMMIT_VERSION)) == [code]
        assert await committed(client, "g") == {("events", 0): 9}

    with_broker(story, **QUICK)


def test_offsets_of_subscribed_topics_are_not_deleted() -> None:
    async def story(client: Client) -> None:
        await find(client, "g")
        await create(client, new_topic("events"), new_topic("other"))
        for topic in ("events", "other"):
            await client.ask(commit("g", topic, {0: 9}), COMMIT_VERSION)
        await join(client, "g", "events")
        response = await client.ask(deleting("g", "events", "other"))
        assert response.error_code == ErrorCode.NONE
        assert [topic.partitions[0].error_code for topic in response.topics] == [
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            ErrorCode.NONE,
        ]
        assert await committed(client, "g") == {("events", 0): 9}
        deleted = await client.ask(delete_groups.DeleteGroupsRequest(groups_names=("g",)))
        assert deleted.results[0].error_code == ErrorCode.NON_EMPTY_GROUP

    with_broker(story, **QUICK)


def deleting(group_id: str, *topics: str) -> offset_delete.OffsetDeleteRequest:
    return offset_delete.OffsetDeleteRequest(
        group_id=group_id,
        topics=tuple(
            offset_delete.Topic(name=name, partitions=(offset_delete.Partition(partition_index=0),))
            for name in topics
        ),
    )


def test_a_group_without_offsets_is_listed_until_the_next_round_of_expiry() -> None:
    async def groups(client: Client) -> list[str]:
        listed = (await client.ask(list_groups.ListGroupsRequest())).groups
        return [each.group_id for each in listed]

    async def story(client: Client) -> None:
        await find(client, "g")
        await create(client, new_topic("events"))
        await client.ask(commit("g", "events", {0: 5}), COMMIT_VERSION)
        deleted = await client.ask(deleting("g", "events"))
        assert deleted.topics[0].partitions[0].error_code == ErrorCode.NONE
        assert await committed(client, "g") == {}
        assert await groups(client) == ["g"]
        await asyncio.sleep(2 * MINUTE_S)
        assert await groups(client) == []

    with_broker(story, **EXPIRING)


# Time


def test_a_simple_consumers_offsets_expire_after_the_commit() -> None:
    async def story(client: Client) -> None:
        await find(client, "g")
        await create(client, new_topic("events"))
        await client.ask(commit("old", "events", {0: 5}), COMMIT_VERSION)
        await asyncio.sleep(7 * MINUTE_S)
        await client.ask(commit("young", "events", {0: 6}), COMMIT_VERSION)
        await asyncio.sleep(5 * MINUTE_S)
        assert await committed(client, "old") == {}
        assert await committed(client, "young") == {("events", 0): 6}
        (left,) = (await client.ask(list_groups.ListGroupsRequest())).groups
        assert left.group_id == "young"

    with_broker(story, **EXPIRING)


EXPIRING = {
    "offsets_retention_minutes": "10",
    "offsets_retention_check_interval_ms": "60000",
    "connections_max_idle_ms": "10000000",
    **QUICK,
}


def test_a_groups_offsets_expire_only_after_its_last_member_has_left() -> None:
    async def story(client: Client) -> None:
        await find(client, "g")
        await create(client, new_topic("events"))
        joined = await join(client, "g")
        mine = commit(
            "g",
            "events",
            {0: 9},
            member_id=joined.member_id,
            generation=joined.generation_id,
        )
        await client.ask(mine, COMMIT_VERSION)
        for _ in range(15 * 10):
            # A commit renews the session, too.
            await asyncio.sleep(6)
            assert codes(await client.ask(mine, COMMIT_VERSION)) == [0]
        await client.ask(
            LeaveGroupRequest(group_id="g", members=(Member(member_id=joined.member_id),))
        )
        await asyncio.sleep(8 * MINUTE_S)
        assert await committed(client, "g") == {("events", 0): 9}
        await asyncio.sleep(4 * MINUTE_S)
        assert await committed(client, "g") == {}
        assert (await client.ask(list_groups.ListGroupsRequest())).groups == ()

    with_broker(story, **EXPIRING)


def test_thousands_of_offsets_expire_together() -> None:
    async def story(client: Client) -> None:
        await find(client, "g")
        await create(client, new_topic("events", 300))
        for number in range(10):
            offsets = dict.fromkeys(range(300), 1)
            answer = await client.ask(commit(f"g{number}", "events", offsets), COMMIT_VERSION)
            assert set(codes(answer)) == {0}
        await asyncio.sleep(12 * MINUTE_S)
        assert (await client.ask(list_groups.ListGroupsRequest())).groups == ()

    with_broker(story, offsets_topic_num_partitions="1", **EXPIRING)


def test_a_retention_time_in_an_old_request_applies() -> None:
    async def story(client: Client) -> None:
        await find(client, "g")
        await create(client, new_topic("events"))
        await client.ask(commit("g", "events", {0: 5}, retention_time_ms=60_000), 4)
        await asyncio.sleep(3 * MINUTE_S)
        assert await committed(client, "g") == {}

    with_broker(story, **EXPIRING)


def test_a_deleted_topics_offsets_are_deleted_for_ever() -> None:
    machine = Machine()

    async def story(client: Client, _node: Node) -> None:
        await find(client, "g")
        await create(client, new_topic("events"), new_topic("other"))
        await client.ask(commit("g", "events", {0: 5}), COMMIT_VERSION)
        await client.ask(commit("g", "other", {0: 6}), COMMIT_VERSION)
        deleted = DeletedTopic(name="events", topic_id=ZERO_UUID)
        await client.ask(DeleteTopicsRequest(topics=(deleted,), timeout_ms=1000))
        await create(client, new_topic("events"))
        asked = offset_fetch.Topic(name="events", partition_indexes=(0,))
        group = offset_fetch.Group(group_id="g", topics=(asked,))
        response = await client.ask(offset_fetch.OffsetFetchRequest(groups=(group,)), 9)
        assert response.groups[0].topics[0].partitions[0].committed_offset == -1
        await asyncio.sleep(1)
        assert await committed(client, "g") == {("other", 0): 6}

    with_node(story, machine)

    async def again(client: Client) -> None:
        assert await committed(client, "g") == {("other", 0): 6}

    with_broker(again, machine=machine)


@pytest.mark.parametrize("version", [2, 5, 7, 8, 9, 10])
def test_offsets_of_a_deleted_topic_are_not_shown_for_a_recreated_one(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by name nor in a request for all offsets, even while they cannot be deleted."""

    async def told(client: Client, topic_id: Uuid, *, by_name: bool) -> dict[str, list[int]]:
        asked = None
        if by_name:
            asked = (
                offset_fetch.Topic(name="events", topic_id=topic_id, partition_indexes=(0,)),
                offset_fetch.Topic(name="other", topic_id=other_id, partition_indexes=(0,)),
            )
        if version < 8:
            request = offset_fetch.OffsetFetchRequest(group_id="g", topics=asked)
        else:
            group = offset_fetch.Group(group_id="g", topics=asked)
            request = offset_fetch.OffsetFetchRequest(groups=(group,))
        response = await client.ask(request, version)
        topics = response.topics if version < 8 else response.groups[0].topics
        names = {other_id: "other", topic_id: "events"}
        return {
            names[topic.topic_id] if version >= 10 else topic.name: [
                partition.committed_offset for partition in topic.partitions
            ]
            for topic in topics
        }

    other_id = ZERO_UUID

    async def story(client: Client) -> None:
        nonlocal other_id
        await find(client, "g")
        first, other = await create(client, new_topic("events"), new_topic("other"))
        other_id = other.topic_id
        await client.ask(commit("g", "events", {0: 5}), COMMIT_VERSION)
        await client.ask(commit("g", "other", {0: 6}), COMMIT_VERSION)
        assert await told(client, first.topic_id, by_name=False) == {"events": [5], "other": [6]}
        monkeypatch.setattr(Shard, "apply", refuse)
        deleted = DeletedTopic(name="events", topic_id=ZERO_UUID)
        await client.ask(DeleteTopicsRequest(topics=(deleted,), timeout_ms=1000))
        assert await told(client, first.topic_id, by_name=False) == {"other": [6]}
        assert await told(client, first.topic_id, by_name=True) == {"events": [-1], "other": [6]}
        (second,) = await create(client, new_topic("events"))
        assert await told(client, second.topic_id, by_name=False) == {"other": [6]}
        assert await told(client, second.topic_id, by_name=True) == {"events": [-1], "other": [6]}
        await client.ask(commit("g", "events", {0: 1}), COMMIT_VERSION)
        assert await told(client, second.topic_id, by_name=False) == {"events": [1], "other": [6]}

    with_broker(story)


def refuse(_shard: object, _decide: object) -> None:
    """A shard that cannot delete anything."""
    raise PeerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the disk is full")


def test_a_topic_recreated_after_a_crash_does_not_show_the_old_offsets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine()

    async def first_life() -> None:
        node = machine.node()
        await node.start()
        client = await machine.client()
        await find(client, "g")
        await create(client, new_topic("events"), new_topic("other"))
        await client.ask(commit("g", "events", {0: 5}), COMMIT_VERSION)
        await client.ask(commit("g", "other", {0: 6}), COMMIT_VERSION)
        monkeypatch.setattr(Shard, "apply", refuse)
        deleted = DeletedTopic(name="events", topic_id=ZERO_UUID)
        await client.ask(DeleteTopicsRequest(topics=(deleted,), timeout_ms=1000))
        await create(client, new_topic("events"))
        client.close()
        assert machine.files is not None
        machine.files.crash()
        with suppress(OSError, StorageError):
            await node.stop()

    async def second_life(client: Client) -> None:
        assert await committed(client, "g") == {("other", 0): 6}

    run(first_life(), clock=machine.clock)
    monkeypatch.undo()
    with_broker(second_life, machine=machine)


def test_the_recordings_are_recorded_bytes() -> None:
    """The comparisons above depend on this."""
    pair: dict[str, Any] = next(iter(recordings(8)))
    assert base64.b64decode(pair["request"])[:2] == (8).to_bytes(2)
