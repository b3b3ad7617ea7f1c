"""The limit of topics, or other resources, that one request may change."""

from collections.abc import Sequence
from typing import TypeVar

from ottla.errors import ErrorCode, PeerError
from ottla.settings.broker import BrokerSettings
from ottla.settings.table.network import REQUEST_TOPICS_MAX

Item = TypeVar("Item")


def split_at_topics_max(
    items: Sequence[Item], settings: BrokerSettings
) -> tuple[Sequence[Item], Sequence[Item]]:
    """Splits the items of a request into those within the limit and those beyond it."""
    limit = settings[REQUEST_TOPICS_MAX]
    return items[:limit], items[limit:]


def too_many_topics(settings: BrokerSettings) -> PeerError:
    """The error for items beyond the limit, with a code that clients do not retry."""
    name, limit = REQUEST_TOPICS_MAX.name, settings[REQUEST_TOPICS_MAX]
    return PeerError(
        ErrorCode.POLICY_VIOLATION, f"One request may change {limit} at most ({name})."
    )
