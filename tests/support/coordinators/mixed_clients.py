"""A coordinator of groups of both types, and minimal classic clients.

Clients of the consumer protocol are in `consumer_clients`; both use the same coordinator.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from ottla.coordinators.group import classic_routing
from ottla.coordinators.group.classic import lookup
from ottla.coordinators.group.classic.group import ClassicGroup
from ottla.coordinators.group.classic.join import Joiner
from ottla.coordinators.group.classic.rules import ClassicRules
from ottla.coordinators.group.consumer.group import ConsumerGroup
from ottla.coordinators.group.consumer.heartbeat_request import Heartbeat, SpecialEpoch
from ottla.coordinators.group.consumer.member_update import UpdateContext
from ottla.coordinators.group.consumer.routing import handle_heartbeat, handle_join
from ottla.coordinators.group.consumer.rules import ConsumerRules
from ottla.coordinators.group.consumer.timers import ASSIGNMENT_TIMER
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.embedded_protocol import (
    by_topic_id,
    read_assignment,
    read_subscription,
)
from ottla.coordinators.group.group import Group
from ottla.coordinators.group.machine import GroupMachine, GroupRules
from ottla.coordinators.group.records import decode, encode
from ottla.errors import ErrorCode, PeerError
from ottla.protocol import codec
from ottla.protocol.consumer_protocol import Assignment, Subscription, TopicPartitions
from ottla.protocol.messages import join_group, leave_group, sync_group
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.protocol.primitives import Uuid
from tests.support.coordinators.consumer_clients import (
    GROUP,
    FakeTopics,
    Log,
    compacted,
    match_by_prefix,
)

SESSION_MS = 10_000
REBALANCE_MS = 30_000
JOIN_VERSION = 9
EAGER, COOPERATIVE = "range", "cooperative-sticky"

GROUP_RULES = GroupRules(
    offset_metadata_bytes_max=4096,
    commit_bytes_max=1 << 20,
    offsets_retention_ms=1 << 40,
    retention_check_interval_ms=1 << 40,
    groups_max=100,
)
CLASSIC_RULES = ClassicRules(
    session_timeout_ms_min=1,
    session_timeout_ms_max=1 << 30,
    initial_rebalance_delay_ms=0,
    members_max=100,
    saved_bytes_max=1 << 20,
)

Owned = set[tuple[Uuid, int]]


class MixedCoordinator:
    """One shard with one group, its log and its timers; the test sets the time."""

    def __init__(self, topics: FakeTopics, rules: ConsumerRules | None = None) -> None:
        self.topics = topics
        self.rules = rules or ConsumerRules(assignment_interval_ms=0)
        self.machine = self._new_machine()
        self.log: Log = []
        self.timers: dict[str, int] = {}
        self.now_ms = 1_000_000
        self._tickets = count(1)
        self._waiting: dict[Hashable, Callable[[Any], None]] = {}

    @property
    def group(self) -> Group | None:
        return self.machine.groups.get(GROUP)

    @property
    def consumer(self) -> ConsumerGroup:
        assert isinstance(self.group, ConsumerGroup), self.group
        return self.group

    @property
    def classic(self) -> ClassicGroup:
        assert isinstance(self.group, ClassicGroup), self.group
        return self.group

    # Requests

    def send(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        """Sends a heartbeat of the consumer protocol. A join is decided alone."""

        def beat(ticket: Hashable) -> Heartbeat:
            return Heartbeat(
                request,
                request.member_id,
                "test",
                "/127.0.0.1",
                ticket,
                self.now_ms,
                self.topics,
                match_by_prefix,
            )

        if request.member_epoch == SpecialEpoch.JOIN:
            response = self._join(beat)
        else:
            response = self._ask(
                lambda ticket: handle_heartbeat(self.machine, self.rules, beat(ticket))
            )
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return response

    def _join(self, beat: Callable[[Hashable], Heartbeat]) -> Any:
        answers: list[Any] = []
        self._ask_later(
            lambda ticket: handle_join(self.machine, self.rules, beat(ticket)), answers.append
        )
        key = f"{ASSIGNMENT_TIMER}/{GROUP}"
        del self.timers[key]
        self._carry_out(self.machine.timer_expired(key, self.now_ms))
        assert key not in self.timers
        (answer,) = answers
        if isinstance(answer, PeerError):
            raise answer
        return answer

    def join(self, request: JoinGroupRequest, answer: Callable[[Any], None], fresh: str) -> None:
        joiner = Joiner(JOIN_VERSION, "test", "/127.0.0.1", fresh, fresh)
        if not request.member_id and lookup.find(self.machine, GROUP) is None:
            self._carry_out(lookup.open_to_join(self.machine, GROUP, self.now_ms))

        def consumers(now_ms: int) -> tuple[ConsumerRules, UpdateContext]:
            return self.rules, UpdateContext(now_ms, self.topics, match_by_prefix)

        self._ask_later(
            lambda ticket: classic_routing.join(
                self.machine, request, joiner, ticket, self.now_ms, consumers
            ),
            answer,
        )

    def sync(self, request: SyncGroupRequest, answer: Callable[[Any], None]) -> None:
        self._ask_later(
            lambda ticket: classic_routing.sync(
                self.machine, request, ticket, self.now_ms, self.topics
            ),
            answer,
        )

    def beat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        response = self._ask(
            lambda ticket: classic_routing.heartbeat(self.machine, request, ticket, self.now_ms)
        )
        assert isinstance(response, HeartbeatResponse)
        return response

    def leave(self, *members: leave_group.Member) -> leave_group.LeaveGroupResponse:
        response = self._ask(
            lambda ticket: classic_routing.leave(self.machine, GROUP, members, ticket, self.now_ms)
        )
        assert isinstance(response, leave_group.LeaveGroupResponse)
        return response

    def hang_up(self, answer: Callable[[Any], None]) -> None:
        """The client no longer waits for this answer."""
        for ticket, waiting in list(self._waiting.items()):
            if waiting == answer:
                del self._waiting[ticket]

    # Time

    def pass_time(self, passed_ms: int) -> list[str]:
        """Advances the time; returns the keys of the timers that were due."""
        self.now_ms += passed_ms
        due = sorted(key for key, due_ms in self.timers.items() if due_ms <= self.now_ms)
        for key in due:
            if self.timers.get(key, self.now_ms + 1) <= self.now_ms:
                del self.timers[key]
                self._carry_out(self.machine.timer_expired(key, self.now_ms))
        return due

    def restart(self, cleaned: int = 0) -> None:
        """A new coordinator loads the log, after the compaction of its first `cleaned` records.
        Waiting requests get no answer."""
        self.log = compacted(self.log[:cleaned]) + self.log[cleaned:]
        self.machine = self.replayed()
        self.timers.clear()
        self._waiting.clear()
        for decision in self.machine.loaded(self.now_ms):
            self._carry_out(decision)

    def replayed(self) -> GroupMachine:
        """A machine that has only the state of the log."""
        machine = self._new_machine()
        for key, value in self.log:
            record = decode(key, value)
            assert record is not None
            machine.replay(record)
        return machine

    def check_replayed(self) -> None:
        """Checks that the durable state equals that of the log."""
        live, read = durable_state(self.group), durable_state(self.replayed().groups.get(GROUP))
        assert live == read

    def _new_machine(self) -> GroupMachine:
        return GroupMachine(
            GROUP_RULES,
            lambda group_id: ClassicGroup(group_id, CLASSIC_RULES),
            lambda group_id: ConsumerGroup(group_id, self.rules, self.topics),
        )

    def _ask(self, decide: Callable[[Hashable], Decision]) -> Any:
        answers: list[Any] = []
        self._ask_later(decide, answers.append)
        (answer,) = answers
        return answer

    def _ask_later(
        self, decide: Callable[[Hashable], Decision], answer: Callable[[Any], None]
    ) -> None:
        ticket = next(self._tickets)
        decision = decide(ticket)
        self._waiting[ticket] = answer
        self._carry_out(decision)

    def _carry_out(self, decision: Decision) -> None:
        for record in decision.records:
            self.log.append(encode(record))
            self.machine.replay(record)
        for key, due_ms in decision.timers:
            if due_ms is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = due_ms
        for ticket, response in decision.answers:
            waiting = self._waiting.pop(ticket, None)
            if waiting is not None:
                waiting(response)


def durable_state(group: Group | None) -> object:
    """The part of a group that the log determines."""
    if isinstance(group, ConsumerGroup):
        return group.saved
    return group.saved if isinstance(group, ClassicGroup) else None


def subscription_bytes(topics: Sequence[str], owned: Sequence[TopicPartitions] = ()) -> bytes:
    said = Subscription(topics=tuple(topics), user_data=None, owned_partitions=tuple(owned))
    return (1).to_bytes(2) + codec.encode_bytes(said, 1)


def assignment_bytes(
    partitions: Sequence[TopicPartitions], user_data: bytes | None = None
) -> bytes:
    given = Assignment(assigned_partitions=tuple(partitions), user_data=user_data)
    return (1).to_bytes(2) + codec.encode_bytes(given, 1)


@dataclass
class ClassicClient:
    """A consumer of the classic protocol: cooperative, or eager, which revokes all partitions
    before it joins. It assigns if it is the leader."""

    coordinator: MixedCoordinator
    name: str
    topics: tuple[str, ...]
    protocol: str = COOPERATIVE
    instance_id: str | None = None
    member_id: str = ""
    generation: int = -1
    owned: Owned = field(default_factory=set)
    is_to_join: bool = True
    # The requests that wait for an answer.
    waits_for: str = ""
    errors: list[ErrorCode] = field(default_factory=list)
    # For a leader: the version of the topics at its last assignment.
    led_version: int | None = None
    _lives: int = 0

    # Joining

    def act(self) -> None:
        """Joins if it has to, else sends a heartbeat; does nothing while a request waits."""
        if self.waits_for:
            return
        if self.is_to_join or self.led_version not in (None, self.coordinator.topics.version):
            self.join()
        else:
            self.beat()

    def join(self) -> None:
        if self.protocol == EAGER:
            self.owned = set()
        self.is_to_join, self.waits_for = False, "join"
        self._lives += 1
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=(join_group.Protocol(name=self.protocol, metadata=self._metadata()),),
        )
        try:
            self.coordinator.join(request, self._joined, f"{self.name}-{self._lives}")
        except PeerError as error:
            self._failed(error.code)

    def _metadata(self) -> bytes:
        return subscription_bytes(self.topics, named(self.owned, self.coordinator.topics))

    def _joined(self, answer: join_group.JoinGroupResponse) -> None:
        self.waits_for = ""
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id, self.is_to_join = answer.member_id, True
        elif answer.error_code:
            self._failed(ErrorCode(answer.error_code))
        else:
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self.waits_for = "sync"
            self.led_version = None
            if answer.leader == answer.member_id:
                # The skipped assignment was made before, with the topics of that time.
                is_skipped = answer.skip_assignment
                self.led_version = -1 if is_skipped else self.coordinator.topics.version
            self._sync(answer)

    def _sync(self, joined: join_group.JoinGroupResponse) -> None:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=self.protocol,
            assignments=cooperative_assignment(joined.members, self.coordinator.topics),
        )
        try:
            self.coordinator.sync(request, self._synced)
        except PeerError as error:
            self._failed(error.code)

    def _synced(self, answer: sync_group.SyncGroupResponse) -> None:
        self.waits_for = ""
        if answer.error_code:
            self._failed(ErrorCode(answer.error_code))
            return
        topics = self.coordinator.topics
        given = by_topic_id(read_assignment(answer.assignment).assigned_partitions, topics)
        assigned = {(topic, index) for topic, indexes in given.items() for index in indexes}
        # A member that has revoked partitions reports that at once.
        self.is_to_join = self.protocol == COOPERATIVE and not self.owned <= assigned
        self.owned = assigned

    # Heartbeats and leaving

    def beat(self) -> None:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        try:
            answer = self.coordinator.beat(request)
        except PeerError as error:
            self._failed(error.code)
            return
        if answer.error_code:
            self._failed(ErrorCode(answer.error_code))

    def leave(self) -> None:
        member = leave_group.Member(
            member_id=self.member_id, group_instance_id=self.instance_id, reason=None
        )
        self.hang_up()
        self.coordinator.leave(member)

    def hang_up(self) -> None:
        """It stops and receives no more answers."""
        self.owned = set()
        for answer in (self._joined, self._synced):
            self.coordinator.hang_up(answer)

    def give_up(self) -> None:
        """It was removed and has to join again."""
        self.hang_up()
        self.waits_for, self.is_to_join = "", True
        self.member_id, self.generation = "", -1

    def _failed(self, code: ErrorCode) -> None:
        self.errors.append(code)
        self.waits_for, self.is_to_join = "", True
        match code:
            case ErrorCode.REBALANCE_IN_PROGRESS:
                pass
            case ErrorCode.ILLEGAL_GENERATION:
                self.owned, self.generation = set(), -1
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self.give_up()
            case _:
                raise PeerError(code, f"{self.name} did not expect it")


def named(owned: Owned, topics: FakeTopics) -> list[TopicPartitions]:
    by_name: dict[str, list[int]] = {}
    for topic_id, index in sorted(owned):
        name = topics.name(topic_id)
        if name is not None:
            by_name.setdefault(name, []).append(index)
    return [
        TopicPartitions(topic=name, partitions=tuple(indexes)) for name, indexes in by_name.items()
    ]


def cooperative_assignment(
    members: Sequence[join_group.Member], topics: FakeTopics
) -> tuple[sync_group.Assignment, ...]:
    """A cooperative leader's assignment: even, without partitions that another member has yet to
    revoke."""
    said = {each.member_id: read_subscription(each.metadata) for each in members}
    owners = {
        (each.topic, index): member_id
        for member_id, subscription in said.items()
        for each in subscription.owned_partitions
        for index in each.partitions
    }
    shares: dict[str, list[tuple[str, int]]] = {member_id: [] for member_id in said}
    for name in sorted(topics.names):
        shape = topics.shape(name)
        wanted = sorted(member_id for member_id in said if name in said[member_id].topics)
        for index in range(shape.partition_count if shape and wanted else 0):
            target = min(wanted, key=lambda member_id: (len(shares[member_id]), member_id))
            shares[target].append((name, index))
    return tuple(
        sync_group.Assignment(
            member_id=member_id,
            assignment=assignment_bytes(
                [
                    TopicPartitions(topic=name, partitions=(index,))
                    for name, index in share
                    if owners.get((name, index), member_id) == member_id
                ]
            ),
        )
        for member_id, share in shares.items()
    )
