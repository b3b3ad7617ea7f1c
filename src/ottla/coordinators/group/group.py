"""What the coordinator asks of a group, whichever protocol its members speak."""

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.offsets import CommitCheck
from ottla.coordinators.runtime.decision import TimerSet

if TYPE_CHECKING:
    from ottla.coordinators.group.records import Record


class GroupType(StrEnum):
    """As ListGroups names the protocol of a group's members."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Group(Protocol):
    """One group with members, or that had some. Refusals are PeerErrors with Kafka's codes."""

    @property
    def group_type(self) -> GroupType: ...

    @property
    def protocol_type(self) -> str:
        """What the members are to each other, `consumer` for most; empty where none ever joined."""
        ...

    @property
    def state_name(self) -> str:
        """As ListGroups and DescribeGroups call it: Empty, Stable and so on."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        ...

    @property
    def member_count(self) -> int: ...

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, version: int
    ) -> CommitCheck:
        """What this member may commit by this version of OffsetCommit. PeerError: nothing."""
        ...

    def committed(self, member_id: str, now_ms: int) -> tuple[TimerSet, ...]:
        """A member has committed, and so is alive: its session begins anew where Kafka says so."""
        ...

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Whether this member may ask for committed offsets; None and -1 come from anybody."""
        ...

    def check_offset_delete(self) -> None:
        """Whether committed offsets may be deleted at all."""
        ...

    def check_delete(self) -> None:
        """Whether the group may be deleted: NON_EMPTY_GROUP if it has members."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic: offsets of such a one are not deleted."""
        ...

    def offset_expiry_starts_ms(self, commit_ms: int) -> int | None:
        """From when on the retention of an offset counts that was committed then; None: not yet."""
        ...

    def forgotten(self) -> tuple["Record", ...]:
        """The tombstones of everything that was saved of it, offsets apart."""
        ...

    def replay(self, record: "Record") -> None:
        """Takes what was saved of it."""
        ...

    def loaded(self, now_ms: int) -> Decision:
        """It was replayed to its end: its members' sessions begin anew."""
        ...

    def expired(self, timer_key: str, now_ms: int) -> Decision:
        """A timer that it set is due."""
        ...
