"""The interface of a group to the coordinator, for both protocols."""

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.offsets import CommitCheck
from ottla.coordinators.runtime.decision import TimerSet

if TYPE_CHECKING:
    from ottla.coordinators.group.records import Record


class GroupType(StrEnum):
    """The group types of ListGroups."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Group(Protocol):
    """One group that has, or had, members. Refusals are PeerErrors with Kafka's codes."""

    @property
    def group_type(self) -> GroupType: ...

    @property
    def protocol_type(self) -> str:
        """The protocol type of JoinGroup, mostly `consumer`; empty if no member has ever joined."""
        ...

    @property
    def state_name(self) -> str:
        """The state as ListGroups and DescribeGroups show it: Empty, Stable and so on."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        ...

    @property
    def member_count(self) -> int: ...

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        version: int,
        *,
        is_transactional: bool = False,
    ) -> CommitCheck:
        """A check of each partition of this commit. PeerError if the member may commit nothing.

        `version` is that of OffsetCommit, or of TxnOffsetCommit if `is_transactional`.
        """
        ...

    def committed(self, member_id: str, now_ms: int) -> tuple[TimerSet, ...]:
        """A member has committed: its session is renewed, if Kafka does so for this group type."""
        ...

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """PeerError unless this member may fetch offsets; None and -1 come from any client."""
        ...

    def check_offset_delete(self) -> None:
        """PeerError if no committed offset may be deleted."""
        ...

    def check_delete(self) -> None:
        """PeerError if the group may not be deleted: NON_EMPTY_GROUP if it has members."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member is subscribed to the topic: its offsets are then not deleted."""
        ...

    def offset_expiry_starts_ms(self, commit_ms: int) -> int | None:
        """When the retention of an offset committed at `commit_ms` starts; None: not yet."""
        ...

    def tombstones(self) -> tuple["Record", ...]:
        """The tombstones of all records of the group, except its offsets."""
        ...

    def replay(self, record: "Record") -> None:
        """Applies a record of the group."""
        ...

    def loaded(self, now_ms: int) -> Decision:
        """The log was replayed to its end: the members' sessions start again."""
        ...

    def timer_expired(self, timer_key: str, now_ms: int) -> Decision:
        """A timer that the group has set is due."""
        ...
