"""Who waits for an answer. None of this lasts: after a load nobody waits."""

from collections.abc import Hashable

from ottla.coordinators.group.classic import responses
from ottla.coordinators.group.classic.decision_builder import Draft
from ottla.errors import ErrorCode


class Waiting:
    """The tickets of joins and syncs that are parked, by member id."""

    __slots__ = ("joins", "syncs")

    def __init__(self) -> None:
        self.joins: dict[str, Hashable] = {}
        self.syncs: dict[str, Hashable] = {}

    def join(self, member_id: str, ticket: Hashable, draft: Draft) -> None:
        """Parks a join. A member waits once: who asks again gives up the earlier place."""
        self.refuse_join(member_id, ErrorCode.REBALANCE_IN_PROGRESS, draft)
        self.joins[member_id] = ticket

    def sync(self, member_id: str, ticket: Hashable, draft: Draft) -> None:
        """Parks a sync, likewise."""
        self.refuse_sync(member_id, ErrorCode.REBALANCE_IN_PROGRESS, draft)
        self.syncs[member_id] = ticket

    def refuse_join(
        self, member_id: str, code: ErrorCode, draft: Draft, *, told_id: str | None = None
    ) -> None:
        """If this member waits to join, it need not any more."""
        ticket = self.joins.pop(member_id, None)
        if ticket is not None:
            told = member_id if told_id is None else told_id
            draft.answer(ticket, responses.join_refused(code, told))

    def refuse_sync(self, member_id: str, code: ErrorCode, draft: Draft) -> None:
        """If this member waits to sync, it need not any more."""
        ticket = self.syncs.pop(member_id, None)
        if ticket is not None:
            draft.answer(ticket, responses.sync_refused(code))

    def has(self, member_id: str) -> bool:
        return member_id in self.joins or member_id in self.syncs
