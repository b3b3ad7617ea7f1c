"""ConsumerGroupHeartbeat and ConsumerGroupDescribe of a whole broker, compared with Kafka."""

import asyncio
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.primitives import Uuid
from tests.sim.seams.loop import run
from tests.support.broker import group_requests
from tests.support.broker.group_requests import codes, commit, committed, find
from tests.support.broker.recorded_answers import (
    SETTINGS,
    Pair,
    comparable,
    create_as_recorded,
    ours,
    recorded_machine,
    recordings,
)
from tests.support.broker.simulated_broker import (
    Client,
    Machine,
    create,
    new_topic,
    with_broker,
)

HEARTBEAT, DESCRIBE = 68, 69
TOPIC = "vec-a-80296"


def heartbeat(group_id: str, member_id: str, epoch: int, **said: Any) -> Any:
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id, member_id=member_id, member_epoch=epoch, **said
    )


def join(group_id: str, member_id: str, *topics: str, **said: Any) -> Any:
    said = {"subscribed_topic_names": topics, "rebalance_timeout_ms": 5_000} | said
    return heartbeat(group_id, member_id, 0, topic_partitions=(), **said)


async def once_loaded(client: Client, request: Any) -> Any:
    """The response of a coordinator that has loaded its partition."""
    while True:
        answer = await client.ask(request)
        if answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return answer
        await asyncio.sleep(0.01)


async def described(client: Client, group_id: str) -> Any:
    request = ConsumerGroupDescribeRequest(
        group_ids=(group_id,), include_authorized_operations=False
    )
    (group,) = (await client.ask(request)).groups
    return group


# As Kafka answers


async def as_recorded(client: Client, machine: Machine) -> None:
    """Creates the groups of the recordings."""
    await create_as_recorded(client, machine, [new_topic(TOPIC, 3)])
    await find(client, "vec-848-0-80296", "vec-848-1-80296", "vec-static5-80296", "no-such-group")
    machine.entropy.ids.append(Uuid.parse("gIlvMst_R2mjHUCIHiJ2rQ"))
    await client.ask(join("vec-848-0-80296", "", TOPIC, "no-such-x"), 0)
    await client.ask(join("vec-848-1-80296", "AAAAAAAAAAAAAAAAAAAABw", TOPIC, "no-such-x"))
    second = join("vec-848-1-80296", "AAAAAAAAAAAAAAAAAAAACQ", TOPIC, instance_id="i-1")
    await client.ask(second)


def is_of_these(pair: Pair) -> bool:
    """Whether the request is about these groups. Others had real members, or need RE2 or ACLs."""
    request = pair["requestJson"]
    is_set_up = pair["client"].startswith("generated") and 30 not in pair["errors"]
    return is_set_up and not request.get("subscribedTopicRegex")


def without_places(document: Any) -> Any:
    """The same without the client's host and id, which differ here."""
    if isinstance(document, dict):
        kept = {name: each for name, each in document.items() if not name.startswith("client")}
        # Kafka keeps them in no order.
        if "subscribedTopicNames" in kept:
            kept["subscribedTopicNames"] = sorted(kept["subscribedTopicNames"])
        return {name: without_places(each) for name, each in kept.items()}
    if isinstance(document, list):
        return [without_places(each) for each in document]
    return document


def test_recorded_heartbeats_and_descriptions_are_answered_as_kafka_did() -> None:
    machine = recorded_machine()
    pairs = [pair for key in (HEARTBEAT, DESCRIBE) for pair in recordings(key) if is_of_these(pair)]
    assert len(pairs) == 14

    async def story(client: Client) -> None:
        await as_recorded(client, machine)
        for pair in pairs:
            joins_nameless = pair["key"] == HEARTBEAT and pair["responseJson"]["memberId"]
            if joins_nameless and not pair["requestJson"]["memberId"]:
                machine.entropy.ids.append(Uuid.parse(pair["responseJson"]["memberId"]))
            answer = without_places(await ours(client, pair))
            assert comparable(answer) == comparable(without_places(pair["responseJson"]))

    with_broker(story, machine=machine, **SETTINGS)


@pytest.mark.parametrize("version", [0, 1])
def test_heartbeats_are_refused_in_kafkas_words(version: int) -> None:
    machine = recorded_machine()
    pairs = [
        pair
        for pair in recordings(HEARTBEAT)
        if pair["errors"] and pair["version"] == version and is_of_these(pair)
    ]

    async def story(client: Client) -> None:
        await as_recorded(client, machine)
        for pair in pairs:
            assert await ours(client, pair) == pair["responseJson"]

    assert len(pairs) >= 2
    with_broker(story, machine=machine, **SETTINGS)


# Stories


def test_a_group_with_its_members_and_offsets_survives_a_restart() -> None:
    machine = Machine()

    async def tell() -> None:
        async with machine.broker() as client:
            (topic,) = await create(client, new_topic("logs", 2))
            await find(client, "g")
            joined = await client.ask(join("g", "m", "logs"))
            assert joined.member_epoch == 2
            request = commit("g", "logs", {0: 5}, member_id="m", generation=2)
            assert codes(await client.ask(request, 9)) == [0]
        async with machine.broker() as client:
            await find(client, "g")
            owned = (TopicPartitions(topic_id=topic.topic_id, partitions=(0, 1)),)
            again = await once_loaded(client, heartbeat("g", "m", 2, topic_partitions=owned))
            assert (again.error_code, again.member_epoch) == (0, 2)
            assert await committed(client, "g") == {("logs", 0): 5}
            assert (await described(client, "g")).group_state == "Stable"

    run(tell(), clock=machine.clock)


def test_a_member_commits_only_at_its_own_epoch() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("logs", 2))
        await find(client, "g")
        await client.ask(join("g", "m", "logs"))
        for generation, version, code in (
            (2, 9, ErrorCode.NONE),
            (1, 9, ErrorCode.STALE_MEMBER_EPOCH),
            (2, 8, ErrorCode.UNSUPPORTED_VERSION),
        ):
            request = commit("g", "logs", {0: 5}, member_id="m", generation=generation)
            assert codes(await client.ask(request, version)) == [code]

    with_broker(story)


def test_a_member_without_heartbeats_is_removed_after_its_session_timeout() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("logs", 2))
        await find(client, "g")
        await client.ask(join("g", "m", "logs"))
        await asyncio.sleep(44)
        assert (await described(client, "g")).group_state == "Stable"
        await asyncio.sleep(2)
        assert (await described(client, "g")).group_state == "Empty"
        answer = await client.ask(heartbeat("g", "m", 2))
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID

    with_broker(story)


async def seen_of_a_group(client: Client) -> dict[str, Any]:
    """The effect of the protocol's settings, as two members see it."""
    await create(client, new_topic("logs", 2))
    await find(client, "g")
    first = await client.ask(join("g", "first", "logs", server_assignor="range"))
    if first.error_code:
        return {"assignor": ErrorCode(first.error_code)}
    second = await client.ask(join("g", "second", "logs"))
    # Sharing out again at once would have taken a partition from the first by now.
    beaten = await client.ask(heartbeat("g", "first", first.member_epoch))
    await asyncio.sleep(10)
    return {
        "interval": first.heartbeat_interval_ms,
        "second": ErrorCode(second.error_code),
        "shared out": beaten.assignment is not None,
        "after 10 s": (await described(client, "g")).group_state,
    }


@pytest.mark.parametrize(
    ("name", "value", "what", "by_default", "changed"),
    [
        ("heartbeat.interval.ms", "7000", "interval", 5_000, 7_000),
        ("max.size", "1", "second", ErrorCode.NONE, ErrorCode.GROUP_MAX_SIZE_REACHED),
        ("assignment.interval.ms", "0", "shared out", False, True),
        ("session.timeout.ms", "9000", "after 10 s", "Assigning", "Empty"),
        ("assignors", "uniform", "assignor", None, ErrorCode.UNSUPPORTED_ASSIGNOR),
    ],
)
def test_a_group_uses_the_brokers_settings(
    name: str, value: str, what: str, by_default: object, changed: object
) -> None:
    seen: list[dict[str, Any]] = []

    async def story(client: Client) -> None:
        seen.append(await seen_of_a_group(client))

    with_broker(story)
    shortest = {"group_consumer_min_session_timeout_ms": "6000"}
    with_broker(story, **shortest, **{f"group_consumer_{name.replace('.', '_')}": value})
    assert [each.get(what) for each in seen] == [by_default, changed]


def test_a_new_partition_reaches_the_member_with_its_next_heartbeat() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("logs", 1))
        await find(client, "g")
        await client.ask(join("g", "m", "logs", "orders"))
        (orders,) = await create(client, new_topic("orders", 2))
        await asyncio.sleep(5)
        answer = await client.ask(heartbeat("g", "m", 2))
        assert answer.member_epoch == 3
        given = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}
        assert given[orders.topic_id] == (0, 1)

    with_broker(story)


def test_members_that_join_together_get_their_assignment_in_the_first_response() -> None:
    machine = Machine()

    async def story(client: Client) -> None:
        await create(client, new_topic("logs", 4))
        await find(client, "g")
        clients = [client, *[await machine.client() for _ in range(3)]]
        joins = [each.ask(join("g", f"m{at}", "logs")) for at, each in enumerate(clients)]
        answers = await asyncio.gather(*joins)
        given = [answer.assignment.topic_partitions[0].partitions for answer in answers]
        assert sorted(given) == [(0,), (1,), (2,), (3,)]
        assert {answer.member_epoch for answer in answers} == {5}
        assert (await described(client, "g")).group_state == "Stable"

    with_broker(story, machine=machine)


def test_a_join_is_answered_10_ms_after_the_last_join_or_after_100_ms() -> None:
    machine = Machine()

    async def story(client: Client) -> None:
        await create(client, new_topic("logs", 4))
        await find(client, "g")
        loop = asyncio.get_running_loop()
        clients = [await machine.client() for _ in range(40)]

        async def joined_after_ms(each: Client, group_id: str, member_id: str) -> float:
            began_s = loop.time()
            answer = await each.ask(join(group_id, member_id, "logs"))
            assert answer.error_code == ErrorCode.NONE
            return (loop.time() - began_s) * 1000

        assert 10 <= await joined_after_ms(client, "g", "first") < 20
        waiting = []
        for at, each in enumerate(clients):
            waiting.append(asyncio.create_task(joined_after_ms(each, "many", f"m{at}")))
            await asyncio.sleep(0.005)
        waited_ms = await asyncio.gather(*waiting)
        assert 90 <= waited_ms[0] < 110
        assert max(waited_ms) < 110

    with_broker(story, machine=machine)


def test_a_join_that_is_refused_leaves_no_group() -> None:
    async def story(client: Client) -> None:
        await find(client, "g")
        unknown = await client.ask(heartbeat("g", "m", 2))
        assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        refused = await client.ask(join("g", "m", "logs", server_assignor="nope"))
        assert refused.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
        listed = await client.ask(ListGroupsRequest(states_filter=(), types_filter=()))
        assert listed.groups == ()

    with_broker(story)


def test_an_empty_group_is_listed_and_deleted() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("logs", 1))
        await find(client, "g")
        await client.ask(join("g", "m", "logs"))
        delete = DeleteGroupsRequest(groups_names=("g",))
        (refused,) = (await client.ask(delete)).results
        assert refused.error_code == ErrorCode.NON_EMPTY_GROUP
        left = await client.ask(heartbeat("g", "m", -1))
        assert (left.error_code, left.member_epoch) == (0, -1)
        listed = await client.ask(ListGroupsRequest(states_filter=(), types_filter=("consumer",)))
        assert [(each.group_id, each.group_state) for each in listed.groups] == [("g", "Empty")]
        (deleted,) = (await client.ask(delete)).results
        assert deleted.error_code == 0
        assert (await described(client, "g")).error_code == ErrorCode.GROUP_ID_NOT_FOUND

    with_broker(story)


def test_an_empty_classic_group_becomes_a_consumer_group() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("logs", 1))
        await find(client, "g")
        classic = await group_requests.join(client, "g", "logs")
        refused = await client.ask(join("g", "m", "logs"))
        assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        leave = LeaveGroupRequest(group_id="g", member_id=classic.member_id)
        assert (await client.ask(leave, 2)).error_code == 0
        joined = await client.ask(join("g", "m", "logs"))
        assert (joined.error_code, joined.member_epoch) == (0, 2)
        assert (await described(client, "g")).group_state == "Stable"
        await client.ask(heartbeat("g", "m", -1))
        await group_requests.join(client, "g", "logs")
        assert (await described(client, "g")).error_code == ErrorCode.GROUP_ID_NOT_FOUND

    with_broker(story, **group_requests.QUICK)


def test_a_subscription_that_is_too_long_is_refused_and_the_shard_continues() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("logs", 1))
        await find(client, "g")
        long = tuple(f"{number:09}" for number in range(100_000))
        assert (await client.ask(join("g", "m", *long))).error_code == 0
        longer = (*long, *(f"x{number:08}" for number in range(20_000)))
        refused = await client.ask(join("g", "n", *longer))
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert (await client.ask(join("h", "m", "logs"))).error_code == 0

    with_broker(story, offsets_topic_num_partitions="1", ottla_request_elements_max="200000")


def test_a_group_that_grew_too_large_refuses_the_next_member_and_continues() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("logs", 300))
        # Its name stands in the target of every member.
        group_id = "g" * 32_000
        await find(client, group_id, "h")
        answers = [await client.ask(join(group_id, f"m{number}", "logs")) for number in range(280)]
        told = [answer.error_code for answer in answers]
        first_refused = told.index(ErrorCode.GROUP_MAX_SIZE_REACHED)
        assert set(told[:first_refused]) == {ErrorCode.NONE}
        assert set(told[first_refused:]) == {ErrorCode.GROUP_MAX_SIZE_REACHED}
        assert "at most" in answers[-1].error_message
        # The next heartbeat shares out among all of them, in one batch.
        await asyncio.sleep(1)
        for number in (0, first_refused - 1):
            epoch = answers[number].member_epoch
            beaten = await client.ask(heartbeat(group_id, f"m{number}", epoch))
            assert beaten.error_code == ErrorCode.NONE
        assert (await described(client, group_id)).group_state == "Reconciling"
        assert (await client.ask(join("h", "m", "logs"))).error_code == ErrorCode.NONE

    with_broker(story, offsets_topic_num_partitions="1")
