"""UpdateFeatures (57) v0-2. v1 adds upgrade types and dry runs (KIP-584), v2 drops the results per
feature. Gaps: none.
"""

from ottla.protocol.codec import request, response, since, struct, until
from ottla.protocol.primitives import i8, i16, i32


@struct
class FeatureUpdate:
    feature: str
    max_version_level: i16
    allow_downgrade: bool = until(0, default=False)
    upgrade_type: i8 = since(1, default=1)


@request(key=57, versions=(0, 2), flexible=0)
class UpdateFeaturesRequest:
    timeout_ms: i32 = 60000
    feature_updates: tuple[FeatureUpdate, ...]
    validate_only: bool = since(1, default=False)


@struct
class FeatureResult:
    feature: str
    error_code: i16
    error_message: str | None = None


@response(to=UpdateFeaturesRequest)
class UpdateFeaturesResponse:
    throttle_time_ms: i32 = 0
    error_code: i16
    error_message: str | None = None
    results: tuple[FeatureResult, ...] = until(1, default=(), ignorable=True)
