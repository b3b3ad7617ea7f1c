"""The sources of settings: their precedence, and the messages for wrong values."""

import pytest

from ottla.settings.broker import BrokerSettings
from ottla.settings.listeners import ListenerAddress
from ottla.settings.setting import BadSetting, ConfigSource
from ottla.settings.sources import CONFIG_FILE_BYTES_MAX, environment_name, load
from ottla.settings.table.network import MAX_CONNECTIONS, QUEUED_MAX_REQUEST_BYTES
from ottla.settings.table.node import ADVERTISED_LISTENERS, LISTENERS, LOG_DIRS, NODE_ID
from ottla.settings.table.replicas import AUTO_CREATE_TOPICS_ENABLE, NUM_PARTITIONS
from ottla.settings.table.retention import RETENTION_MS
from ottla.settings.table.segments import DISK_RESERVE_BYTES, FLUSH_MS, SEGMENT_BYTES, SEGMENT_MS

HOUR_MS = 3_600_000


def loaded(
    given: dict[str, str] | None = None,
    environment: dict[str, str] | None = None,
    file: str | None = None,
) -> BrokerSettings:
    return load(
        given=given or {},
        environment=environment or {},
        file=None if file is None else file.encode(),
    )


def refusal(**sources: object) -> str:
    with pytest.raises(BadSetting) as refused:
        loaded(**sources)  # type: ignore[arg-type]
    return str(refused.value)


# --- which value counts -----------------------------------------------------------------------


def test_without_sources_everything_has_its_default() -> None:
    settings = loaded()
    assert settings[NODE_ID] == 1
    assert settings[LISTENERS] == (ListenerAddress("PLAINTEXT", "127.0.0.1", 9092),)
    assert settings[ADVERTISED_LISTENERS] is None
    assert settings[LOG_DIRS] == ("./ottla-data",)
    assert settings[RETENTION_MS] == 168 * HOUR_MS
    assert settings.source_of(NODE_ID) is ConfigSource.DEFAULT


def test_the_command_line_counts_before_the_environment_and_that_before_the_file() -> None:
    given = {"num.partitions": "3"}
    environment = {"OTTLA_NUM_PARTITIONS": "4"}
    file = '"num.partitions" = 5'
    assert loaded(given, environment, file)[NUM_PARTITIONS] == 3
    assert loaded(None, environment, file)[NUM_PARTITIONS] == 4
    assert loaded(None, None, file)[NUM_PARTITIONS] == 5
    assert loaded()[NUM_PARTITIONS] == 1
    assert loaded(None, None, file).source_of(NUM_PARTITIONS) is ConfigSource.STATIC_BROKER


def test_of_several_names_in_one_source_the_finest_unit_counts() -> None:
    hours, minutes, ms = (
        {"log.retention.hours": "1"},
        {"log.retention.minutes": "2"},
        {"log.retention.ms": "3"},
    )
    assert loaded(hours)[RETENTION_MS] == HOUR_MS
    assert loaded(hours | minutes)[RETENTION_MS] == 120_000
    assert loaded(hours | minutes | ms)[RETENTION_MS] == 3


def test_a_source_counts_before_a_name() -> None:
    """Hours on the command line override milliseconds in a file."""
    settings = loaded({"log.retention.hours": "1"}, None, '"log.retention.ms" = 5')
    assert settings[RETENTION_MS] == HOUR_MS


def test_for_ever_is_for_ever_in_any_unit() -> None:
    assert loaded({"log.retention.hours": "-1"})[RETENTION_MS] == -1
    assert loaded({"log.retention.minutes": "-1"})[RETENTION_MS] == -1


def test_a_brokers_names_set_what_topics_have() -> None:
    settings = loaded(
        {
            "log.segment.bytes": "2097152",
            "log.roll.hours": "2",
            "log.flush.scheduler.interval.ms": "7",
        }
    )
    assert settings[SEGMENT_BYTES] == 2_097_152
    assert settings[SEGMENT_MS] == 2 * HOUR_MS
    assert settings[FLUSH_MS] == 7


def test_older_names_still_count() -> None:
    settings = loaded({"broker.id": "7", "log.dir": "/a"})
    assert settings[NODE_ID] == 7
    assert settings[LOG_DIRS] == ("/a",)
    assert loaded({"broker.id": "7", "node.id": "8"})[NODE_ID] == 8


def test_dynamic_settings_override_static_ones() -> None:
    start = loaded({"max.connections": "10"})
    cluster = start.with_dynamic(broker={}, cluster={"max.connections": "20"})
    both = start.with_dynamic(broker={"max.connections": "30"}, cluster={"max.connections": "20"})
    assert [each[MAX_CONNECTIONS] for each in (start, cluster, both)] == [10, 20, 30]
    assert cluster.source_of(MAX_CONNECTIONS) is ConfigSource.DYNAMIC_DEFAULT_BROKER
    assert both.source_of(MAX_CONNECTIONS) is ConfigSource.DYNAMIC_BROKER
    assert both.with_dynamic(broker={}, cluster={})[MAX_CONNECTIONS] == 10


def test_a_change_that_only_a_later_version_knows_is_skipped() -> None:
    settings = loaded().with_dynamic(broker={"from.the.future": "1"}, cluster={})
    assert settings[NUM_PARTITIONS] == 1


# --- the environment --------------------------------------------------------------------------


def test_a_variable_is_the_name_in_upper_case_and_ours_do_not_repeat_the_prefix() -> None:
    assert environment_name("log.retention.hours") == "OTTLA_LOG_RETENTION_HOURS"
    assert environment_name("ottla.disk.reserve.bytes") == "OTTLA_DISK_RESERVE_BYTES"
    assert loaded(None, {"OTTLA_DISK_RESERVE_BYTES": "0"})[DISK_RESERVE_BYTES] == 0


def test_variables_of_others_and_the_documented_few_are_left_alone() -> None:
    environment = {"PATH": "/bin", "KAFKA_NUM_PARTITIONS": "9", "OTTLA_SEEDS": "20"}
    assert loaded(None, environment)[NUM_PARTITIONS] == 1


def test_a_mistyped_variable_is_an_error_with_a_hint() -> None:
    assert refusal(environment={"OTTLA_LOG_RETENTON_HOURS": "1"}) == (
        "environment: no setting has the variable 'OTTLA_LOG_RETENTON_HOURS'; "
        "did you mean 'OTTLA_LOG_RETENTION_HOURS'?"
    )


def test_a_wrong_value_in_the_environment_names_the_variable() -> None:
    assert refusal(environment={"OTTLA_NUM_PARTITIONS": "many"}) == (
        "environment, OTTLA_NUM_PARTITIONS: Invalid value many for configuration num.partitions: "
        "must be a whole number from 1 to 2147483647"
    )


# --- the file ---------------------------------------------------------------------------------


def test_a_file_has_numbers_booleans_texts_and_lists() -> None:
    settings = loaded(
        file="""
        # A comment.
        "num.partitions" = 6
        "auto.create.topics.enable" = false
        "log.dirs" = ["/a", "/b"]
        "node.id" = "3"
        """
    )
    assert settings[NUM_PARTITIONS] == 6
    assert settings[AUTO_CREATE_TOPICS_ENABLE] is False
    assert settings[LOG_DIRS] == ("/a", "/b")
    assert settings[NODE_ID] == 3


def test_a_name_without_quotes_is_an_error_that_shows_them() -> None:
    assert refusal(file="log.retention.hours = 24") == (
        'config file: log is a table; quote names with dots, as in "log.retention.hours" = 24'
    )


@pytest.mark.parametrize("value", ["1979-05-27", "[1, 2]", '["/a", 1]'])
def test_a_value_that_no_setting_has_is_refused(value: str) -> None:
    assert refusal(file=f'"log.dirs" = {value}') == (
        "config file: the value of log.dirs is not a string, number, boolean or list of strings"
    )


def test_a_number_with_a_point_is_no_whole_number() -> None:
    assert "Invalid value 2.0 for configuration num.partitions" in refusal(
        file='"num.partitions" = 2.0'
    )


@pytest.mark.parametrize("content", [b"= 1", b"\xff", b'"a" = ' + b"[" * 100_000])
def test_a_file_that_is_not_toml_is_refused_with_a_message(content: bytes) -> None:
    with pytest.raises(BadSetting, match="config file: not TOML"):
        load(given={}, environment={}, file=content)


def test_a_file_has_a_limit() -> None:
    with pytest.raises(BadSetting, match=f"larger than {CONFIG_FILE_BYTES_MAX} bytes"):
        load(given={}, environment={}, file=b"#" * (CONFIG_FILE_BYTES_MAX + 1))


# --- wrong settings ---------------------------------------------------------------------------


def test_an_unknown_name_is_an_error_with_a_hint() -> None:
    assert refusal(given={"num.partition": "1"}) == (
        "--set: no setting 'num.partition'; did you mean 'num.partitions'?"
    )
    assert refusal(given={"zzz": "1"}) == "--set: no setting 'zzz'"


def test_a_topics_setting_points_at_the_brokers() -> None:
    assert refusal(given={"retention.ms": "1"}) == (
        "--set: retention.ms is a topic setting; the broker's default for it is log.retention.ms"
    )
    assert refusal(given={"remote.storage.enable": "true"}) == (
        "--set: remote.storage.enable is a topic setting"
    )


def test_unsupported_values_are_refused_in_broker_settings_too() -> None:
    assert refusal(given={"log.preallocate": "true"}) == (
        "--set: Invalid value true for configuration log.preallocate: must be false, "
        "other values are not supported yet: segments grow as they are written"
    )


def test_a_long_wrong_value_is_not_shown_in_full() -> None:
    message = refusal(given={"num.partitions": "x" * 10_000})
    assert "x" * 100 in message
    assert len(message) < 300


def test_memory_for_requests_holds_at_least_the_largest_one() -> None:
    assert refusal(given={"queued.max.request.bytes": "1000"}) == (
        "Invalid value 1000 for configuration queued.max.request.bytes: "
        "must be at least socket.request.max.bytes, which is 104857600"
    )
    fitting = {"queued.max.request.bytes": "1000", "socket.request.max.bytes": "1000"}
    assert loaded(fitting)[QUEUED_MAX_REQUEST_BYTES] == 1000
