"""A member of the consumer protocol (KIP-848), which revokes and takes on what it is told."""

from typing import Any

from ottla.coordinators.group.consumer.heartbeat_request import SpecialEpoch
from ottla.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ottla.protocol.primitives import Uuid
from tests.sim.cluster.routing import TryAgain
from tests.sim.replication.groups.coordinator_line import Answer
from tests.sim.replication.groups.group_state import SESSION_TIMEOUT_MS, GroupState
from tests.sim.replication.groups.member import GONE, Member
from tests.sim.replication.groups.ownership import Claim
from tests.sim.replication.world import Target

HEARTBEAT_VERSION, COMMIT_VERSION = 1, 9
# The session of its former life is not over; or an answer was lost, and with it its epoch.
LATER = (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.STALE_MEMBER_EPOCH)
# Longer than a run: a member that does not hear what to revoke is not removed for that.
REVOCATION_TIMEOUT_MS = 600_000


class ConsumerMember(Member):
    """As real ones it says what it owns after it has done what it was told, or when it says
    everything: after an answer was lost. Then it takes on nothing before it is told again.
    """

    def __init__(self, state: GroupState, name: str, *, is_static: bool) -> None:
        super().__init__(state, name, is_static=is_static)
        self._lives = 0
        # The time for which its session lasts at least.
        self._until_s = 0.0
        self._reset()

    def _reset(self) -> None:
        self._lives += 1
        self._member_id = f"{self.name}.{self._lives}"
        self._epoch = int(SpecialEpoch.JOIN)
        self._owned: frozenset[Target] = frozenset()
        self._told: frozenset[Target] | None = None
        self._says_all = True
        self._says_owned = True
        self._is_stable = False
        # A partition that it has revoked, and its fields of then.
        self._former: tuple[Target, dict[str, Any]] | None = None

    @property
    def settled_in(self) -> int | None:
        """All members must be stable, whatever their epochs."""
        return 0 if self._is_stable and self._told is None else None

    @property
    def owned(self) -> frozenset[Target]:
        return self._owned

    @property
    def _owner(self) -> str:
        return self._instance_id or self._member_id

    def _give_up(self) -> None:
        self._state.claims.give_up(self._owner)
        self._reset()

    def _lose_answer(self) -> None:
        self._says_all, self._told, self._is_stable = True, None, False

    # Heartbeats

    async def _beat(self) -> None:
        self._reconcile()
        answer = await self._coordinator.ask(self._request(self._epoch), HEARTBEAT_VERSION)
        self._is_stable = False
        response = answer.response
        code = self._coordinator.accept(response.error_code)
        self._expect_success(code)
        self._take(answer)
        await self._commit_late()

    def _request(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        says_all = self._says_all or epoch == SpecialEpoch.JOIN
        topics = tuple(dict.fromkeys(target.topic for target in self._state.targets))
        return ConsumerGroupHeartbeatRequest(
            group_id=self._state.group_id,
            member_id=self._member_id,
            member_epoch=epoch,
            instance_id=self._instance_id,
            rebalance_timeout_ms=REVOCATION_TIMEOUT_MS if says_all else -1,
            subscribed_topic_names=topics if says_all else None,
            topic_partitions=self._owned_by_topic() if says_all or self._says_owned else None,
        )

    def _owned_by_topic(self) -> tuple[TopicPartitions, ...]:
        owned: dict[Uuid, list[int]] = {}
        for target in sorted(self._owned):
            owned.setdefault(target.topic_id, []).append(target.index)
        return tuple(
            TopicPartitions(topic_id=topic_id, partitions=tuple(indexes))
            for topic_id, indexes in owned.items()
        )

    def _take(self, answer: Answer) -> None:
        response = answer.response
        self._says_all = self._says_owned = False
        self._epoch = response.member_epoch
        self._state.epochs.add(response.member_epoch)
        if answer.view is not None:
            self._until_s = answer.sent_s + SESSION_TIMEOUT_MS / 1e3
        if response.assignment is not None:
            self._told = frozenset(
                target
                for target in self._state.targets
                for each in response.assignment.topic_partitions
                if target.topic_id == each.topic_id and target.index in each.partitions
            )
        self._is_stable = True
        self._claim()
        if self._entropy.chance(0.7):
            self._reconcile()

    def _reconcile(self) -> None:
        """Revokes and takes on partitions as it was told."""
        if self._told is not None:
            revoked = sorted(self._owned - self._told)
            if revoked:
                self._former = self._entropy.pick(revoked), self._fields(self._epoch)
            self._is_stable = self._owned == self._told
            self._owned, self._told, self._says_owned = self._told, None, True
            self._claim()

    def _claim(self) -> None:
        claim = Claim(self._owned, self._until_s)
        self._state.fail_if(self._state.claims.why_wrong(self._owner, claim, self._state.now_s))

    # Other requests

    async def _commit(self) -> None:
        target = self._entropy.pick(sorted(self._owned))
        code = await self._coordinator.commit(
            target, self._member_id, COMMIT_VERSION, **self._fields(self._epoch)
        )
        self._expect_success(code)

    def _expect_success(self, code: ErrorCode) -> None:
        """TryAgain if it has to wait, or to join again."""
        if code in GONE:
            self._give_up()
        if code in (*GONE, *LATER):
            raise TryAgain
        assert code == ErrorCode.NONE, f"{self.name}: {code.name}"

    async def _commit_late(self) -> None:
        """As if a commit of a partition that it has revoked had been on its way."""
        if self._former is not None and self._former[1]["generation"] != self._epoch:
            (target, fields), self._former = self._former, None
            if target not in self._owned:
                await self._coordinator.commit_late(target, COMMIT_VERSION, **fields)

    async def _leave(self) -> None:
        """For good, or as a static member that will be back."""
        is_back_soon = self._instance_id is not None and self._entropy.chance(0.5)
        self._owned = frozenset()
        self._claim()
        request = self._request(SpecialEpoch.LEAVE_STATIC if is_back_soon else SpecialEpoch.LEAVE)
        answer = await self._coordinator.ask(request, HEARTBEAT_VERSION)
        self._coordinator.accept(answer.response.error_code)
