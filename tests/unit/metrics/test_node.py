"""A node's metrics as Prometheus reads them: correct, bounded, and rendered in slices."""

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Info, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from ottla.metrics.collectors import PAGE_SAMPLES_MAX
from ottla.metrics.exposition import render
from ottla.metrics.meters import BrokerMeter, ControllerMeter, Histogram, Tally, TopicCounters
from ottla.metrics.node import (
    BROKER_FAMILIES,
    CONTROLLER_FAMILIES,
    PARTITION_FAMILIES,
    TOPIC_FAMILIES,
    NodeMetrics,
)
from ottla.metrics.tables import OTHER_TOPICS

MESSAGES_IN = "kafka_server_brokertopicmetrics_messagesin_total"


class FixedLog:
    """Always the same; counts how often it was looked at."""

    reads = 0
    start_offset = 5
    end_offset = 2**53 + 1
    segments = ("first", "second")

    @property
    def size_bytes(self) -> int:
        type(self).reads += 1
        return 4096


def scrape(metrics: NodeMetrics) -> dict[str, Metric]:
    text = b"".join(metrics.render()).decode()
    families = list(text_string_to_metric_families(text))
    assert len({family.name for family in families}) == len(families), "a family in two places"
    return {family.name: family for family in families}


def read(metrics: NodeMetrics, name: str, labels: Mapping[str, str] | None = None) -> float | None:
    found = [
        sample.value
        for family in scrape(metrics).values()
        for sample in family.samples
        if sample.name == name and sample.labels == (labels or {})
    ]
    assert len(found) <= 1
    return found[0] if found else None


def test_a_new_node_shows_every_family_with_its_type_and_meaning() -> None:
    families = scrape(NodeMetrics())
    for name, kind in {
        "kafka_server_brokertopicmetrics_messagesin": "counter",
        "kafka_server_brokertopicmetrics_bytesin": "counter",
        "kafka_server_brokertopicmetrics_bytesout": "counter",
        "kafka_server_replicamanager_leadercount": "gauge",
        "kafka_server_replicamanager_partitioncount": "gauge",
        "kafka_server_replicamanager_underreplicatedpartitions": "gauge",
        "kafka_controller_kafkacontroller_activecontrollercount": "gauge",
        "kafka_controller_kafkacontroller_offlinepartitionscount": "gauge",
        "kafka_log_log_size": "gauge",
        "kafka_log_log_logstartoffset": "gauge",
        "kafka_log_log_logendoffset": "gauge",
        "kafka_network_requestmetrics_requests": "counter",
        "kafka_server_socketservermetrics_connection_count": "gauge",
        "ottla_request_seconds": "histogram",
        "ottla_request_errors": "counter",
        "ottla_loop_stall_seconds": "histogram",
        "ottla_loop_stall_longest_seconds": "gauge",
        "ottla_connections": "gauge",
        "ottla_connections_refused": "counter",
        "ottla_connections_closed": "counter",
        "ottla_queued_request_bytes": "gauge",
        "ottla_disk_free_bytes": "gauge",
        "ottla_recovery_bytes": "counter",
    }.items():
        assert families[name].type == kind, name
    assert all(family.documentation for family in families.values())


@pytest.mark.parametrize(
    ("meter", "families"),
    [
        (TopicCounters("t"), TOPIC_FAMILIES),
        (BrokerMeter(), BROKER_FAMILIES),
        (ControllerMeter(), CONTROLLER_FAMILIES),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_count_is_shown(
    meter: TopicCounters | BrokerMeter | ControllerMeter, families: dict[str, object]
) -> None:
    assert set(families) == {name for name in meter.__slots__ if name != "name"}


def test_counts_are_shown_by_topic_and_for_the_broker() -> None:
    metrics = NodeMetrics()
    orders = metrics.topic("orders")
    orders.messages_in += 7
    metrics.topic("clicks").messages_in += 5
    assert metrics.topic("orders") is orders
    assert read(metrics, MESSAGES_IN, {"topic": "orders"}) == 7
    assert read(metrics, MESSAGES_IN, {"topic": "clicks"}) == 5
    assert read(metrics, MESSAGES_IN) == 12


def test_a_deleted_topic_disappears_and_the_brokers_total_does_not_run_backwards() -> None:
    metrics = NodeMetrics()
    metrics.topic("orders").messages_in += 7
    metrics.topic("clicks").messages_in += 5
    metrics.topics.remove("orders")
    metrics.topics.remove("never there")
    assert read(metrics, MESSAGES_IN, {"topic": "orders"}) is None
    assert read(metrics, MESSAGES_IN) == 12
    metrics.topic("orders").messages_in += 1
    assert read(metrics, MESSAGES_IN, {"topic": "orders"}) == 1
    assert read(metrics, MESSAGES_IN) == 13


def test_a_topic_deleted_in_the_middle_of_a_scrape_is_counted_once() -> None:
    metrics = NodeMetrics()
    for number in range(1_000):
        metrics.topic(f"topic-{number}").messages_in += 1
    slices = metrics.render()
    text = next(slices)
    for number in range(1_000):
        metrics.topics.remove(f"topic-{number}")
    text += b"".join(slices)
    assert f"\n{MESSAGES_IN} 1000\n" in text.decode()


def test_beyond_the_limit_topics_share_one_label() -> None:
    metrics = NodeMetrics(topics_max=2)
    for name in ("a", "b", "c", "d"):
        metrics.topic(name).messages_in += 1
    shown = scrape(metrics)[MESSAGES_IN.removesuffix("_total")].samples
    assert {tuple(each.labels.values()): each.value for each in shown} == {
        ("a",): 1,
        ("b",): 1,
        (OTHER_TOPICS,): 2,
        (): 4,
    }


def test_a_partition_is_shown_by_its_log_until_it_is_removed() -> None:
    metrics = NodeMetrics()
    metrics.partitions.add("orders", 3, FixedLog())
    labels = {"topic": "orders", "partition": "3"}
    assert read(metrics, "kafka_log_log_size", labels) == 4096
    assert read(metrics, "kafka_log_log_logstartoffset", labels) == 5
    assert read(metrics, "kafka_log_log_numlogsegments", labels) == 2
    assert f'partition="3"}} {2**53 + 1}\n'.encode() in b"".join(metrics.render())
    metrics.partitions.remove("orders", 3)
    assert read(metrics, "kafka_log_log_size", labels) is None


def test_partitions_beyond_the_limit_are_only_counted() -> None:
    metrics = NodeMetrics(partitions_max=2)
    for partition in range(5):
        metrics.partitions.add("orders", partition, FixedLog())
    assert len(scrape(metrics)["kafka_log_log_size"].samples) == 2
    assert read(metrics, "ottla_metrics_partitions_left_out") == 3
    metrics.partitions.remove("orders", 0)
    metrics.partitions.add("orders", 4, FixedLog())
    assert read(metrics, "ottla_metrics_partitions_left_out") == 2
    assert read(metrics, "kafka_log_log_size", {"topic": "orders", "partition": "4"}) == 4096


def test_requests_are_shown_by_kafkas_names_and_by_ours() -> None:
    metrics = NodeMetrics()
    produce = metrics.request("Produce")
    produce.seconds.observe(0.0001)
    produce.seconds.observe(0.003)
    metrics.request_done("Produce", 99.0)
    produce.errors.add("NOT_LEADER_OR_FOLLOWER")
    metrics.request_refused("Produce", "NOT_LEADER_OR_FOLLOWER")
    assert metrics.request("Produce") is produce
    for le, count in (("0.0001", 1), ("0.0025", 1), ("0.005", 2), ("30.0", 2), ("+Inf", 3)):
        labels = {"api": "Produce", "le": le}
        assert read(metrics, "ottla_request_seconds_bucket", labels) == count
    assert read(metrics, "ottla_request_seconds_count", {"api": "Produce"}) == 3
    assert read(metrics, "ottla_request_seconds_sum", {"api": "Produce"}) == pytest.approx(99.0031)
    kafkas = {"request": "Produce"}
    assert read(metrics, "kafka_network_requestmetrics_requests_total", kafkas) == 3
    assert read(metrics, "kafka_network_requestmetrics_totaltimems_count", kafkas) == 3
    spent_ms = read(metrics, "kafka_network_requestmetrics_totaltimems_sum", kafkas)
    assert spent_ms == pytest.approx(99_003.1)
    error = {"error": "NOT_LEADER_OR_FOLLOWER"}
    assert read(metrics, "ottla_request_errors_total", {"api": "Produce"} | error) == 2
    assert read(metrics, "kafka_network_requestmetrics_errors_total", kafkas | error) == 2


def test_connections_are_shown_by_listener_and_reason() -> None:
    metrics = NodeMetrics()
    listener = metrics.listener("PLAINTEXT")
    listener.connections = 3
    listener.accepted = 8
    listener.refused.add("max.connections")
    listener.closed.add("idle")
    listener.closed.add("idle")
    labels = {"listener": "PLAINTEXT"}
    for name in (
        "ottla_connections",
        "kafka_server_socketservermetrics_connection_count",
        "kafka_server_socket_server_metrics_connection_count",
    ):
        assert read(metrics, name, labels) == 3
    created = "kafka_server_socketservermetrics_connection_creation_total"
    assert read(metrics, created, labels) == 8
    refused = labels | {"reason": "max.connections"}
    assert read(metrics, "ottla_connections_refused_total", refused) == 1
    assert read(metrics, "ottla_connections_closed_total", labels | {"reason": "idle"}) == 2


def test_the_longest_stall_is_remembered() -> None:
    metrics = NodeMetrics()
    for seconds in (0.002, 0.75, 0.004):
        metrics.loop.observe(seconds)
    assert read(metrics, "ottla_loop_stall_longest_seconds") == 0.75
    assert read(metrics, "ottla_loop_stall_seconds_bucket", {"le": "0.005"}) == 2


def test_gauges_and_disks_are_read_at_the_scrape() -> None:
    metrics = NodeMetrics()
    metrics.broker.leaders = 4
    metrics.broker.recovered_bytes = 1 << 40
    metrics.controller.active_controllers = 1
    metrics.disk_free_bytes["/data"] = 123
    assert read(metrics, "kafka_server_replicamanager_leadercount") == 4
    assert read(metrics, "ottla_recovery_bytes_total") == 1 << 40
    assert read(metrics, "kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert read(metrics, "ottla_disk_free_bytes", {"log_dir": "/data"}) == 123


def test_two_nodes_in_one_process_do_not_see_each_others_numbers() -> None:
    one, other = NodeMetrics(), NodeMetrics()
    one.topic("orders").messages_in += 1
    assert read(other, MESSAGES_IN) == 0
    assert read(one, MESSAGES_IN) == 1


def test_ten_thousand_partitions_are_rendered_without_one_long_slice() -> None:
    class Counted(FixedLog):
        reads = 0

    metrics = NodeMetrics()
    for partition in range(10_000):
        metrics.partitions.add(f"topic-{partition // 10}", partition % 10, Counted())
    lines_max = 100
    reads, lines, slice_count = [0], 0, 0
    for piece in metrics.render(lines_max):
        # A heading is two lines of text.
        samples = [line for line in piece.decode().splitlines() if not line.startswith("#")]
        assert len(samples) <= lines_max
        assert piece.endswith(b"\n")
        lines += len(samples)
        slice_count += 1
        reads.append(Counted.reads)
    assert lines >= 10_000 * len(PARTITION_FAMILIES)
    assert slice_count >= lines // lines_max
    assert Counted.reads == 10_000
    assert max(after - before for before, after in pairwise(reads)) <= lines_max + PAGE_SAMPLES_MAX


def test_slices_put_together_are_the_same_page_however_they_are_cut() -> None:
    metrics = NodeMetrics()
    for number in range(500):
        metrics.topic(f"topic-{number}").bytes_in += number
        metrics.partitions.add(f"topic-{number}", 0, FixedLog())
    pages = {b"".join(metrics.render(lines_max)) for lines_max in (1, 7, 200, 1_000_000)}
    assert len(pages) == 1


@settings(derandomize=True, deadline=None)
@given(st.dictionaries(st.text(), st.integers(0, 2**40), max_size=5))
def test_any_label_survives_the_text_format(free_bytes: dict[str, int]) -> None:
    class Disks:
        def collect(self) -> Iterator[Metric]:
            page = Metric("free", 'with a "quote", a \\ and a\nbreak', "gauge")
            for path, free in free_bytes.items():
                page.samples.append(Sample("free", {"path": path}, free))
            yield page

    registry = CollectorRegistry()
    registry.register(Disks())
    (family,) = text_string_to_metric_families(b"".join(render(registry)).decode())
    assert {each.labels["path"]: each.value for each in family.samples} == free_bytes


def test_a_path_that_is_no_text_does_not_spoil_the_page() -> None:
    metrics = NodeMetrics()
    metrics.disk_free_bytes["/data\udcff"] = 1
    assert b'ottla_disk_free_bytes{log_dir="/data?"} 1\n' in b"".join(metrics.render())


def test_numbers_that_are_none_are_spelled_as_prometheus_spells_them() -> None:
    metrics = NodeMetrics()
    metrics.loop.longest_seconds = math.inf
    assert b"ottla_loop_stall_longest_seconds +Inf\n" in b"".join(metrics.render())
    metrics.loop.longest_seconds = -math.inf
    assert b"ottla_loop_stall_longest_seconds -Inf\n" in b"".join(metrics.render())
    metrics.loop.longest_seconds = math.nan
    assert b"ottla_loop_stall_longest_seconds NaN\n" in b"".join(metrics.render())


def test_foreign_metrics_are_rendered_in_the_text_format() -> None:
    metrics = NodeMetrics()
    Counter("visits", "Visits.", registry=metrics.registry).inc(3)
    Info("build", "What runs.", registry=metrics.registry).info({"version": "1"})
    text = b"".join(metrics.render()).decode()
    assert "# TYPE visits_total counter\nvisits_total 3.0\n" in text
    assert '# TYPE build_info gauge\nbuild_info{version="1"} 1.0\n' in text
    assert "_created" not in text


def test_a_histogram_counts_its_bounds_as_inside() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        histogram.observe(value)
    assert histogram.counts == [2, 2, 1]
    assert (histogram.count, histogram.total) == (5, 7.5)


def test_a_tally_tells_a_limited_number_of_names_apart() -> None:
    tally = Tally(names_max=2)
    for name in ("a", "b", "c", "a", "d"):
        tally.add(name)
    assert tally.counts == {"a": 2, "b": 1, "other": 2}
