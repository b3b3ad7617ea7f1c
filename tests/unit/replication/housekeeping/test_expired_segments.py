from dataclasses import replace

from ottla.replication.housekeeping.expired_segments import Expired, find_expired
from ottla.replication.replica import Replica
from ottla.storage.log.log import Log
from tests.support.broker.produce_and_fetch import NOW_MS
from tests.support.replication.partitions import RULES, Partitions

DAY_MS = 86_400_000


def filled(**retention: int | bool) -> tuple[Replica, Log]:
    """A replica with two closed segments of one record, and an active one."""
    rules = replace(RULES, retention=replace(RULES.retention, **retention))
    partitions = Partitions(rules)
    replica = partitions.create()
    for number in range(3):
        partitions.append(replica, b"%d" % number)
        assert replica.log is not None
        if number < 2:
            replica.log.roll()
    assert replica.log is not None
    return replica, replica.log


def test_without_limits_nothing_expires() -> None:
    replica, log = filled()
    assert find_expired(replica, log, NOW_MS + 1000 * DAY_MS) is None


def test_old_segments_expire_and_an_expired_active_segment_rolls() -> None:
    replica, log = filled(retention_ms=DAY_MS)
    assert find_expired(replica, log, NOW_MS) is None
    assert find_expired(replica, log, NOW_MS + 2 * DAY_MS) == Expired(replica, log, 2, True)


def test_segments_beyond_the_size_limit_expire() -> None:
    replica, log = filled(retention_bytes=1)
    assert find_expired(replica, log, NOW_MS) == Expired(replica, log, 2, False)


def test_the_policy_must_include_delete() -> None:
    replica, log = filled(retention_ms=DAY_MS, deletes=False)
    assert find_expired(replica, log, NOW_MS + 2 * DAY_MS) is None


def test_segments_below_the_log_start_offset_go_under_any_policy() -> None:
    replica, log = filled(deletes=False)
    log.advance_start(1)
    assert find_expired(replica, log, NOW_MS) == Expired(replica, log, 1, False)


def test_records_beyond_the_high_watermark_stay() -> None:
    replica, log = filled(retention_ms=DAY_MS)
    replica.partition.high_watermark = 1
    assert find_expired(replica, log, NOW_MS + 2 * DAY_MS) == Expired(replica, log, 1, False)


def test_a_decision_is_void_once_the_log_is_offline_or_replaced() -> None:
    replica, log = filled(retention_bytes=1)
    expired = find_expired(replica, log, NOW_MS)
    assert expired is not None
    assert expired.is_current
    log.abandon()
    assert not expired.is_current
