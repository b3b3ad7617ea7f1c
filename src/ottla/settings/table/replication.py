"""Replication: how followers fetch, and when they count as in sync."""

from ottla.settings.kinds import Unit, integer, long
from ottla.settings.setting import broker_setting

REPLICA_LAG_TIME_MAX_MS = broker_setting(
    "replica.lag.time.max.ms",
    long(1, unit=Unit.MS),
    30_000,
    "A follower that lacks a record for this time leaves the ISR.",
)
REPLICA_FETCH_WAIT_MAX_MS = broker_setting(
    "replica.fetch.wait.max.ms",
    integer(1, unit=Unit.MS),
    500,
    "The maximum time for which a follower's fetch waits at the leader for records.",
)
REPLICA_FETCH_MIN_BYTES = broker_setting(
    "replica.fetch.min.bytes",
    integer(1, unit=Unit.BYTES),
    1,
    "The size of the records for which a follower's fetch waits.",
)
REPLICA_FETCH_MAX_BYTES = broker_setting(
    "replica.fetch.max.bytes",
    integer(0, unit=Unit.BYTES),
    1 << 20,
    "The maximum size of the records of one partition in a follower's fetch, unless its first batch"
    " is larger.",
)
REPLICA_FETCH_RESPONSE_MAX_BYTES = broker_setting(
    "replica.fetch.response.max.bytes",
    integer(0, unit=Unit.BYTES),
    10 << 20,
    "The maximum size of the records in a follower's fetch, unless its first batch is larger.",
)
REPLICA_FETCH_BACKOFF_MS = broker_setting(
    "replica.fetch.backoff.ms",
    integer(0, unit=Unit.MS),
    1_000,
    "The time after which a follower fetches a partition again that it could not fetch.",
)
REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS = broker_setting(
    "replica.high.watermark.checkpoint.interval.ms",
    long(1, unit=Unit.MS),
    5_000,
    "How often the high watermarks of replicas are checkpointed, by which a restarted broker finds"
    " logs that have lost committed records.",
)
REPLICA_SOCKET_TIMEOUT_MS = broker_setting(
    "replica.socket.timeout.ms",
    integer(1, unit=Unit.MS),
    30_000,
    "The time for which a follower waits for the leader's answer, beyond the wait at the leader.",
)
