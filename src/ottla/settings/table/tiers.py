"""Kafka's tiered storage. The names exist so that tools can describe them."""

from ottla.settings.kinds import Boolean, Unit, long
from ottla.settings.setting import topic_setting

_NO_TIERS = "there is no tiered storage"

REMOTE_STORAGE_ENABLE = topic_setting(
    "remote.storage.enable",
    Boolean(),
    False,
    "Whether rolled segments are copied to remote storage.",
    unsupported_reason=_NO_TIERS,
)
REMOTE_LOG_COPY_DISABLE = topic_setting(
    "remote.log.copy.disable",
    Boolean(),
    False,
    "Whether copying to remote storage is stopped.",
    unsupported_reason=_NO_TIERS,
)
REMOTE_LOG_DELETE_ON_DISABLE = topic_setting(
    "remote.log.delete.on.disable",
    Boolean(),
    False,
    "Whether remote data is deleted when remote storage is disabled.",
    unsupported_reason=_NO_TIERS,
)
LOCAL_RETENTION_MS = topic_setting(
    "local.retention.ms",
    long(-2, unit=Unit.MS),
    -2,
    "How long a copied segment stays on disk; -2 is `retention.ms`.",
    broker="log.local.retention.ms",
    unsupported_reason=_NO_TIERS,
)
LOCAL_RETENTION_BYTES = topic_setting(
    "local.retention.bytes",
    long(-2, unit=Unit.BYTES),
    -2,
    "The size of copied segments that stays on disk; -2 is `retention.bytes`.",
    broker="log.local.retention.bytes",
    unsupported_reason=_NO_TIERS,
)
