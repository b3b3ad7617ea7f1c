"""The settings in force for classic groups."""

from functools import lru_cache
from typing import NamedTuple

from ottla.settings.broker import BrokerSettings
from ottla.settings.table import groups

# The session timeout of a new member whose first join waits: it has no id yet, and cannot send
# heartbeats. The same constant as in Kafka, which has no setting for it.
NEW_MEMBER_TIMEOUT_MS = 300_000
# A first generation that could begin waits this much longer for pending members, which were given
# an id and have not joined with it yet.
PENDING_MEMBER_WAIT_MS = 10
# Every join needs the rules, and settings rarely change.
CACHED_RULES_MAX = 10


class ClassicRules(NamedTuple):
    """The rules of every classic group of a broker."""

    session_timeout_ms_min: int
    session_timeout_ms_max: int
    initial_rebalance_delay_ms: int
    members_max: int
    # A whole generation must fit one record.
    saved_bytes_max: int
    # The most ids that were given to clients which have not joined with them yet.
    pending_ids_max: int = 10_000


@lru_cache(CACHED_RULES_MAX)
def classic_rules(settings: BrokerSettings, batch_bytes_max: int) -> ClassicRules:
    """The rules under these settings, for a log that accepts batches of this size."""
    return ClassicRules(
        session_timeout_ms_min=settings[groups.GROUP_MIN_SESSION_TIMEOUT_MS],
        session_timeout_ms_max=settings[groups.GROUP_MAX_SESSION_TIMEOUT_MS],
        initial_rebalance_delay_ms=settings[groups.GROUP_INITIAL_REBALANCE_DELAY_MS],
        members_max=settings[groups.GROUP_MAX_SIZE],
        # Less than the maximum batch size: records have overheads.
        saved_bytes_max=batch_bytes_max - (batch_bytes_max >> 4),
    )
