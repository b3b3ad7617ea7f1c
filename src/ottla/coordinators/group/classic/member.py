"""A member of a classic group."""

from dataclasses import dataclass

from ottla.coordinators.group.records import SavedMember
from ottla.protocol.messages.join_group import JoinGroupRequest, Protocol


@dataclass(slots=True)
class ClassicGroupMember:
    """A member's identity, protocols and assignment. `ParkedRequests` has its waiting requests."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    # The preferred protocol first.
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    # Its first join is not answered yet: it does not know its id and cannot send heartbeats.
    is_new: bool = False

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def protocol_names(self) -> frozenset[str]:
        return frozenset(protocol.name for protocol in self.protocols)

    def metadata(self, protocol_name: str | None) -> bytes:
        """The member's metadata for this protocol."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        return b""

    def vote(self, candidates: frozenset[str]) -> str:
        """The first of its protocols that all members support; `join` ensures that there is one."""
        return next(protocol.name for protocol in self.protocols if protocol.name in candidates)

    def renew(self, request: JoinGroupRequest) -> None:
        """Replaces the member's protocols and timeouts by those of a new join."""
        self.protocols = request.protocols
        self.session_timeout_ms = request.session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms(request)

    def saved(self, protocol_name: str | None, assignment: bytes) -> SavedMember:
        return SavedMember(
            member_id=self.member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=self.metadata(protocol_name),
            assignment=assignment,
        )


def rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    """The rebalance timeout; version 0 uses the session timeout for it."""
    if request.rebalance_timeout_ms < 0:
        return request.session_timeout_ms
    return request.rebalance_timeout_ms


def member_from(saved: SavedMember, protocol_name: str) -> ClassicGroupMember:
    """A member loaded from the log, which has only the selected one of its protocols."""
    return ClassicGroupMember(
        member_id=saved.member_id,
        instance_id=saved.instance_id,
        client_id=saved.client_id,
        client_host=saved.client_host,
        session_timeout_ms=saved.session_timeout_ms,
        rebalance_timeout_ms=saved.rebalance_timeout_ms,
        protocols=(Protocol(name=protocol_name, metadata=saved.subscription),),
        assignment=saved.assignment,
    )
