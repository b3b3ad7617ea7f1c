"""Client quotas: which keys there are, and which quota applies to a client. No I/O."""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.metadata.values import QuotaEntity, QuotaEntityKind

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
# The quotas that this broker enforces, all in bytes per second.
ENFORCED_KEYS = frozenset({PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE})

_USER, _CLIENT_ID = QuotaEntityKind.USER, QuotaEntityKind.CLIENT_ID

Entity = tuple[QuotaEntity, ...]
# By entity and key.
Quotas = Mapping[Entity, Mapping[str, float]]


class EffectiveQuota(NamedTuple):
    """A client's quota. All clients with the same `shared_by` use it up together."""

    rate: float
    shared_by: Entity


def effective_quota(
    quotas: Quotas, key: str, user: str, client_id: str | None
) -> EffectiveQuota | None:
    """The quota of the most specific entity that has this key; None if there is none.

    As in Kafka: what is set for a user comes before what is set for a client id, and a name before
    a default. A default applies to each client by itself.
    """
    names = {_USER: user, _CLIENT_ID: client_id or ""}
    for entity in _candidates(user, client_id or ""):
        rate = quotas.get(entity, {}).get(key)
        if rate is not None:
            return EffectiveQuota(
                rate, tuple(QuotaEntity(part.kind, names[part.kind]) for part in entity)
            )
    return None


def _candidates(user: str, client_id: str) -> list[Entity]:
    """The entities that a client belongs to, the most specific one first."""
    users = [QuotaEntity(_USER, user), QuotaEntity(_USER, None)]
    clients = [QuotaEntity(_CLIENT_ID, client_id), QuotaEntity(_CLIENT_ID, None)]
    candidates: list[Entity] = []
    for each in users:
        # The parts of an entity are in the order of their kinds: `client-id`, `user`.
        candidates += [(client, each) for client in clients]
        candidates.append((each,))
    return candidates + [(client,) for client in clients]
