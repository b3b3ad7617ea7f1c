"""The bounds of a classic group."""

from functools import lru_cache
from typing import NamedTuple

from ottla.settings.broker import BrokerSettings
from ottla.settings.table import groups

# A newcomer that waits for its first answer knows no id to beat with: it has this long instead of
# its session timeout. Kafka's number, and not a setting there either.
NEWCOMER_TIMEOUT_MS = 300_000
# A first generation that could begin waits so much longer for those who were given an id and are on
# their way.
PROMISED_WAIT_MS = 10
# Every join asks, and settings seldom change.
KEPT_MAX = 10


class ClassicLimits(NamedTuple):
    """What settings say about every classic group of a broker."""

    session_timeout_ms_min: int
    session_timeout_ms_max: int
    initial_rebalance_delay_ms: int
    members_max: int
    # One record holds a whole generation: what does not fit one cannot be saved.
    saved_bytes_max: int
    # Ids that were handed out and have not joined yet.
    promised_ids_max: int = 10_000


@lru_cache(KEPT_MAX)
def limits_of(settings: BrokerSettings, batch_bytes_max: int) -> ClassicLimits:
    """As the settings have them, where the log takes batches of this length."""
    return ClassicLimits(
        session_timeout_ms_min=settings[groups.GROUP_MIN_SESSION_TIMEOUT_MS],
        session_timeout_ms_max=settings[groups.GROUP_MAX_SESSION_TIMEOUT_MS],
        initial_rebalance_delay_ms=settings[groups.GROUP_INITIAL_REBALANCE_DELAY_MS],
        members_max=settings[groups.GROUP_MAX_SIZE],
        # Less than a batch may be: records have overheads.
        saved_bytes_max=batch_bytes_max - (batch_bytes_max >> 4),
    )
