"""A member of the classic protocol. The leader of its group assigns the partitions by turns."""

from typing import Any

from ottla.errors import ErrorCode
from ottla.protocol import consumer_protocol
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE
from ottla.protocol.messages import join_group, leave_group, sync_group
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.cluster.routing import TryAgain
from tests.sim.replication.groups.group_state import (
    REBALANCE_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    GroupState,
)
from tests.sim.replication.groups.member import GONE, Member
from tests.sim.replication.world import Target

NO_GENERATION = -1
# A member that hears these joins again.
REJOIN = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)


class ClassicMember(Member):
    """`owned` is what it was given in its generation."""

    def __init__(self, state: GroupState, name: str, *, is_static: bool) -> None:
        super().__init__(state, name, is_static=is_static)
        self._versions = self._entropy.pick(((5, 3, 3, 7), (6, 4, 4, 8), (9, 5, 4, 9)))
        self._generation = NO_GENERATION
        self._owned: frozenset[Target] = frozenset()
        self._is_stable = False
        # A partition of an earlier generation, and the member's fields of then.
        self._former: tuple[Target, dict[str, Any]] | None = None

    @property
    def settled_in(self) -> int | None:
        return self._generation if self._is_stable else None

    @property
    def owned(self) -> frozenset[Target]:
        return self._owned

    def _give_up(self) -> None:
        self._member_id = ""
        self._stop()

    def _stop(self) -> None:
        """It must join before it owns anything again."""
        if self._owned:
            self._former = self._entropy.pick(sorted(self._owned)), self._fields(self._generation)
        self._generation, self._owned, self._is_stable = NO_GENERATION, frozenset(), False

    def _lose_answer(self) -> None:
        self._is_stable = False

    def _take(self, code: int) -> bool:
        """Whether there was no error. TryAgain if it has to join first."""
        accepted = self._coordinator.accept(code)
        if accepted in GONE:
            self._give_up()
        elif accepted in REJOIN:
            self._stop()
        else:
            assert accepted == ErrorCode.NONE, f"{self.name}: {accepted.name}"
            return True
        raise TryAgain

    # Requests

    async def _beat(self) -> None:
        if self._generation == NO_GENERATION:
            await self._join()
            return
        request = HeartbeatRequest(
            group_id=self._state.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
        )
        answer = await self._coordinator.ask(request, self._versions[2])
        self._is_stable = False
        self._is_stable = self._take(answer.response.error_code)

    async def _join(self) -> None:
        """Joins, and syncs as the leader or as a follower."""
        joined = (await self._coordinator.ask(self._join_request(), self._versions[0])).response
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
            raise TryAgain
        self._take(joined.error_code)
        self._member_id = joined.member_id
        await self._sync(joined)

    def _join_request(self) -> join_group.JoinGroupRequest:
        topics = dict.fromkeys(target.topic for target in self._state.targets)
        subscription = consumer_protocol.encode_subscription(topics)
        return join_group.JoinGroupRequest(
            group_id=self._state.group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=(join_group.Protocol(name="range", metadata=subscription),),
        )

    async def _sync(self, joined: Any) -> None:
        leads = joined.leader == joined.member_id and not joined.skip_assignment
        members = [each.member_id for each in joined.members] if leads else []
        request = sync_group.SyncGroupRequest(
            group_id=self._state.group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=self._instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name="range",
            assignments=self._assign(members),
        )
        excuses = self._state.excuses
        synced = (await self._coordinator.ask(request, self._versions[1])).response
        self._take(synced.error_code)
        if excuses == self._state.excuses:
            self._take_assignment(joined.generation_id, synced.assignment)
            await self._commit_late()

    def _assign(self, members: list[str]) -> tuple[sync_group.Assignment, ...]:
        return tuple(
            sync_group.Assignment(
                member_id=member_id,
                assignment=consumer_protocol.encode_partitions(
                    TopicPartition(target.topic, target.index)
                    for target in self._state.targets[number :: len(members)]
                ),
            )
            for number, member_id in enumerate(members)
        )

    def _take_assignment(self, generation: int, assignment: bytes) -> None:
        named = set(consumer_protocol.decode_partitions(assignment))
        self._generation = generation
        self._owned = frozenset(
            target
            for target in self._state.targets
            if TopicPartition(target.topic, target.index) in named
        )
        self._state.epochs.add(generation)
        owner = self._instance_id or self._member_id
        self._state.fail_if(self._state.generations.why_wrong(generation, owner, self._owned))

    async def _commit(self) -> None:
        target = self._entropy.pick(sorted(self._owned))
        session = self._member_id, self._generation
        code = await self._coordinator.commit(
            target, session, self._versions[3], **self._fields(self._generation)
        )
        self._take(code)

    async def _commit_late(self) -> None:
        """As if a commit of its last generation had been on its way."""
        former, self._former = self._former, None
        if former is not None and former[1]["generation"] != self._generation:
            target, fields = former
            await self._coordinator.commit_late(target, self._versions[3], **fields)

    async def _leave(self) -> None:
        leaving = leave_group.Member(member_id=self._member_id, group_instance_id=self._instance_id)
        request = leave_group.LeaveGroupRequest(group_id=self._state.group_id, members=(leaving,))
        self._stop()
        answer = await self._coordinator.ask(request, 5)
        self._coordinator.accept(answer.response.error_code)
