"""Options are used, ignored with a warning or refused with the reason; never dropped in silence."""

import subprocess
import sys
from typing import Any

import pytest

from ottla.protocol.isolation_level import Isolation
from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.micro_batch import Limits
from ottla.spark.offsets import AtOffsets, AtTime, AtTimes, Edge
from ottla.spark.option_table import OPTIONS, LaterThanAll, Mode, Option, Verdict, row_of
from ottla.spark.options import Assigned, BadOption, Matching, Named, SourceOptions, read_options
from ottla.spark.plan import Splitting
from tests.support.paths import ROOT

CLUSTER = {"kafka.bootstrap.servers": "localhost:9092"}
LEAST = CLUSTER | {"subscribe": "orders"}
WITHOUT_FAMILIES = [row for row in OPTIONS.values() if not row.is_family]


def batch(**given: str) -> SourceOptions:
    return read_options(LEAST | given, Mode.BATCH)


def stream(**given: str) -> SourceOptions:
    return read_options(LEAST | given, Mode.STREAM)


def test_a_batch_reads_all_that_is_there_and_a_stream_what_comes() -> None:
    assert batch().starting is Edge.EARLIEST
    assert batch().ending is Edge.LATEST
    assert stream().starting is Edge.LATEST


def test_defaults_are_the_connectors() -> None:
    options = stream()
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.isolation is Isolation.READ_UNCOMMITTED
    assert options.later_than_all is LaterThanAll.ERROR
    assert options.limits == Limits(None, None, 15 * 60_000)
    assert options.splitting == Splitting(None, None)
    assert options.group_id is None
    assert options.warnings == ()


def test_names_count_in_whatever_case() -> None:
    given = {name.upper(): text for name, text in LEAST.items()}
    options = read_options(given | {"STARTINGoffsets": "earliest"}, Mode.STREAM)
    assert options.subscription == Named(("orders",))
    assert options.starting is Edge.EARLIEST


@pytest.mark.parametrize(
    ("given", "subscription"),
    [
        ({"subscribe": "orders, payments"}, Named(("orders", "payments"))),
        ({"path": "orders"}, Named(("orders",))),
        ({"subscribePattern": "orders-.*"}, Matching("orders-.*")),
        ({"assign": '{"orders": [1]}'}, Assigned((TopicPartition("orders", 1),))),
    ],
)
def test_there_are_three_ways_to_say_what_is_read(
    given: dict[str, str], subscription: object
) -> None:
    assert read_options(CLUSTER | given, Mode.BATCH).subscription == subscription


def test_what_is_read_is_said_once() -> None:
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
    with pytest.raises(BadOption, match=f"{name} is for a batch, and this is a stream"):
        stream(**{name: "1"})


def test_what_is_for_a_stream_is_ignored_by_a_batch() -> None:
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
    assert options.limits == Limits(500, 50, 30_000)
    assert options.splitting == Splitting(8, 1000)


def test_a_least_amount_above_the_most_is_refused() -> None:
    with pytest.raises(BadOption, match="more than maxOffsetsPerTrigger"):
        stream(maxOffsetsPerTrigger="5", minOffsetsPerTrigger="6")


def test_the_client_is_told_what_the_connector_would_tell_its_own() -> None:
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
def test_a_value_that_is_none_is_refused_with_what_is_allowed(name: str, text: str) -> None:
    given = CLUSTER | ({} if name == "subscribePattern" else {"subscribe": "orders"})
    with pytest.raises(BadOption) as caught:
        read_options(given | {name: text}, Mode.STREAM)
    assert f"the option {name} is {text!r}: allowed is " in str(caught.value)


def test_malformed_offsets_name_their_option() -> None:
    with pytest.raises(BadOption, match="the option startingOffsets: it is no JSON"):
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
        assert row.default is None or row.form.parse(row.default) is not None


@pytest.mark.parametrize("name", ["kafka.ssl.keystore.location", "kafka.sasl.jaas.config"])
def test_security_is_refused_and_never_dropped(name: str) -> None:
    with pytest.raises(BadOption, match=f"{name} cannot be used. Connections are plain yet"):
        stream(**{name: "x"})


def test_a_family_is_not_an_option_itself() -> None:
    assert row_of("kafka.metrics.num.samples") is not None
    assert row_of("kafka.") is None


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
