"""Joins and syncs that wait for their answer. They are not stored: a load starts without any."""

from collections.abc import Hashable

from ottla.coordinators.group.classic import responses
from ottla.coordinators.group.classic.decision_builder import DecisionBuilder
from ottla.errors import ErrorCode


class ParkedRequests:
    """The tickets of waiting joins and syncs, by member id."""

    __slots__ = ("joins", "syncs")

    def __init__(self) -> None:
        self.joins: dict[str, Hashable] = {}
        self.syncs: dict[str, Hashable] = {}

    def join(self, member_id: str, ticket: Hashable, builder: DecisionBuilder) -> None:
        """Parks a join. It replaces an earlier join of the member, which is refused."""
        self.refuse_join(member_id, ErrorCode.REBALANCE_IN_PROGRESS, builder)
        self.joins[member_id] = ticket

    def sync(self, member_id: str, ticket: Hashable, builder: DecisionBuilder) -> None:
        """Parks a sync, in the same way."""
        self.refuse_sync(member_id, ErrorCode.REBALANCE_IN_PROGRESS, builder)
        self.syncs[member_id] = ticket

    def refuse_join(
        self,
        member_id: str,
        code: ErrorCode,
        builder: DecisionBuilder,
        *,
        response_id: str | None = None,
    ) -> None:
        """Refuses the waiting join of this member, if there is one.

        The answer names `response_id`, or the member's id if that is None.
        """
        ticket = self.joins.pop(member_id, None)
        if ticket is not None:
            named = member_id if response_id is None else response_id
            builder.answer(ticket, responses.join_refused(code, named))

    def refuse_sync(self, member_id: str, code: ErrorCode, builder: DecisionBuilder) -> None:
        """Refuses the waiting sync of this member, if there is one."""
        ticket = self.syncs.pop(member_id, None)
        if ticket is not None:
            builder.answer(ticket, responses.sync_refused(code))

    def has(self, member_id: str) -> bool:
        return member_id in self.joins or member_id in self.syncs
