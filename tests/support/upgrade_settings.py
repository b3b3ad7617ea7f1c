"""Settings under which a recorded data directory reads the same, however old it is by then."""

from collections.abc import Mapping

OPENING: Mapping[str, str] = {
    # A start begins with what is there, and makes nothing that a client happens to name.
    "auto.create.topics.enable": "false",
    # Offsets were committed when the case was recorded. The longest that there is, in minutes.
    "offsets.retention.minutes": "2147483647",
    "log.retention.ms": "-1",
    # Producers whose last marker is of the recording's time are not forgotten meanwhile.
    "log.retention.check.interval.ms": "2147483647",
    # An open transaction has timed out, and is aborted right after the start.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    # Transactional ids do not expire.
    "transaction.remove.expired.transaction.cleanup.interval.ms": "2147483647",
    # Members of the recorded groups stay as long as they may.
    "group.consumer.session.timeout.ms": "60000",
    "ottla.disk.reserve.bytes": "0",
}
