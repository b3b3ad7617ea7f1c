"""Committed offsets while the broker is killed in the middle of anything, again and again."""

import asyncio

import pytest

from ottla.errors import RETRIABLE, ErrorCode
from ottla.protocol.messages import offset_fetch
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.sim.broker.line import Line
from tests.sim.broker.machine import Machine
from tests.sim.broker.witness import Witness
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.loop import run
from tests.support.broker.group_requests import codes, commit
from tests.support.broker.simulated_broker import new_topic

TOPIC = "orders"
GROUPS = ("a", "b", "c")
LIVES = 6
# With this not even a power loss takes what was acknowledged.
DURABLE = {"log.flush.interval.messages": "1", "offsets.topic.num.partitions": "3"}
PAUSE_S = 0.05


class Committer:
    """Commits ever greater offsets, and remembers which may be there."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.sent = dict.fromkeys(GROUPS, -1)
        self.acknowledged = dict.fromkeys(GROUPS, -1)

    async def run(self) -> None:
        while True:
            try:
                line = await Line.open(self._machine, "client")
                await line.ask(CreateTopicsRequest(topics=(new_topic(TOPIC),)), 5)
                await line.ask(FindCoordinatorRequest(coordinator_keys=GROUPS), 4)
                while True:
                    for group in GROUPS:
                        await self._commit(line, group)
            except (OSError, TimeoutError):
                await asyncio.sleep(PAUSE_S)

    async def _commit(self, line: Line, group: str) -> None:
        offset = self.sent[group] = self.sent[group] + 1
        (code,) = codes(await line.ask(commit(group, TOPIC, {0: offset}), 9))
        if code == ErrorCode.NONE:
            self.acknowledged[group] = offset
        else:
            assert ErrorCode(code) in RETRIABLE
            await asyncio.sleep(PAUSE_S)

    async def check(self) -> None:
        """What was acknowledged is there, or something that was sent later."""
        line = await Line.open(self._machine, "reader")
        for group in GROUPS:
            found = await self._committed(line, group)
            assert self.acknowledged[group] <= found <= self.sent[group]
        line.close()

    async def _committed(self, line: Line, group: str) -> int:
        asked = offset_fetch.Topic(name=TOPIC, partition_indexes=(0,))
        request = offset_fetch.OffsetFetchRequest(
            groups=(offset_fetch.Group(group_id=group, topics=(asked,)),)
        )
        while True:
            (answer,) = (await line.ask(request, 8)).groups
            if answer.error_code == ErrorCode.NONE:
                return int(answer.topics[0].partitions[0].committed_offset)
            if answer.error_code == ErrorCode.NOT_COORDINATOR:
                return -1  # nobody has ever asked for one
            assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            await asyncio.sleep(PAUSE_S)


async def live_and_die(seed: int, machine: Machine) -> Committer:
    entropy = SimEntropy(seed).fork("story")
    committer = Committer(machine)
    await machine.start()
    committing = asyncio.create_task(committer.run(), name="committer")
    for _ in range(LIVES):
        await machine.kill_within(
            entropy.between(1, 400), loses_power=entropy.chance(0.5), wait_s=5
        )
        await machine.start()
        await committer.check()
        machine.check_fault()
    committing.cancel()
    machine.kill()
    return committer


@pytest.mark.parametrize("seed", range(8))
def test_no_acknowledged_commit_is_lost(seed: int) -> None:
    machine = Machine(seed, Witness(), **DURABLE)
    committer = run(live_and_die(seed, machine), clock=machine.clock)
    assert min(committer.acknowledged.values()) > 10
