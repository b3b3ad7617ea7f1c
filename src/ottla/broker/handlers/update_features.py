"""UpdateFeatures (57) v0-2. All features of a request are changed, or none. Gaps: the timeout is
ignored: the answer is sent when the change is made.
"""

from collections.abc import Sequence

from ottla.broker.requests.authorization import CLUSTER
from ottla.broker.requests.call import Call
from ottla.errors import ErrorCode
from ottla.metadata.controller.feature_changes import FeatureUpdate, UpgradeType, update_features
from ottla.metadata.image import Image
from ottla.metadata.records import Record
from ottla.protocol.messages.update_features import (
    FeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE_TYPES_SINCE = 1
# The message of a success.
NO_ERROR = "NONE"


async def handle(request: UpdateFeaturesRequest, call: Call) -> UpdateFeaturesResponse:
    call.require(CLUSTER)
    updates = _updates(request, call.version)
    if request.validate_only:
        update_features(call.services.image, updates)
    elif updates:

        def decide(image: Image) -> tuple[Sequence[Record], None]:
            return update_features(image, updates), None

        await call.services.controller.commit(decide)
    return UpdateFeaturesResponse(
        error_code=ErrorCode.NONE,
        results=tuple(
            FeatureResult(feature=each.name, error_code=ErrorCode.NONE, error_message=NO_ERROR)
            for each in updates
        ),
    )


def _updates(request: UpdateFeaturesRequest, version: int) -> list[FeatureUpdate]:
    return [
        FeatureUpdate(
            each.feature,
            each.max_version_level,
            # As in Kafka, v0 cannot lower a level, whatever it allows.
            each.upgrade_type if version >= UPGRADE_TYPES_SINCE else UpgradeType.UPGRADE,
        )
        for each in request.feature_updates
    ]
