"""ApiVersions (18) v0-4. The features `group.version` (KIP-848), which is always finalized, and
`transaction.version` (KIP-890), which UpdateFeatures changes. The APIs between brokers are offered
on their listener. Gaps: no other feature is offered.
"""

import string

from ottla.broker.requests.call import Call
from ottla.broker.requests.served_apis import INTER_BROKER
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.features import SUPPORTED, finalized_features
from ottla.metadata.image import Image
from ottla.protocol.messages import APIS
from ottla.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeature,
    SupportedFeature,
    VersionRange,
)

_SOFTWARE_SINCE = 3
# Clients of earlier versions fail on a feature whose minimum version is 0.
_FEATURES_FROM_ZERO_SINCE = 4
_SUPPORTED = tuple(
    SupportedFeature(name=name, min_version=levels.min_level, max_version=levels.max_level)
    for name, levels in SUPPORTED.items()
)
_LETTERS_AND_DIGITS = frozenset(string.ascii_letters + string.digits)
_SOFTWARE = _LETTERS_AND_DIGITS | {".", "-"}


def handle(request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
    """The served APIs and their versions. INVALID_REQUEST for a bad name of client software."""
    if call.version >= _SOFTWARE_SINCE:
        for text in (request.client_software_name, request.client_software_version):
            if not _names_software(text):
                raise PeerError(
                    ErrorCode.INVALID_REQUEST,
                    "Name and version of a client's software are letters, digits, '.' and '-'.",
                )
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE,
        api_keys=tuple(_offer(key) for key in sorted(_served(call))),
        supported_features=_SUPPORTED if call.version >= _FEATURES_FROM_ZERO_SINCE else (),
        finalized_features=_finalized(call.services.image),
        finalized_features_epoch=call.services.image.offset,
    )


def _served(call: Call) -> frozenset[int]:
    identity = call.services.identity
    if call.session.listener == identity.inter_broker_listener:
        return identity.served_apis | INTER_BROKER
    return identity.served_apis


def _names_software(text: str) -> bool:
    """Whether the text is letters, digits, `.` and `-`, and begins and ends with neither mark."""
    return _LETTERS_AND_DIGITS.issuperset((text[:1], text[-1:])) and _SOFTWARE.issuperset(text)


def _finalized(image: Image) -> tuple[FinalizedFeature, ...]:
    return tuple(
        FinalizedFeature(name=name, min_version_level=level, max_version_level=level)
        for name, level in finalized_features(image)
    )


def _offer(key: int) -> VersionRange:
    min_version, max_version = APIS[key].advertised
    return VersionRange(api_key=key, min_version=min_version, max_version=max_version)
