"""A member of a classic group: joins, heartbeats, commits, leaves.

Supports the range assignor and the eager protocol: in a rebalance all members revoke their
partitions and join again.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ottla.client.admin.group_offsets import (
    NO_GENERATION,
    CommittedOffset,
    Generation,
    commit_offsets,
)
from ottla.client.connection.connection import Connection
from ottla.client.consumer.assignors import assign_range
from ottla.client.errors import ClientError, Refused, error_code, raise_if_refused
from ottla.client.routing.coordinators import CoordinatorKey
from ottla.client.routing.outcomes import unwrap
from ottla.client.routing.router import Router
from ottla.errors import ErrorCode
from ottla.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    decode_partitions,
    decode_subscription,
    encode_partitions,
    encode_subscription,
)
from ottla.protocol.messages import heartbeat, join_group, leave_group, sync_group
from ottla.protocol.topic_partition import TopicPartition

RANGE = "range"
# The last version of LeaveGroup with one member per request.
_ONE_MEMBER_VERSION_MAX = 2
# Added to the rebalance timeout for the response itself.
_GRACE_MS = 5_000
# The member's generation is over.
_GENERATION_OVER = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberOptions:
    """The timeouts and the heartbeat interval of a member."""

    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 60_000
    heartbeat_interval_ms: int = 3_000


class Membership:
    """One member. Between `join` and `leave` it must send heartbeats within the session timeout."""

    def __init__(
        self, router: Router, group_id: str, topics: Sequence[str], options: MemberOptions
    ) -> None:
        self.group_id = group_id
        self.options = options
        self._router = router
        self._key = CoordinatorKey(group_id)
        self._topics = tuple(topics)
        self._generation = NO_GENERATION

    async def join(self) -> list[TopicPartition]:
        """Joins the next generation; returns this member's assignment. ClientError."""
        timeout_ms = (
            self._router.options.default_api_timeout_ms + self._rebalance_response_timeout_ms
        )
        return await self._router.retrying(self._join, timeout_ms=timeout_ms)

    async def heartbeat(self) -> bool:
        """Sends a heartbeat. False if the generation is over. ClientError."""
        request = heartbeat.HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self._generation.generation_id,
            member_id=self._generation.member_id,
        )
        answer: heartbeat.HeartbeatResponse = await self._router.ask_coordinator(
            self._key, request, lambda answer: [answer.error_code]
        )
        return not self._is_over(answer.error_code)

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Commits offsets. False if the generation is over. ClientError."""
        outcomes = await commit_offsets(
            self._router,
            self.group_id,
            {each: CommittedOffset(offset) for each, offset in offsets.items()},
            self._generation,
        )
        for outcome in outcomes.values():
            if isinstance(outcome, Refused) and self._is_over(outcome.code):
                return False
            unwrap(outcome)
        return True

    async def leave(self) -> None:
        """Leaves the group, so that others need not wait for the session timeout. Never fails."""
        if not self._generation.member_id:
            return
        request = leave_group.LeaveGroupRequest(
            group_id=self.group_id, member_id=self._generation.member_id
        )
        self._generation = NO_GENERATION
        try:
            async with self._router.coordinator(self._key) as coordinator:
                await coordinator.ask(request, version_max=_ONE_MEMBER_VERSION_MAX)
        except ClientError:
            return

    @property
    def _rebalance_response_timeout_ms(self) -> int:
        """The timeout of JoinGroup and SyncGroup, which wait for the other members."""
        return self.options.rebalance_timeout_ms + _GRACE_MS

    async def _join(self) -> list[TopicPartition]:
        async with self._router.coordinator(self._key) as coordinator:
            while True:
                joined = await self._ask_to_join(coordinator)
                if joined is not None:
                    assigned = await self._sync(coordinator, joined)
                    if assigned is not None:
                        return assigned
                await asyncio.sleep(self._router.options.retry_backoff_ms / 1e3)

    async def _ask_to_join(self, coordinator: Connection) -> join_group.JoinGroupResponse | None:
        """None if it must be sent again: with the new member id, or without the old one."""
        subscription = encode_subscription(self._topics)
        request = join_group.JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.options.session_timeout_ms,
            rebalance_timeout_ms=self.options.rebalance_timeout_ms,
            member_id=self._generation.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=(join_group.Protocol(name=RANGE, metadata=subscription),),
        )
        answer: join_group.JoinGroupResponse = await coordinator.ask(
            request, timeout_ms=self._rebalance_response_timeout_ms
        )
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._generation = Generation(NO_GENERATION.generation_id, answer.member_id)
            return None
        if self._is_over(answer.error_code):
            return None
        self._generation = Generation(answer.generation_id, answer.member_id)
        return answer

    async def _sync(
        self, coordinator: Connection, joined: join_group.JoinGroupResponse
    ) -> list[TopicPartition] | None:
        """The assignment of this member; None if the generation is over."""
        leads = joined.leader == joined.member_id and not joined.skip_assignment
        request = sync_group.SyncGroupRequest(
            group_id=self.group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=await self._assign(joined.members) if leads else (),
        )
        answer: sync_group.SyncGroupResponse = await coordinator.ask(
            request, timeout_ms=self._rebalance_response_timeout_ms
        )
        if self._is_over(answer.error_code):
            return None
        return decode_partitions(answer.assignment)

    async def _assign(
        self, members: Sequence[join_group.Member]
    ) -> tuple[sync_group.Assignment, ...]:
        wanted = {
            member.member_id: decode_subscription(member.metadata).topics for member in members
        }
        topics = {topic for own in wanted.values() for topic in own}
        topology = await self._router.refresh(topics)
        counts = {
            name: len(topic.partitions) for name, topic in topology.topics.items() if name in topics
        }
        return tuple(
            sync_group.Assignment(member_id=member_id, assignment=encode_partitions(partitions))
            for member_id, partitions in assign_range(wanted, counts).items()
        )

    def _is_over(self, number: int) -> bool:
        """Whether the code says that the generation is over. Refused for any other error."""
        code = error_code(number)
        if code not in _GENERATION_OVER:
            raise_if_refused(number, f"group {self.group_id}")
            return False
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._generation = NO_GENERATION
        return True
