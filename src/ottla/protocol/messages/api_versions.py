"""ApiVersions (18) v0-4. v1 adds the throttle time, v3 the client's software name (KIP-511) and
features (KIP-584), v4 features from version 0. Gaps: none.
"""

from ottla.protocol.codec import request, response, since, struct, tagged
from ottla.protocol.primitives import i16, i32, i64


@request(key=18, versions=(0, 4), flexible=3)
class ApiVersionsRequest:
    client_software_name: str = since(3, default="", ignorable=True)
    client_software_version: str = since(3, default="", ignorable=True)


@struct
class VersionRange:
    api_key: i16
    min_version: i16
    max_version: i16


@struct
class SupportedFeature:
    name: str
    min_version: i16
    max_version: i16


@struct
class FinalizedFeature:
    name: str
    max_version_level: i16
    min_version_level: i16


@response(to=ApiVersionsRequest)
class ApiVersionsResponse:
    error_code: i16
    api_keys: tuple[VersionRange, ...]
    throttle_time_ms: i32 = since(1, default=0, ignorable=True)
    supported_features: tuple[SupportedFeature, ...] = tagged(
        0, since=3, default=(), ignorable=True
    )
    finalized_features_epoch: i64 = tagged(1, since=3, default=-1, ignorable=True)
    finalized_features: tuple[FinalizedFeature, ...] = tagged(
        2, since=3, default=(), ignorable=True
    )
    zk_migration_ready: bool = tagged(3, since=3, default=False, ignorable=True)
