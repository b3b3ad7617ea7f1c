"""DescribeClientQuotas (48) v0-1. Gaps: none."""

from enum import IntEnum

from ottla.broker.requests.authorization import CLUSTER
from ottla.broker.requests.call import Call
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.quota_changes import KINDS
from ottla.metadata.quotas import Entity
from ottla.metadata.values import QuotaEntityKind
from ottla.protocol.messages.describe_client_quotas import (
    Component,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    Entry,
    Quota,
)
from ottla.protocol.messages.describe_client_quotas import Entity as DescribedEntity


class MatchType(IntEnum):
    """What a part of an entity must be; the numbers are those of the wire."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


def handle(request: DescribeClientQuotasRequest, call: Call) -> DescribeClientQuotasResponse:
    call.require(CLUSTER)
    wanted = _wanted(request.components)
    return DescribeClientQuotasResponse(
        error_code=ErrorCode.NONE,
        entries=tuple(
            Entry(
                entity=tuple(
                    DescribedEntity(entity_type=part.kind, entity_name=part.name) for part in entity
                ),
                values=tuple(Quota(key=key, value=quotas[key]) for key in sorted(quotas)),
            )
            for entity, quotas in call.services.image.quotas.items()
            if quotas and _matches(entity, wanted, is_strict=request.strict)
        ),
    )


def _wanted(components: tuple[Component, ...]) -> dict[QuotaEntityKind, Component]:
    wanted: dict[QuotaEntityKind, Component] = {}
    for component in components:
        kind = KINDS.get(component.entity_type)
        if kind is None:
            raise PeerError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Custom entity type '{component.entity_type[:100]}' not supported",
            )
        if kind in wanted:
            raise PeerError(ErrorCode.INVALID_REQUEST, f"The filter names {kind} twice.")
        if (component.match_type == MatchType.EXACT) != (component.match is not None):
            raise PeerError(ErrorCode.INVALID_REQUEST, "Only an exact match has a name.")
        if component.match_type not in tuple(MatchType):
            raise PeerError(
                ErrorCode.INVALID_REQUEST, f"Unexpected match type: {component.match_type}"
            )
        wanted[kind] = component
    if QuotaEntityKind.IP in wanted and len(wanted) > 1:
        raise PeerError(ErrorCode.INVALID_REQUEST, "An IP address has no user and no client id.")
    return wanted


def _matches(entity: Entity, wanted: dict[QuotaEntityKind, Component], *, is_strict: bool) -> bool:
    names = {part.kind: part.name for part in entity}
    if is_strict and names.keys() != wanted.keys():
        return False
    return all(
        kind in names
        and (component.match_type == MatchType.SPECIFIED or names[kind] == component.match)
        for kind, component in wanted.items()
    )
