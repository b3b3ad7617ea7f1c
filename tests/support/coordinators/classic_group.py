"""A classic group without a shard: decisions are carried out at once, in memory."""

from collections.abc import Callable, Hashable
from itertools import count

from ottla.coordinators.group.classic.group import ClassicGroup, new_group_record
from ottla.coordinators.group.classic.join import Joiner
from ottla.coordinators.group.classic.rules import ClassicRules
from ottla.coordinators.group.classic.states import ClassicGroupState
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.records import Record
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages import leave_group
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, Protocol
from ottla.protocol.messages.leave_group import LeaveGroupResponse
from ottla.protocol.messages.sync_group import Assignment, SyncGroupRequest, SyncGroupResponse

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 3_000
CLASSIC_RULES = ClassicRules(
    session_timeout_ms_min=6_000,
    session_timeout_ms_max=1_800_000,
    initial_rebalance_delay_ms=DELAY_MS,
    members_max=100,
    saved_bytes_max=1_000_000,
)


class Ticket(int):
    """The ticket of a request."""


class Bench:
    """One group, its log, its timers, and the answers by ticket."""

    def __init__(self, rules: ClassicRules = CLASSIC_RULES) -> None:
        self.now_ms = 1_000_000
        self.rules = rules
        self.log: list[Record] = []
        self.timers: dict[str, int] = {}
        self.answers: dict[Hashable, object] = {}
        # The requests since the last load that have no answer yet.
        self.unanswered: set[Ticket] = set()
        self._tickets = count(1)
        self._fresh = count(1)
        self.group = ClassicGroup(GROUP, rules)
        self._act(Decision(records=(new_group_record(GROUP, self.now_ms),)))

    # Requests: each returns its ticket

    def join(
        self,
        member_id: str = "",
        *,
        version: int = 3,
        instance_id: str | None = None,
        protocols: tuple[str, ...] = ("range",),
        metadata: bytes = b"m",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        protocol_type: str = "consumer",
    ) -> Ticket:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=tuple(Protocol(name=name, metadata=metadata) for name in protocols),
        )
        joiner = Joiner(version, "client", "/127.0.0.1", f"{next(self._fresh)}")
        return self.ask(lambda ticket: self.group.join(request, joiner, ticket, self.now_ms))

    def sync(
        self,
        member_id: str,
        assigned: dict[str, bytes] | None = None,
        *,
        generation: int | None = None,
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> Ticket:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.group.generation if generation is None else generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=tuple(
                Assignment(member_id=to, assignment=content)
                for to, content in (assigned or {}).items()
            ),
        )
        return self.ask(lambda ticket: self.group.sync(request, ticket, self.now_ms))

    def beat(
        self, member_id: str, *, generation: int | None = None, instance_id: str | None = None
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.group.generation if generation is None else generation,
            member_id=member_id,
            group_instance_id=instance_id,
        )
        answer = self.answers[
            self.ask(lambda ticket: self.group.heartbeat(request, ticket, self.now_ms))
        ]
        if isinstance(answer, PeerError):
            return answer.code
        assert isinstance(answer, HeartbeatResponse)
        return ErrorCode(answer.error_code)

    def leave(self, *leaving: tuple[str, str | None]) -> list[ErrorCode]:
        members = [
            leave_group.Member(member_id=member_id, group_instance_id=instance_id)
            for member_id, instance_id in leaving
        ]
        answer = self.answers[
            self.ask(lambda ticket: self.group.leave(members, ticket, self.now_ms))
        ]
        assert isinstance(answer, LeaveGroupResponse)
        assert answer.error_code == ErrorCode.NONE
        return [ErrorCode(result.error_code) for result in answer.members]

    def ask(self, decide: Callable[[Hashable], Decision]) -> Ticket:
        ticket = Ticket(next(self._tickets))
        self.unanswered.add(ticket)
        try:
            decision = decide(ticket)
        except PeerError as error:
            self._give(ticket, error)
        else:
            self._act(decision)
        return ticket

    # Answers

    def joined(self, ticket: Ticket) -> JoinGroupResponse:
        answer = self.answers[ticket]
        assert isinstance(answer, JoinGroupResponse), answer
        return answer

    def synced(self, ticket: Ticket) -> SyncGroupResponse:
        answer = self.answers[ticket]
        assert isinstance(answer, SyncGroupResponse), answer
        return answer

    def code(self, ticket: Ticket) -> ErrorCode:
        answer = self.answers[ticket]
        if isinstance(answer, PeerError):
            return answer.code
        assert isinstance(answer, JoinGroupResponse | SyncGroupResponse)
        return ErrorCode(answer.error_code)

    def is_parked(self, ticket: Ticket) -> bool:
        return ticket not in self.answers

    # Time

    def pass_ms(self, amount: int) -> None:
        """Advances the time; due timers expire in order."""
        until_ms = self.now_ms + amount
        while self.timers:
            key = min(self.timers, key=lambda key: (self.timers[key], key))
            if self.timers[key] > until_ms:
                break
            self.now_ms = max(self.now_ms, self.timers.pop(key))
            self._act(self.group.timer_expired(key, self.now_ms))
        self.now_ms = until_ms

    def gather(self) -> None:
        """Waits for the delay of a first rebalance."""
        while self.group.state is ClassicGroupState.PREPARING_REBALANCE:
            self.pass_ms(DELAY_MS)

    def restart(self) -> None:
        """The coordinator stops with all connections; the next one loads the log."""
        self.timers.clear()
        self.unanswered.clear()
        self.group = self.replayed()
        self._act(self.group.loaded(self.now_ms))

    def replayed(self) -> ClassicGroup:
        group = ClassicGroup(GROUP, self.rules)
        for record in self.log:
            group.replay(record)
        return group

    # Scenarios

    def stable(self, *instance_ids: str | None, version: int = 3) -> list[str]:
        """A stable group of these members; their ids, the leader's first."""
        tickets = [
            self.join(instance_id=instance_id, version=version) for instance_id in instance_ids
        ]
        self.gather()
        ids = [self.joined(ticket).member_id for ticket in tickets]
        for member_id in ids[1:]:
            self.sync(member_id)
        self.sync(ids[0], {member_id: member_id.encode() for member_id in ids})
        return ids

    def _act(self, decision: Decision) -> None:
        for record in decision.records:
            self.log.append(record)
            self.group.replay(record)
        for key, due_ms in decision.timers:
            if due_ms is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = due_ms
        for ticket, response in decision.answers:
            self._give(ticket, response)

    def _give(self, ticket: Hashable, response: object) -> None:
        assert isinstance(ticket, Ticket)
        assert ticket in self.unanswered, "answered twice, or by another coordinator"
        self.unanswered.remove(ticket)
        self.answers[ticket] = response
