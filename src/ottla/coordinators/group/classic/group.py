"""A classic group: its members join, their leader assigns, and the coordinator never looks inside.

What lasts is the last record: a generation with its assignment, or that the group is empty. It
changes by `replay` alone. The rest (who has joined the next generation, who waits for an answer)
is rebuilt by the members after a load, each of which has a fresh session then.
"""

from collections.abc import Hashable, Mapping, Sequence

from ottla.coordinators.group.classic import join, leave, rebalance, sync
from ottla.coordinators.group.classic.decision_builder import (
    Draft,
    joining_key,
    session_key,
    syncing_key,
)
from ottla.coordinators.group.classic.join import Joiner
from ottla.coordinators.group.classic.member import ClassicGroupMember, member_from
from ottla.coordinators.group.classic.parked_requests import Waiting
from ottla.coordinators.group.classic.roster import Roster
from ottla.coordinators.group.classic.rules import ClassicLimits
from ottla.coordinators.group.classic.states import (
    DELETE_REFUSALS,
    HEARTBEAT_ANSWERS,
    ClassicGroupState,
    is_allowed,
)
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.group import GroupType
from ottla.coordinators.group.offsets import CommitCheck, anything
from ottla.coordinators.group.records import ClassicGroupForgotten, ClassicGroupSaved, Record
from ottla.coordinators.runtime.decision import TimerSet
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE, subscribed_topics
from ottla.protocol.messages import describe_groups, leave_group
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.tuples import maker

# What a record needs at most besides its texts and bytes, for itself and for each member.
SAVED_BYTES = 256
SAVED_MEMBER_BYTES = 32

_timer_set = maker(TimerSet)
# A member of an enum is found in ten times the time of a module's name: not for every commit.
_DEAD, _COMPLETING_REBALANCE = ClassicGroupState.DEAD, ClassicGroupState.COMPLETING_REBALANCE


def created(group_id: str, now_ms: int) -> ClassicGroupSaved:
    """The record of a group that nobody has joined yet."""
    return ClassicGroupSaved(group_id, "", 0, None, None, now_ms, ())


def _state_of(record: ClassicGroupSaved) -> ClassicGroupState:
    """Without a leader it has left the consumer protocol, and its members are to join again."""
    if not record.members:
        return ClassicGroupState.EMPTY
    return (
        ClassicGroupState.PREPARING_REBALANCE if record.leader is None else ClassicGroupState.STABLE
    )


class ClassicGroup:
    """See the module. The parts that decide (`join`, `sync`, `leave`, `rebalance`) share its
    attributes; everybody else calls its methods."""

    group_type = GroupType.CLASSIC

    def __init__(self, group_id: str, limits: ClassicLimits) -> None:
        self.group_id = group_id
        self.limits = limits
        # What lasts, as it was replayed last.
        self.saved: ClassicGroupSaved | None = None
        self.state = ClassicGroupState.EMPTY
        # When the state changed; -1: a record of old does not say.
        self.state_ms = -1
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        self.roster = Roster()
        self.waiting = Waiting()
        # Ids that were handed out, and whose holders are to join with them.
        self.promised_ids: set[str] = set()
        # Who joined this generation and has not fetched its assignment.
        self.unsynced: set[str] = set()
        # In a first rebalance: how much longer it may wait for more members.
        self.first_delay_left_ms: int | None = None
        self.has_newcomer = False
        # What its members read, once it was asked for in this state.
        self._topics: frozenset[str] | None = None
        self._are_topics_known = False

    # Requests

    def join(
        self, request: JoinGroupRequest, joiner: Joiner, ticket: Hashable, now_ms: int
    ) -> Decision:
        draft = Draft(self.group_id, now_ms)
        join.join(self, request, joiner, ticket, draft)
        return draft.decision()

    def sync(self, request: SyncGroupRequest, ticket: Hashable, now_ms: int) -> Decision:
        draft = Draft(self.group_id, now_ms)
        sync.sync(self, request, ticket, draft)
        return draft.decision()

    def heartbeat(self, request: HeartbeatRequest, ticket: Hashable, now_ms: int) -> Decision:
        member = self.check_member(
            request.member_id, request.group_instance_id, request.generation_id
        )
        draft = Draft(self.group_id, now_ms)
        draft.expect_beat(member.member_id, member.session_timeout_ms)
        draft.answer(ticket, HeartbeatResponse(error_code=HEARTBEAT_ANSWERS[self.state]))
        return draft.decision()

    def leave(
        self, leaving: Sequence[leave_group.Member], ticket: Hashable, now_ms: int
    ) -> Decision:
        if self.state is ClassicGroupState.DEAD:
            raise PeerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group is gone")
        draft = Draft(self.group_id, now_ms)
        draft.answer(ticket, leave.leave(self, leaving, draft))
        return draft.decision()

    # Time

    def expired(self, timer_key: str, now_ms: int) -> Decision:
        """A timer is due; one that was overtaken by events does nothing."""
        draft = Draft(self.group_id, now_ms)
        if timer_key == joining_key(self.group_id):
            rebalance.time_is_up(self, draft)
        elif timer_key == syncing_key(self.group_id):
            rebalance.syncing_took_too_long(self, draft)
        else:
            self._session_expired(timer_key.removeprefix(session_key(self.group_id, "")), draft)
        return draft.decision()

    def committed(self, member_id: str, now_ms: int) -> tuple[TimerSet, ...]:
        """A member has committed offsets, which says as much as a heartbeat."""
        member = self.roster.get(member_id)
        if member is None or member.is_newcomer:
            return ()
        # Not by a draft: consumers commit all the time.
        due_ms = now_ms + member.session_timeout_ms
        return (_timer_set((session_key(self.group_id, member_id), due_ms)),)

    def _session_expired(self, member_id: str, draft: Draft) -> None:
        member = self.roster.get(member_id)
        if member is not None:
            # Who waits for an answer cannot beat, and gets a new session with it; a newcomer's
            # place is not kept forever, as it may have gone.
            if member.is_newcomer or not self.waiting.has(member_id):
                rebalance.lose(self, member, draft)
        elif member_id in self.promised_ids:
            self.break_promise(member_id, draft)
            rebalance.try_complete(self, draft)

    # Lasting state

    @property
    def member_count(self) -> int:
        return len(self.roster)

    def replay(self, record: Record) -> None:
        """What the log says holds."""
        match record:
            case ClassicGroupSaved():
                self._replay_saved(record)
            case ClassicGroupForgotten():
                self.saved = None
                self.move(ClassicGroupState.DEAD, self.state_ms)
            case _:
                raise TypeError(f"not of a classic group: {record}")

    def _replay_saved(self, record: ClassicGroupSaved) -> None:
        self.saved = record
        self.generation = record.generation
        self.protocol_type = record.protocol_type
        self.protocol = record.protocol
        members = []
        for saved in record.members:
            member = self.roster.get(saved.member_id)
            # One that is here knows more than was saved, if what was saved is of it as it is.
            if member is None or member.saved(record.protocol, saved.assignment) != saved:
                member = member_from(saved, record.protocol or "")
            member.assignment = saved.assignment
            members.append(member)
        self.roster.replace(members, record.leader)
        self.move(_state_of(record), record.state_ms)

    def loaded(self, now_ms: int) -> Decision:
        """Everybody has a fresh session. Too many (the limit was lowered) have to join again."""
        draft = Draft(self.group_id, now_ms)
        for member in self.roster:
            draft.expect_beat(member.member_id, member.session_timeout_ms)
        if self.state is ClassicGroupState.PREPARING_REBALANCE:
            draft.end_joining_in(self.roster.rebalance_timeout_ms)
        elif len(self.roster) > self.limits.members_max:
            rebalance.start(self, draft)
        return draft.decision()

    def forgotten(self) -> tuple[Record, ...]:
        return (ClassicGroupForgotten(self.group_id),)

    def saved_empty(self, now_ms: int) -> ClassicGroupSaved:
        """The next generation, of nobody."""
        return ClassicGroupSaved(
            self.group_id, self.protocol_type, self.generation + 1, None, None, now_ms, ()
        )

    def saved_with(self, assigned: Mapping[str, bytes], state_ms: int) -> ClassicGroupSaved:
        """This generation, with these assignments by member id; who has none gets nothing."""
        return ClassicGroupSaved(
            self.group_id,
            self.protocol_type,
            self.generation,
            self.protocol,
            self.roster.leader,
            state_ms,
            tuple(
                member.saved(self.protocol, assigned.get(member.member_id, b""))
                for member in self.roster
            ),
        )

    def saved_again(self) -> ClassicGroupSaved:
        """This generation as it is now."""
        assigned = {member.member_id: member.assignment for member in self.roster}
        return self.saved_with(assigned, self.state_ms)

    def is_too_long(self, record: ClassicGroupSaved) -> bool:
        """Whether a record does not fit the log."""
        # The group's id stands in the key.
        texts: tuple[str | None, ...] = (
            record.group,
            record.protocol_type,
            record.protocol,
            record.leader,
        )
        size = SAVED_BYTES + sum(len((text or "").encode()) for text in texts)
        for member in record.members:
            texts = (member.member_id, member.instance_id, member.client_id, member.client_host)
            size += SAVED_MEMBER_BYTES + sum(len((text or "").encode()) for text in texts)
            size += len(member.subscription) + len(member.assignment)
        return size > self.limits.saved_bytes_max

    # Members

    def check_member(
        self, member_id: str, instance_id: str | None, generation: int
    ) -> ClassicGroupMember:
        """The member of this generation that asks; a PeerError says why it is not."""
        if self.state is _DEAD:
            raise PeerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group is gone")
        member = self.roster.check(member_id, instance_id)
        if generation != self.generation:
            raise PeerError(ErrorCode.ILLEGAL_GENERATION, f"the generation is {self.generation}")
        return member

    def drop(self, member: ClassicGroupMember, draft: Draft) -> None:
        """It is no member any more; if it waits, it is told."""
        member_id = member.member_id
        self.waiting.refuse_join(member_id, ErrorCode.UNKNOWN_MEMBER_ID, draft, told_id="")
        self.waiting.refuse_sync(member_id, ErrorCode.UNKNOWN_MEMBER_ID, draft)
        self.unsynced.discard(member_id)
        self.roster.remove(member_id)
        draft.expect_no_beat(member_id)

    def rename(self, member: ClassicGroupMember, member_id: str, draft: Draft) -> None:
        """A static member goes on under another id; whoever waits under the old one is fenced."""
        old_id = member.member_id
        self.waiting.refuse_join(old_id, ErrorCode.FENCED_INSTANCE_ID, draft)
        self.waiting.refuse_sync(old_id, ErrorCode.FENCED_INSTANCE_ID, draft)
        draft.expect_no_beat(old_id)
        if old_id in self.unsynced:
            self.unsynced.remove(old_id)
            self.unsynced.add(member_id)
        self.roster.rename(member, member_id)

    def promise(self, member_id: str, timeout_ms: int, draft: Draft) -> None:
        """Whoever comes with this id in time may join."""
        if len(self.promised_ids) >= self.limits.promised_ids_max:
            raise PeerError(ErrorCode.GROUP_MAX_SIZE_REACHED, "too many ids wait for their members")
        self.promised_ids.add(member_id)
        draft.expect_beat(member_id, timeout_ms)

    def break_promise(self, member_id: str, draft: Draft) -> None:
        self.promised_ids.remove(member_id)
        draft.expect_no_beat(member_id)

    def move(self, state: ClassicGroupState, now_ms: int) -> None:
        """Into another state, along an arrow of the rules."""
        if not is_allowed(self.state, state):
            raise RuntimeError(f"group {self.group_id}: from {self.state} to {state}")
        self.state = state
        self.state_ms = now_ms
        self._are_topics_known = False

    # Questions

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicGroupState.EMPTY

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        version: int = 0,  # noqa: ARG002 - all versions are answered alike
        *,
        is_transactional: bool = False,
    ) -> CommitCheck:
        """Anything, where this member may commit offsets, or nobody in particular (-1) may."""
        state = self.state
        if state is _DEAD:
            raise PeerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group is gone")
        if generation < 0 and self.is_empty:
            return anything
        if generation >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id, generation)
        elif not is_transactional and not self.is_empty:
            raise PeerError(ErrorCode.UNKNOWN_MEMBER_ID, "the group has members")
        if state is _COMPLETING_REBALANCE and not is_transactional:
            raise PeerError(ErrorCode.REBALANCE_IN_PROGRESS, "the group rebalances")
        return anything

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:  # noqa: ARG002
        """Anybody may ask where a classic group stands."""
        if self.state is ClassicGroupState.DEAD:
            raise PeerError(ErrorCode.GROUP_ID_NOT_FOUND, "the group is gone")

    def check_offset_delete(self) -> None:
        """Of consumers the topics are known, and those that they do not read may be forgotten."""
        refusal = DELETE_REFUSALS.get(self.state)
        is_known = self.protocol_type == PROTOCOL_TYPE and refusal is ErrorCode.NON_EMPTY_GROUP
        if refusal is not None and not is_known:
            raise PeerError(refusal, f"the group is {self.state}")

    def check_delete(self) -> None:
        refusal = DELETE_REFUSALS.get(self.state)
        if refusal is not None:
            raise PeerError(refusal, f"the group is {self.state}")

    def subscribed_topics(self) -> frozenset[str] | None:
        """What its members read; None if that cannot be told."""
        if not self._are_topics_known:
            self._topics = self._read_topics()
            self._are_topics_known = True
        return self._topics

    def _read_topics(self) -> frozenset[str] | None:
        if self.protocol_type != PROTOCOL_TYPE:
            return None
        topics: set[str] = set()
        for member in self.roster:
            subscribed = subscribed_topics(member.metadata(self.protocol))
            if subscribed is None:
                return None
            topics |= subscribed
        return frozenset(topics)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic; consumers of whom nothing is known may."""
        topics = self.subscribed_topics()
        return self.protocol_type == PROTOCOL_TYPE if topics is None else topic in topics

    def offset_expiry_starts_ms(self, commit_ms: int) -> int | None:
        """Offsets are kept while their group lives, those of simple consumers since the commit."""
        if not self.protocol_type:
            return commit_ms
        if self.is_empty:
            return commit_ms if self.state_ms < 0 else self.state_ms
        is_known = self.state is ClassicGroupState.STABLE and self.subscribed_topics() is not None
        return commit_ms if is_known else None

    def describe(self) -> describe_groups.Group:
        """As DescribeGroups wants it: metadata and assignments of a stable group only."""
        is_stable = self.state is ClassicGroupState.STABLE
        return describe_groups.Group(
            error_code=ErrorCode.NONE,
            group_id=self.group_id,
            group_state=self.state.value,
            protocol_type=self.protocol_type,
            protocol_data=(self.protocol or "") if is_stable else "",
            members=tuple(
                describe_groups.Member(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.metadata(self.protocol) if is_stable else b"",
                    member_assignment=member.assignment if is_stable else b"",
                )
                for member in self.roster
            ),
        )
