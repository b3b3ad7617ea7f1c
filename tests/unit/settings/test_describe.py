"""DescribeConfigs: values, sources and synonyms of settings, without secrets."""

from ottla.settings.broker import BrokerSettings
from ottla.settings.describe import (
    ConfigRow,
    describe_broker,
    describe_cluster,
    describe_topic,
)
from ottla.settings.kinds import ConfigType, Password, Secret
from ottla.settings.setting import ConfigSource, broker_setting
from ottla.settings.sources import load
from ottla.settings.table import BROKER_SETTINGS, TOPIC_SETTINGS
from ottla.settings.topic import TopicConfigs

TOPIC, BROKER, CLUSTER, STATIC, DEFAULT, GROUP = ConfigSource


def broker_row(name: str, settings: BrokerSettings) -> ConfigRow:
    (row,) = describe_broker(settings, [name])
    return row


def topic_row(name: str, overrides: dict[str, str], given: dict[str, str]) -> ConfigRow:
    settings = load(given=given, environment={}, file=None)
    (row,) = describe_topic(TopicConfigs(overrides, settings), [name])
    return row


def test_every_setting_is_described_in_the_order_of_names() -> None:
    settings = BrokerSettings()
    assert [row.name for row in describe_broker(settings)] == sorted(BROKER_SETTINGS)
    topic = TopicConfigs({}, settings)
    assert [row.name for row in describe_topic(topic)] == sorted(TOPIC_SETTINGS)


def test_only_requested_names_that_exist_are_described() -> None:
    rows = describe_broker(BrokerSettings(), ["num.partitions", "no.such", "node.id"])
    assert [row.name for row in rows] == ["node.id", "num.partitions"]


def test_a_row_describes_a_setting_completely() -> None:
    settings = load(given={"num.partitions": "4"}, environment={}, file=None)
    assert broker_row("num.partitions", settings) == ConfigRow(
        name="num.partitions",
        value="4",
        is_read_only=True,
        source=STATIC,
        is_sensitive=False,
        synonyms=(("num.partitions", "4", STATIC), ("num.partitions", "1", DEFAULT)),
        config_type=ConfigType.INT,
        documentation="The default number of partitions of a new topic.",
    )


def test_an_unset_setting_has_no_value_and_no_synonyms() -> None:
    row = broker_row("log.retention.ms", BrokerSettings())
    assert (row.value, row.source, row.synonyms, row.is_default) == (None, DEFAULT, (), True)


def test_advertised_listeners_are_described_by_the_listeners_unless_set() -> None:
    given = {"listeners": "PLAINTEXT://10.0.0.1:9"}
    settings = load(given=given, environment={}, file=None)
    row = broker_row("advertised.listeners", settings)
    assert (row.value, row.source) == (given["listeners"], STATIC)
    assert row.synonyms[0] == ("listeners", given["listeners"], STATIC)
    given |= {"advertised.listeners": "PLAINTEXT://elsewhere:7"}
    row = broker_row("advertised.listeners", load(given=given, environment={}, file=None))
    assert row.value == "PLAINTEXT://elsewhere:7"
    assert row.synonyms == (("advertised.listeners", row.value, STATIC),)


def test_the_value_in_force_comes_first_among_its_synonyms() -> None:
    settings = load(
        given={"max.connections": "1"}, environment={"OTTLA_MAX_CONNECTIONS": "2"}, file=None
    ).with_dynamic(broker={"max.connections": "3"}, cluster={"max.connections": "4"})
    row = broker_row("max.connections", settings)
    assert (row.value, row.source, row.is_default) == ("3", BROKER, False)
    assert [(synonym.value, synonym.source) for synonym in row.synonyms] == [
        ("3", BROKER),
        ("4", CLUSTER),
        ("1", STATIC),
        ("2", STATIC),
        ("10000", DEFAULT),
    ]


def test_a_topics_own_value_comes_before_its_brokers() -> None:
    row = topic_row("segment.bytes", {"segment.bytes": "1048576"}, {})
    assert (row.value, row.source) == ("1048576", TOPIC)
    assert row.synonyms == (
        ("segment.bytes", "1048576", TOPIC),
        ("log.segment.bytes", "1073741824", DEFAULT),
    )


def test_a_value_from_a_coarser_unit_shows_where_it_comes_from() -> None:
    row = topic_row("retention.ms", {}, {"log.retention.hours": "2"})
    assert (row.value, row.source) == ("7200000", STATIC)
    assert row.synonyms == (("log.retention.hours", "2", STATIC),)


def test_the_broker_without_a_name_has_only_the_cluster_wide_changes() -> None:
    (row,) = describe_cluster({"max.connections": "5", "from.the.future": "1"})
    assert (row.name, row.value, row.source) == ("max.connections", "5", CLUSTER)
    assert row.synonyms == (("max.connections", "5", CLUSTER),)
    assert describe_cluster({"max.connections": "5"}, ["num.partitions"]) == ()
    assert describe_cluster({}) == ()


def test_a_secret_is_never_shown_not_even_a_wrong_one() -> None:
    password = broker_setting("a.password", Password(), None, "Opens a door.")
    assert password.text(Secret("hush")) is None
    assert password.parse("hush") == Secret("hush")
    assert "hush" not in repr(password.parse("hush"))
