"""A classic group: members join, the leader assigns, and the coordinator does not read assignments.

The durable state is the last record: a generation with its assignment, or an empty group. It
changes only by `replay`. The rest (joins to the next generation, waiting requests) is lost by a
load: members then have new sessions and send their requests again.
"""

from collections.abc import Hashable, Mapping, Sequence

from ottla.coordinators.group.classic import join, leave, rebalance, sync
from ottla.coordinators.group.classic.decision_builder import (
    DecisionBuilder,
    join_timer_key,
    session_timer_key,
    sync_timer_key,
)
from ottla.coordinators.group.classic.join import Joiner
from ottla.coordinators.group.classic.member import ClassicGroupMember, member_from
from ottla.coordinators.group.classic.parked_requests import ParkedRequests
from ottla.coordinators.group.classic.roster import Roster
from ottla.coordinators.group.classic.rules import ClassicRules
from ottla.coordinators.group.classic.states import (
    DELETE_REFUSALS,
    HEARTBEAT_CODES,
    ClassicGroupState,
    is_allowed,
)
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.group import GroupType
from ottla.coordinators.group.offsets import CommitCheck, accept_any
from ottla.coordinators.group.records import ClassicGroupSaved, ClassicGroupTombstone, Record
from ottla.coordinators.runtime.decision import TimerSet
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE, subscribed_topics
from ottla.protocol.messages import describe_groups, leave_group
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.tuples import maker

# The most bytes that a record needs besides its strings and bytes: in all, and per member.
SAVED_BYTES = 256
SAVED_MEMBER_BYTES = 32

_timer_set = maker(TimerSet)
# The look-up of an enum member takes ten times as long as that of a module's name.
_DEAD, _COMPLETING_REBALANCE = ClassicGroupState.DEAD, ClassicGroupState.COMPLETING_REBALANCE


def new_group_record(group_id: str, now_ms: int) -> ClassicGroupSaved:
    """The record of a group that no member has joined yet."""
    return ClassicGroupSaved(group_id, "", 0, None, None, now_ms, ())


def _state_of(record: ClassicGroupSaved) -> ClassicGroupState:
    """A group without a leader was downgraded, and its members have to join again."""
    if not record.members:
        return ClassicGroupState.EMPTY
    return (
        ClassicGroupState.PREPARING_REBALANCE if record.leader is None else ClassicGroupState.STABLE
    )


class ClassicGroup:
    """See the module. `join`, `sync`, `leave` and `rebalance` use its attributes; other modules
    call its methods."""

    group_type = GroupType.CLASSIC

    def __init__(self, group_id: str, rules: ClassicRules) -> None:
        self.group_id = group_id
        self.rules = rules
        # The record that was replayed last.
        self.saved: ClassicGroupSaved | None = None
        self.state = ClassicGroupState.EMPTY
        # The time of the last state change; -1 if an old record lacks it.
        self.state_ms = -1
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        self.roster = Roster()
        self.parked = ParkedRequests()
        # Ids that were given to clients which have not joined with them yet.
        self.pending_ids: set[str] = set()
        # Members that joined this generation and have not fetched their assignments.
        self.unsynced: set[str] = set()
        # In a first rebalance: by how much its delay may still be extended.
        self.first_delay_left_ms: int | None = None
        self.has_new_member = False
        # The subscribed topics, read from the members' metadata once per state.
        self._topics: frozenset[str] | None = None
        self._are_topics_known = False

    # Requests

    def join(
        self, request: JoinGroupRequest, joiner: Joiner, ticket: Hashable, now_ms: int
    ) -> Decision:
        builder = DecisionBuilder(self.group_id, now_ms)
        join.join(self, request, joiner, ticket, builder)
        return builder.decision()

    def sync(self, request: SyncGroupRequest, ticket: Hashable, now_ms: int) -> Decision:
        builder = DecisionBuilder(self.group_id, now_ms)
        sync.sync(self, request, ticket, builder)
        return builder.decision()

    def heartbeat(self, request: HeartbeatRequest, ticket: Hashable, now_ms: int) -> Decision:
        member = self.check_member(
            request.member_id, request.group_instance_id, request.generation_id
        )
        builder = DecisionBuilder(self.group_id, now_ms)
        builder.set_session_timer(member.member_id, member.session_timeout_ms)
        builder.answer(ticket, HeartbeatResponse(error_code=HEARTBEAT_CODES[self.state]))
        return builder.decision()

    def leave(
        self, leaving: Sequence[leave_group.Member], ticket: Hashable, now_ms: int
    ) -> Decision:
        if self.state is ClassicGroupState.DEAD:
            raise PeerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group is gone")
        builder = DecisionBuilder(self.group_id, now_ms)
        builder.answer(ticket, leave.leave(self, leaving, builder))
        return builder.decision()

    # Time

    def timer_expired(self, timer_key: str, now_ms: int) -> Decision:
        """A timer is due; an outdated one does nothing."""
        builder = DecisionBuilder(self.group_id, now_ms)
        if timer_key == join_timer_key(self.group_id):
            rebalance.join_timer_expired(self, builder)
        elif timer_key == sync_timer_key(self.group_id):
            rebalance.sync_timer_expired(self, builder)
        else:
            self._session_expired(
                timer_key.removeprefix(session_timer_key(self.group_id, "")), builder
            )
        return builder.decision()

    def committed(self, member_id: str, now_ms: int) -> tuple[TimerSet, ...]:
        """A commit renews the member's session like a heartbeat."""
        member = self.roster.get(member_id)
        if member is None or member.is_new:
            return ()
        # Without a DecisionBuilder: commits are frequent.
        due_ms = now_ms + member.session_timeout_ms
        return (_timer_set((session_timer_key(self.group_id, member_id), due_ms)),)

    def _session_expired(self, member_id: str, builder: DecisionBuilder) -> None:
        member = self.roster.get(member_id)
        if member is not None:
            # A member that waits for an answer sends no heartbeats and gets a new session with the
            # answer. A new member does not wait for ever: its client may have stopped.
            if member.is_new or not self.parked.has(member_id):
                rebalance.remove_member(self, member, builder)
        elif member_id in self.pending_ids:
            self.remove_pending(member_id, builder)
            rebalance.try_complete(self, builder)

    # Durable state

    @property
    def member_count(self) -> int:
        return len(self.roster)

    def replay(self, record: Record) -> None:
        """Applies a record of the log, which overrides the state in memory."""
        match record:
            case ClassicGroupSaved():
                self._replay_saved(record)
            case ClassicGroupTombstone():
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
            # A member in memory has more fields than its saved form, so it is kept if they match.
            if member is None or member.saved(record.protocol, saved.assignment) != saved:
                member = member_from(saved, record.protocol or "")
            member.assignment = saved.assignment
            members.append(member)
        self.roster.replace(members, record.leader)
        self.move(_state_of(record), record.state_ms)

    def loaded(self, now_ms: int) -> Decision:
        """All members have new sessions. A group above the maximum size has to rebalance."""
        builder = DecisionBuilder(self.group_id, now_ms)
        for member in self.roster:
            builder.set_session_timer(member.member_id, member.session_timeout_ms)
        if self.state is ClassicGroupState.PREPARING_REBALANCE:
            builder.set_join_timer(self.roster.rebalance_timeout_ms)
        elif len(self.roster) > self.rules.members_max:
            rebalance.start(self, builder)
        return builder.decision()

    def tombstones(self) -> tuple[Record, ...]:
        return (ClassicGroupTombstone(self.group_id),)

    def saved_empty(self, now_ms: int) -> ClassicGroupSaved:
        """The record of the next generation, without members."""
        return ClassicGroupSaved(
            self.group_id, self.protocol_type, self.generation + 1, None, None, now_ms, ()
        )

    def saved_with(self, assigned: Mapping[str, bytes], state_ms: int) -> ClassicGroupSaved:
        """The record of this generation with these assignments by member id, empty if missing."""
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
        """The record of this generation as it is now."""
        assigned = {member.member_id: member.assignment for member in self.roster}
        return self.saved_with(assigned, self.state_ms)

    def is_too_long(self, record: ClassicGroupSaved) -> bool:
        """Whether a record does not fit one batch of the log."""
        # The group id is in the key.
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
        return size > self.rules.saved_bytes_max

    # Members

    def check_member(
        self, member_id: str, instance_id: str | None, generation: int
    ) -> ClassicGroupMember:
        """The member of this generation. PeerError if it is unknown, fenced or of another one."""
        if self.state is _DEAD:
            raise PeerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group is gone")
        member = self.roster.check(member_id, instance_id)
        if generation != self.generation:
            raise PeerError(ErrorCode.ILLEGAL_GENERATION, f"the generation is {self.generation}")
        return member

    def drop(self, member: ClassicGroupMember, builder: DecisionBuilder) -> None:
        """Removes a member and refuses its waiting requests."""
        member_id = member.member_id
        self.parked.refuse_join(member_id, ErrorCode.UNKNOWN_MEMBER_ID, builder, response_id="")
        self.parked.refuse_sync(member_id, ErrorCode.UNKNOWN_MEMBER_ID, builder)
        self.unsynced.discard(member_id)
        self.roster.remove(member_id)
        builder.cancel_session_timer(member_id)

    def rename(self, member: ClassicGroupMember, member_id: str, builder: DecisionBuilder) -> None:
        """Gives a static member a new id; waiting requests of the old id are fenced."""
        old_id = member.member_id
        self.parked.refuse_join(old_id, ErrorCode.FENCED_INSTANCE_ID, builder)
        self.parked.refuse_sync(old_id, ErrorCode.FENCED_INSTANCE_ID, builder)
        builder.cancel_session_timer(old_id)
        if old_id in self.unsynced:
            self.unsynced.remove(old_id)
            self.unsynced.add(member_id)
        self.roster.rename(member, member_id)

    def add_pending(self, member_id: str, timeout_ms: int, builder: DecisionBuilder) -> None:
        """A client that joins with this id before the timeout becomes a member."""
        if len(self.pending_ids) >= self.rules.pending_ids_max:
            raise PeerError(ErrorCode.GROUP_MAX_SIZE_REACHED, "too many ids wait for their members")
        self.pending_ids.add(member_id)
        builder.set_session_timer(member_id, timeout_ms)

    def remove_pending(self, member_id: str, builder: DecisionBuilder) -> None:
        self.pending_ids.remove(member_id)
        builder.cancel_session_timer(member_id)

    def move(self, state: ClassicGroupState, now_ms: int) -> None:
        """Changes the state. RuntimeError if `TRANSITIONS` does not allow it."""
        if not is_allowed(self.state, state):
            raise RuntimeError(f"group {self.group_id}: from {self.state} to {state}")
        self.state = state
        self.state_ms = now_ms
        self._are_topics_known = False

    # Queries

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
        """Accepts every partition. PeerError if this member, or a client without one, may not."""
        state = self.state
        if state is _DEAD:
            raise PeerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group is gone")
        if generation < 0 and self.is_empty:
            return accept_any
        if generation >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id, generation)
        elif not is_transactional and not self.is_empty:
            raise PeerError(ErrorCode.UNKNOWN_MEMBER_ID, "the group has members")
        if state is _COMPLETING_REBALANCE and not is_transactional:
            raise PeerError(ErrorCode.REBALANCE_IN_PROGRESS, "the group rebalances")
        return accept_any

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:  # noqa: ARG002
        """Any client may fetch the offsets of a classic group."""
        if self.state is ClassicGroupState.DEAD:
            raise PeerError(ErrorCode.GROUP_ID_NOT_FOUND, "the group is gone")

    def check_offset_delete(self) -> None:
        """Consumers' subscriptions are known: offsets of other topics may be deleted."""
        refusal = DELETE_REFUSALS.get(self.state)
        is_known = self.protocol_type == PROTOCOL_TYPE and refusal is ErrorCode.NON_EMPTY_GROUP
        if refusal is not None and not is_known:
            raise PeerError(refusal, f"the group is {self.state}")

    def check_delete(self) -> None:
        refusal = DELETE_REFUSALS.get(self.state)
        if refusal is not None:
            raise PeerError(refusal, f"the group is {self.state}")

    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics that the members are subscribed to; None if these are unknown."""
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
        """Whether a member is subscribed to the topic, or may be: its subscription is unknown."""
        topics = self.subscribed_topics()
        return self.protocol_type == PROTOCOL_TYPE if topics is None else topic in topics

    def offset_expiry_starts_ms(self, commit_ms: int) -> int | None:
        """From the commit for simple consumers, else from when the group became empty.

        Offsets of unsubscribed topics of a stable group count from the commit, too.
        """
        if not self.protocol_type:
            return commit_ms
        if self.is_empty:
            return commit_ms if self.state_ms < 0 else self.state_ms
        is_known = self.state is ClassicGroupState.STABLE and self.subscribed_topics() is not None
        return commit_ms if is_known else None

    def describe(self) -> describe_groups.Group:
        """The answer to DescribeGroups: metadata and assignments of a stable group only."""
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
