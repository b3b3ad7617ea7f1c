"""Kafka's tiered storage: known by name, so that tools find what they ask for."""

from ottla.settings.kinds import Boolean, Unit, long
from ottla.settings.setting import topic_setting

_NO_TIERS = "there is no tiered storage"

REMOTE_STORAGE_ENABLE = topic_setting(
    "remote.storage.enable",
    Boolean(),
    False,
    "Whether closed segments are copied to a remote store.",
    only_default=_NO_TIERS,
)
REMOTE_LOG_COPY_DISABLE = topic_setting(
    "remote.log.copy.disable",
    Boolean(),
    False,
    "Whether no further segments are copied to the remote store.",
    only_default=_NO_TIERS,
)
REMOTE_LOG_DELETE_ON_DISABLE = topic_setting(
    "remote.log.delete.on.disable",
    Boolean(),
    False,
    "Whether what is in the remote store goes when it is switched off.",
    only_default=_NO_TIERS,
)
LOCAL_RETENTION_MS = topic_setting(
    "local.retention.ms",
    long(-2, unit=Unit.MS),
    -2,
    "How long a segment that was copied stays on disk; -2 is as long as `retention.ms`.",
    broker="log.local.retention.ms",
    only_default=_NO_TIERS,
)
LOCAL_RETENTION_BYTES = topic_setting(
    "local.retention.bytes",
    long(-2, unit=Unit.BYTES),
    -2,
    "How much of what was copied stays on disk; -2 is as much as `retention.bytes`.",
    broker="log.local.retention.bytes",
    only_default=_NO_TIERS,
)
