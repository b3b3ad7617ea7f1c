"""The limit of topics per request."""

from ottla.broker.requests.request_limits import split_at_topics_max, too_many_topics
from ottla.errors import ErrorCode
from ottla.settings.broker import BrokerSettings, Layer
from ottla.settings.setting import ConfigSource
from ottla.settings.table.network import REQUEST_TOPICS_MAX


def test_items_beyond_the_limit_are_split_off_and_refused_by_the_settings_name() -> None:
    settings = BrokerSettings([Layer(ConfigSource.STATIC_BROKER, {REQUEST_TOPICS_MAX.name: 2})])
    assert split_at_topics_max("abc", settings) == ("ab", "c")
    assert split_at_topics_max("ab", settings) == ("ab", "")
    error = too_many_topics(settings)
    assert error.code is ErrorCode.POLICY_VIOLATION
    assert REQUEST_TOPICS_MAX.name in str(error)
