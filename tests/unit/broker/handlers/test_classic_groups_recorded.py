"""Our responses to recorded joins, heartbeats, syncs and leaves equal Apache Kafka's.

Each broker generates its own member ids. A scene creates a member that stands for the recorded one,
sends requests with its id, and ignores ids in the comparison. Only requests that depend on members
without a recording (the second of two, a generation after others) are left out.
"""

import asyncio
import json
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages import APIS
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, Protocol
from ottla.protocol.messages.sync_group import Assignment, SyncGroupRequest
from tests.support.broker.group_requests import find
from tests.support.broker.recorded_answers import Pair, recordings
from tests.support.broker.simulated_broker import Client, Machine, with_broker
from tests.support.protocol.wire_vectors import from_json, to_json

JOIN, HEARTBEAT, LEAVE, SYNC = 11, 12, 13, 14
STRANGERS = ("", "nobody", "x")


def _member_of(pair: Pair) -> str:
    """The recorded member that the request is about."""
    asked = pair["requestJson"]
    if pair["key"] == LEAVE and pair["version"] >= 3:
        return next((each["memberId"] for each in asked["members"]), "")
    return str(asked["memberId"])


def _is_of_one_member(pair: Pair) -> bool:
    asked, answer = pair["requestJson"], pair["responseJson"]
    if 30 in pair["errors"]:
        return False
    if pair["key"] == JOIN and not pair["errors"]:
        return answer["generationId"] == 1 and len(answer["members"]) == 1
    if pair["key"] == SYNC and not pair["errors"]:
        return bool(asked["assignments"])
    return True


PAIRS = [
    pytest.param(
        pair, id=f"{pair['name']}-v{pair['version']}-{n}-{'-'.join(map(str, pair['errors']))}"
    )
    for key in (JOIN, HEARTBEAT, LEAVE, SYNC)
    for n, pair in enumerate(recordings(key))
    if _is_of_one_member(pair)
]


class Scene:
    """The group of a recorded request, in the state of the recording."""

    def __init__(self, client: Client, machine: Machine, pair: Pair) -> None:
        self._client = client
        self._machine = machine
        self._pair = pair
        self.asked: dict[str, Any] = pair["requestJson"]
        self._protocol = self.asked.get("protocolName") or "range"

    async def set(self) -> str:
        """Sets up the group; the id of the member that stands for the recorded one, or ""."""
        key, code = self._pair["key"], next(iter(self._pair["errors"]), 0)
        instance_id = self._instance_id()
        if self.asked["groupId"] in ("", "no-such-group"):
            return ""
        if key == JOIN and code == ErrorCode.NONE:
            return await self._promised()
        if code in (ErrorCode.INVALID_GROUP_ID, ErrorCode.MEMBER_ID_REQUIRED):
            return ""
        joined = await self._join(instance_id=instance_id)
        if key == SYNC and code == ErrorCode.NONE:
            return joined.member_id
        await self._sync(joined)
        if code == ErrorCode.FENCED_INSTANCE_ID:
            await self._join(instance_id=instance_id)
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            other = await self._machine.client()
            coming = asyncio.create_task(other.ask(self._joining(), 3))
            await asyncio.sleep(0.1)
            assert not coming.done()
        return joined.member_id

    def _instance_id(self) -> str | None:
        if self._pair["key"] == LEAVE:
            members = self.asked.get("members", ())
            return members[0]["groupInstanceId"] if members else None
        instance_id: str | None = self.asked.get("groupInstanceId")
        return instance_id

    async def _promised(self) -> str:
        """A member id to join with, if the recorded member had one."""
        if not self.asked["memberId"]:
            return ""
        answer = await self._client.ask(self._joining(), 4)
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return str(answer.member_id)

    def _joining(self, instance_id: str | None = None) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.asked["groupId"],
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocols=(Protocol(name=self._protocol, metadata=b""),),
        )

    async def _join(self, *, instance_id: str | None = None) -> JoinGroupResponse:
        version = 3 if instance_id is None else 5
        answer: JoinGroupResponse = await self._client.ask(self._joining(instance_id), version)
        assert answer.error_code == ErrorCode.NONE
        return answer

    async def _sync(self, joined: JoinGroupResponse) -> None:
        request = SyncGroupRequest(
            group_id=self.asked["groupId"],
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=(Assignment(member_id=joined.member_id, assignment=b""),),
        )
        assert (await self._client.ask(request, 2)).error_code == ErrorCode.NONE


@pytest.mark.parametrize("pair", PAIRS)
def test_answers_equal_the_recorded_ones(pair: Pair) -> None:
    machine = Machine()

    async def story(client: Client) -> None:
        scene = Scene(client, machine, pair)
        await find(client, scene.asked["groupId"] or "any")
        ours = await scene.set()
        asked = dict(scene.asked)
        if "generationId" in asked and ErrorCode.ILLEGAL_GENERATION not in pair["errors"]:
            asked["generationId"] = 1
        recorded = _member_of(pair)
        asked = _renamed(asked, recorded, ours)
        api, version = APIS[pair["key"]], pair["version"]
        answer = await client.ask(from_json(api.request, version, asked), version)
        told, expected = to_json(answer, version), pair["responseJson"]
        assert _nameless(told, ours) == _nameless(expected, recorded)

    with_broker(
        story,
        machine=machine,
        offsets_topic_num_partitions="1",
        group_initial_rebalance_delay_ms="0",
        # The recording has sessions of all lengths.
        group_min_session_timeout_ms="1000",
    )


def _renamed(document: Any, recorded: str, ours: str) -> Any:
    if recorded in STRANGERS or not ours:
        return document
    return json.loads(json.dumps(document).replace(recorded, ours))


def _nameless(document: Any, member_id: str) -> Any:
    """The response without generated member ids, which keep only their prefix."""
    document = dict(document)
    told = document.get("memberId", "")
    invented = {each for each in (member_id, told) if each not in STRANGERS}
    text = json.dumps(document)
    for each in invented:
        text = text.replace(each, "a member")
    return json.loads(text)


def test_all_comparable_recordings_are_compared() -> None:
    everything = [pair for key in (JOIN, HEARTBEAT, LEAVE, SYNC) for pair in recordings(key)]
    assert len(PAIRS) > 0.85 * len(everything)
