"""The controller's decision on AlterClientQuotas: an entity and its changes give records."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.quotas import ENFORCED_KEYS, Entity
from ottla.metadata.records import Quota
from ottla.metadata.values import QuotaEntity, QuotaEntityKind

KINDS = {kind.value: kind for kind in QuotaEntityKind}
# Kafka's keys which this broker does not enforce, and refuses: whoever sets one counts on it.
NOT_ENFORCED_KEYS = frozenset(
    {"request_percentage", "controller_mutation_rate", "connection_creation_rate"}
)
NAME_CHARS_MAX = 1_000


class QuotaChange(NamedTuple):
    """The new value of a quota; None removes it."""

    key: str
    value: float | None


def quota_entity(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """The entity of pairs of type and name; without a name it is the default. PeerError if there
    is no such entity.
    """
    by_kind: dict[QuotaEntityKind, str | None] = {}
    for kind_name, name in parts:
        kind = KINDS.get(kind_name)
        if kind is None:
            raise _invalid(f"Unhandled client quota entity type: {kind_name[:100]}")
        if kind in by_kind:
            raise _invalid(f"The client quota entity names its {kind} twice.")
        if name is not None and not 0 < len(name) <= NAME_CHARS_MAX:
            raise _invalid(f"The {kind} of a client quota entity has {len(name)} characters.")
        by_kind[kind] = name
    if not by_kind:
        raise _invalid("Invalid empty client quota entity.")
    if QuotaEntityKind.IP in by_kind:
        raise _invalid("Quotas of IP addresses are not enforced by this broker.")
    return tuple(QuotaEntity(kind, by_kind[kind]) for kind in sorted(by_kind))


def alter_quotas(entity: Entity, changes: Iterable[QuotaChange]) -> list[Quota]:
    """The records of all changes of an entity. PeerError if one of them is refused."""
    return [Quota(entity, key, _checked(key, value)) for key, value in changes]


def _checked(key: str, value: float | None) -> float | None:
    if key in NOT_ENFORCED_KEYS:
        raise _invalid(f"This broker does not enforce {key}.")
    if key not in ENFORCED_KEYS:
        raise _invalid(f"Invalid configuration key {key[:100]}")
    if value is None:
        return None
    if not math.isfinite(value) or value <= 0:
        raise _invalid(f"Quota {key} must be greater than 0.")
    if value != math.floor(value):
        raise _invalid(f"Quota {key} must be a whole number.")
    return value


def _invalid(reason: str) -> PeerError:
    return PeerError(ErrorCode.INVALID_REQUEST, reason)
