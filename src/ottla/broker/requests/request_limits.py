"""How many topics, or other resources, one request may change."""

from collections.abc import Sequence
from typing import TypeVar

from ottla.errors import ErrorCode, PeerError
from ottla.settings.broker import BrokerSettings
from ottla.settings.table.network import REQUEST_TOPICS_MAX

Wish = TypeVar("Wish")


def within_topics_max(
    wishes: Sequence[Wish], settings: BrokerSettings
) -> tuple[Sequence[Wish], Sequence[Wish]]:
    """The first of a request, which may be done, and those beyond the limit."""
    limit = settings[REQUEST_TOPICS_MAX]
    return wishes[:limit], wishes[limit:]


def beyond_topics_max(settings: BrokerSettings) -> PeerError:
    """The refusal of those beyond. Clients do not repeat a request for this code."""
    name, limit = REQUEST_TOPICS_MAX.name, settings[REQUEST_TOPICS_MAX]
    return PeerError(
        ErrorCode.POLICY_VIOLATION, f"One request may change {limit} at most ({name})."
    )
