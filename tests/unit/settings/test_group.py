"""A group's settings: the broker's bounds on them."""

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.settings.group import GroupConfigs, check_group_configs
from ottla.settings.setting import BadSetting
from ottla.settings.sources import load
from ottla.settings.table.consumer_groups import (
    CONSUMER_HEARTBEAT_INTERVAL_MS,
    CONSUMER_SESSION_TIMEOUT_MS,
)

BROKER = load(given={}, environment={}, file=None)


def test_a_group_has_its_own_value_or_its_brokers() -> None:
    configs = GroupConfigs({"consumer.session.timeout.ms": "50000"}, BROKER)
    assert configs[CONSUMER_SESSION_TIMEOUT_MS] == 50_000
    assert configs[CONSUMER_HEARTBEAT_INTERVAL_MS] == 5_000
    check_group_configs(configs, BROKER)


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (
            {"consumer.session.timeout.ms": "44999"},
            (
                "consumer.session.timeout.ms must be greater than or equal to "
                "group.consumer.min.session.timeout.ms"
            ),
        ),
        (
            {"consumer.heartbeat.interval.ms": "15001"},
            (
                "consumer.heartbeat.interval.ms must be less than or equal to "
                "group.consumer.max.heartbeat.interval.ms"
            ),
        ),
    ],
)
def test_a_value_out_of_the_brokers_bounds_is_refused(own: dict[str, str], message: str) -> None:
    with pytest.raises(PeerError) as refused:
        check_group_configs(GroupConfigs(own, BROKER), BROKER)
    assert (refused.value.code, str(refused.value)) == (ErrorCode.INVALID_CONFIG, message)


def test_a_value_that_new_bounds_exclude_is_clamped() -> None:
    given = {"group.consumer.max.session.timeout.ms": "50000"}
    narrower = load(given=given, environment={}, file=None)
    configs = GroupConfigs({"consumer.session.timeout.ms": "60000"}, narrower)
    assert configs.in_bounds(CONSUMER_SESSION_TIMEOUT_MS) == 50_000


def test_a_broker_does_not_start_out_of_its_own_bounds() -> None:
    given = {"group.consumer.session.timeout.ms": "70000"}
    with pytest.raises(BadSetting, match=r"must be at most group\.consumer\.max\.session"):
        load(given=given, environment={}, file=None)
