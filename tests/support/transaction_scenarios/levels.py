"""The finalized level of transaction.version."""

from uuid import uuid4

from ottla.errors import ErrorCode
from tests.support.transaction_scenarios.features import (
    FEATURE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    until_level,
)
from tests.support.transaction_scenarios.peer import TransactionPeer


def set_level(servers: str, level: int) -> None:
    """Returns when the broker has heard of it."""
    with TransactionPeer(servers, f"level-{uuid4().hex[:8]}") as peer:
        now = peer.features().get(FEATURE, 0)
        if now == level:
            return
        kind = UPGRADE if level > now else UNSAFE_DOWNGRADE
        request = peer.update_feature(FEATURE, level, upgrade_type=kind)
        assert peer.ask(request, 2).error_code == ErrorCode.NONE
        until_level(peer, level)
