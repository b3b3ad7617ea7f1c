"""Options are used, ignored with a warning or refused with a reason, never silently dropped."""

import subprocess
import sys
from typing import Any

import pytest

from ottla.protocol.isolation_level import Isolation
from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.micro_batch import TriggerLimits
from ottla.spark.offsets import AtOffsets, AtTime, AtTimes, Edge
from ottla.spark.option_table import OPTIONS, Mode, NoMatchStrategy, Option, Verdict, find_option
from ottla.spark.options import (
    AssignedPartitions,
    BadOption,
    SourceOptions,
    TopicNames,
    TopicPattern,
    read_options,
)
from ottla.spark.plan import SplitLimits
from tests.support.paths import ROOT

CLUSTER = {"kafka.bootstrap.servers": "localhost:9092"}
LEAST = CLUSTER | {"subscribe": "orders"}
WITHOUT_FAMILIES = [row for row in OPTIONS.values() if not row.is_prefix]


def batch(**given: str) -> SourceOptions:
    return read_options(LEAST | given, Mode.BATCH)


def stream(**given: str) -> SourceOptions:
    return read_options(LEAST | given, Mode.STREAM)


def test_by_default_a_batch_reads_everything_and_a_stream_new_records() -> None:
    assert batch().starting is Edge.EARLIEST
    assert batch().ending is Edge.LATEST
    assert stream().starting is Edge.LATEST


def test_defaults_are_the_connectors() -> None:
    options = stream()
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.isolation is Isolation.READ_UNCOMMITTED
    assert options.on_no_match is NoMatchStrategy.ERROR
    assert options.limits == TriggerLimits(None, None, 15 * 60_000)
    assert options.split_limits == SplitLimits(None, None)
    assert options.group_id is None
    assert options.warnings == ()


def test_the_case_of_names_does_not_matter() -> None:
    given = {name.upper(): text for name, text in LEAST.items()}
    options = read_options(given | {"STARTINGoffsets": "earliest"}, Mode.STREAM)
    assert options.subscription == TopicNames(("orders",))
    assert options.starting is Edge.EARLIEST


@pytest.mark.parametrize(
    ("given", "subscription"),
    [
        ({"subscribe": "orders, payments"}, TopicNames(("orders", "payments"))),
        ({"path": "orders"}, TopicNames(("orders",))),
        ({"subscribePattern": "orders-.*"}, TopicPattern("orders-.*")),
        ({"assign": '{"orders": [1]}'}, AssignedPartitions((TopicPartition("orders", 1),))),
    ],
)
def test_there_are_three_ways_to_select_topics(given: dict[str, str], subscription: object) -> None:
    assert read_options(CLUSTER | given, Mode.BATCH).subscription == subscription


def test_topics_are_selected_in_exactly_one_way() -> None:
    with pytest.raises(BadOption, match="none is given"):
        read_options(CLUSTER, Mode.BATCH)
    with pytest.raises(BadOption, match="subscribe and path are given"):
        batch(path="payments")


def test_a_time_counts_before_offsets() -> None:
    options = batch(
        startingOffsets="earliest",
        startingOffsetsByTimestamp='{"orders": {"0": 1}}',
        endingOffsets="latest",
        endingOffsetsByTimestamp='{"orders": {"0": 2}}',
    )
    assert options.starting == AtTimes({TopicPartition("orders", 0): 1})
    assert options.ending == AtTimes({TopicPartition("orders", 0): 2})
    options = batch(
        startingOffsetsByTimestamp='{"orders": {"0": 1}}',
        startingTimestamp="3",
        endingOffsetsByTimestamp='{"orders": {"0": 2}}',
        endingTimestamp="4",
    )
    assert (options.starting, options.ending) == (AtTime(3), AtTime(4))


def test_offsets_are_taken_by_partition() -> None:
    assert stream(startingOffsets='{"orders": {"0": -1}}').starting == AtOffsets(
        {TopicPartition("orders", 0): -1}
    )


@pytest.mark.parametrize("place", ["latest", '{"orders": {"0": -1}}'])
def test_a_batch_does_not_begin_at_the_end(place: str) -> None:
    with pytest.raises(BadOption, match="would read nothing"):
        batch(startingOffsets=place)


@pytest.mark.parametrize("place", ["earliest", '{"orders": {"0": -2}}'])
def test_a_batch_does_not_end_at_the_beginning(place: str) -> None:
    with pytest.raises(BadOption, match="would read nothing"):
        batch(endingOffsets=place)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(BadOption, match=f"{name} is for a batch, but this is a stream"):
        stream(**{name: "1"})


def test_a_batch_ignores_options_for_streams() -> None:
    options = batch(maxOffsetsPerTrigger="5", groupId="g")
    assert options.limits.rows_max is None
    assert options.group_id is None
    assert [warning.split(".")[0] for warning in options.warnings] == [
        "the option maxOffsetsPerTrigger is ignored",
        "the option groupId is ignored",
    ]


def test_limits_and_pieces_are_numbers() -> None:
    options = stream(
        maxOffsetsPerTrigger="500",
        minOffsetsPerTrigger="50",
        maxTriggerDelay="30s",
        minPartitions="8",
        maxRecordsPerPartition="1000",
    )
    assert options.limits == TriggerLimits(500, 50, 30_000)
    assert options.split_limits == SplitLimits(8, 1000)


def test_a_least_amount_above_the_most_is_refused() -> None:
    with pytest.raises(BadOption, match="above maxOffsetsPerTrigger"):
        stream(maxOffsetsPerTrigger="5", minOffsetsPerTrigger="6")


def test_the_client_gets_the_same_options_as_the_connectors() -> None:
    options = stream(
        **{
            "kafka.isolation.level": "read_committed",
            "kafka.client.id": "loader",
            "kafka.request.timeout.ms": "1",
            "kafka.default.api.timeout.ms": "2",
            "kafka.max.partition.fetch.bytes": "3",
        }
    )
    assert options.isolation is Isolation.READ_COMMITTED
    assert options.client.client_id == "loader"
    assert options.client.request_timeout_ms == 1
    assert options.client.default_api_timeout_ms == 2
    assert options.fetch_bytes == 3


def test_an_unknown_option_is_refused_by_name() -> None:
    with pytest.raises(
        BadOption,
        match=r"no option 'startingoffset'; did you mean 'startingOffsets'\?: see .*spark-options",
    ):
        stream(startingOffset="earliest")
    with pytest.raises(BadOption, match=r"no option 'kafka\.fetch\.size'"):
        stream(**{"kafka.fetch.size": "1"})


def test_brokers_must_be_named_and_named_right() -> None:
    with pytest.raises(BadOption, match=r"kafka\.bootstrap\.servers is missing"):
        read_options({"subscribe": "orders"}, Mode.BATCH)
    with pytest.raises(BadOption, match="'a:b' is no address"):
        batch(**{"kafka.bootstrap.servers": "a:b"})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("failOnDataLoss", "maybe"),
        ("includeHeaders", "1"),
        ("minPartitions", "0"),
        ("maxOffsetsPerTrigger", "many"),
        ("maxTriggerDelay", "a while"),
        ("startingTimestamp", "yesterday"),
        ("startingOffsetsByTimestampStrategy", "guess"),
        ("subscribePattern", "("),
        ("kafka.isolation.level", "serializable"),
        ("kafka.security.protocol", "SASL_SSL"),
        ("kafka.request.timeout.ms", "-1"),
    ],
)
def test_an_invalid_value_is_refused_with_the_allowed_values(name: str, text: str) -> None:
    given = CLUSTER | ({} if name == "subscribePattern" else {"subscribe": "orders"})
    with pytest.raises(BadOption) as caught:
        read_options(given | {name: text}, Mode.STREAM)
    assert f"the option {name} is {text!r}: it must be " in str(caught.value)


def test_malformed_offsets_name_their_option() -> None:
    with pytest.raises(BadOption, match="the option startingOffsets: it is not JSON"):
        stream(startingOffsets="sooner")


@pytest.mark.parametrize("row", WITHOUT_FAMILIES, ids=lambda row: row.name)
def test_every_row_of_the_table_is_obeyed(row: Option[Any]) -> None:
    if row.verdict is Verdict.REFUSED:
        with pytest.raises(BadOption) as caught:
            stream(**{row.name: "x"})
        assert row.purpose in str(caught.value)
    elif row.verdict is Verdict.IGNORED:
        assert stream(**{row.name: "x"}).warnings == (
            f"the option {row.name} is ignored. {row.purpose}",
        )
    else:
        assert row.default is None or row.value_format.parse(row.default) is not None


@pytest.mark.parametrize("name", ["kafka.ssl.keystore.location", "kafka.sasl.jaas.config"])
def test_security_is_refused_and_never_dropped(name: str) -> None:
    with pytest.raises(
        BadOption, match=f"{name} cannot be used. TLS and SASL are not supported yet"
    ):
        stream(**{name: "x"})


def test_a_family_is_not_an_option_itself() -> None:
    assert find_option("kafka.metrics.num.samples") is not None
    assert find_option("kafka.") is None


def test_the_page_matches_the_table() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "spark_options_page.py", "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_pure_parts_import_neither_spark_nor_arrow() -> None:
    code = (
        "import sys; import ottla.spark.options, ottla.spark.plan, ottla.spark.micro_batch; "
        "sys.exit(not sys.modules.keys().isdisjoint({'pyspark', 'pyarrow'}))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
