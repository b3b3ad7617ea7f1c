"""Clients of consumer groups, which some seeds have, and the check of their offsets in the end."""

from typing import NamedTuple

from ottla.errors import ErrorCode
from tests.sim.broker.crowd import Client
from tests.sim.cluster.routing import Routing
from tests.sim.replication.groups.classic_member import ClassicMember
from tests.sim.replication.groups.committer import Committer
from tests.sim.replication.groups.consumer_member import ConsumerMember
from tests.sim.replication.groups.coordinator_line import CoordinatorLine
from tests.sim.replication.groups.group_state import GroupState
from tests.sim.replication.world import ReplicationWorld

CLASSIC, CONSUMER, PLAIN = "classic", "consumer", "plain"


class GroupTotals(NamedTuple):
    """What happened to all groups of a seed."""

    offset_commits: int
    offsets_checked: int
    generations: int
    coordinator_moves: int


class Groups:
    """Two groups with members, each of one protocol, and one that has offsets only."""

    def __init__(self, world: ReplicationWorld) -> None:
        self._world = world
        self._states = {
            group_id: GroupState(world, group_id) for group_id in (CLASSIC, CONSUMER, PLAIN)
        }
        self._is_here = world.entropy.fork("groups").chance(0.5)

    @property
    def totals(self) -> GroupTotals:
        states = list(self._states.values())
        return GroupTotals(
            offset_commits=sum(state.commits for state in states),
            offsets_checked=sum(state.checked for state in states),
            generations=sum(len(state.epochs) for state in states),
            coordinator_moves=sum(state.coordinator_moves for state in states),
        )

    def clients(self) -> list[Client]:
        """No clients under a seed without groups."""
        if not self._is_here:
            return []
        entropy = self._world.entropy.fork("members")
        members: list[Client] = []
        for group_id, kind in ((CLASSIC, ClassicMember), (CONSUMER, ConsumerMember)):
            for number in range(entropy.between(2, 3)):
                name = f"{group_id}-{number}"
                members.append(kind(self._states[group_id], name, is_static=entropy.chance(0.4)))
        return [*members, Committer(self._states[PLAIN], "committer")]

    async def check(self) -> None:
        """In peace: one broker is a group's coordinator, and has all acknowledged offsets."""
        for state in self._states.values() if self._is_here else ():
            name = f"auditor-of-{state.group_id}"
            entropy = self._world.entropy.fork(name)
            coordinator = CoordinatorLine(state, name, entropy)
            line = await coordinator.open()
            assert state.view(line) is not None, f"{line.machine.host}, of {state.group_id}"
            await coordinator.check_offsets(*state.targets, line=line)
            routing = Routing(self._world, name, entropy.fork("others"))
            for host in self._world.cluster.hosts:
                if host != line.machine.host:
                    answer = await coordinator.fetch(state.targets, await routing.to_host(host))
                    (group,) = answer.response.groups
                    assert group.error_code == ErrorCode.NOT_COORDINATOR, (host, group)
            routing.close()
            coordinator.close()
