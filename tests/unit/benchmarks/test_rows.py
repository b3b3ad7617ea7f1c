"""The declared rows: unique, each with an estimate; the rows of the short set."""

import itertools

from benchmarks.loads.cluster.failover import Acknowledgements
from benchmarks.loads.coordinator import COORDINATOR_PARTITIONS, one_per_partition
from benchmarks.loads.rdkafka import REPORT, delivery_rate
from benchmarks.loads.transactions import Transactions
from benchmarks.row import CpuPer, Ran, Scope
from benchmarks.rows import ROWS
from benchmarks.running import Progress

from ottla.coordinators.runtime.key_hash import java_hash


def test_every_row_has_a_unique_name_and_a_reason_for_each_estimate() -> None:
    names = [f"{row.group}: {row.name}" for row in ROWS]
    assert len(set(names)) == len(names)
    for row in ROWS:
        assert row.figures
        assert all(figure.because and figure.estimate > 0 for figure in row.figures)


def test_the_full_set_has_every_combination_of_bulk_produce() -> None:
    names = {row.name for row in ROWS if row.group == "bulk produce"}
    clients, sizes = ("librdkafka", "Java"), ("100 B", "1 KiB")
    partitions, batches = ("1 partition", "6 partitions"), ("16 KB batches", "1 MB batches")
    acks = ("acks=1", "acks=all idempotent")
    assert names == {
        ", ".join(case) for case in itertools.product(clients, sizes, partitions, batches, acks)
    }


def test_the_short_set_has_each_pair_of_choices_of_16_kb_batches() -> None:
    short = [
        row.name.split(", ")
        for row in ROWS
        if row.group == "bulk produce" and row.short_share and "16 KB" in row.name
    ]
    for left, right in itertools.combinations((0, 1, 2, 4), 2):
        assert len({(name[left], name[right]) for name in short}) == 4


def test_transactions_are_measured_with_and_without_offsets_and_in_both_versions() -> None:
    loads = [row.load for row in ROWS if isinstance(row.load, Transactions)]
    found = {(load.producers, load.has_offsets, load.version) for load in loads}
    with_and_without = set(itertools.product((1, 10), (False, True), (2,)))
    assert with_and_without | {(1, False, 1)} <= found


def test_one_key_is_asked_for_each_partition_of_a_coordinator() -> None:
    keys = [f"transactional-{number}" for number in range(1000)]
    asked = one_per_partition(keys)
    assert len(asked) == COORDINATOR_PARTITIONS
    assert len({java_hash(key) % COORDINATOR_PARTITIONS for key in asked}) == len(asked)
    assert one_per_partition(keys[:1]) == keys[:1]


def test_scale_shortens_a_load_but_never_to_zero() -> None:
    scope = Scope(0.001)
    assert (scope.count(2_000_000), scope.count(10), scope.seconds(4)) == (2000, 1, 0.5)


def test_cpu_is_reported_per_gb_or_per_100_000_requests() -> None:
    ran = Ran(figures={}, payload_bytes=5e8, requests=1000)
    assert CpuPer.GB.of(2.0, ran) == 4.0
    assert CpuPer.REQUESTS.of(2.0, ran) == 200.0
    assert CpuPer.NOTHING.of(2.0, ran) is None


def test_the_time_before_the_first_delivery_is_not_counted() -> None:
    assert delivery_rate([(100, 0), (600, 0), (700, 100), (1700, 1100)]) == 1000
    assert delivery_rate([(100, 0), (500, 1000)]) == 2000


def test_a_report_of_rdkafka_performance_is_read() -> None:
    head = ("elapsed", "msgs", "bytes", "rtt", "dr", "dr_m/s", "dr_MB/s", "dr_err", "tx_err")
    figures = ("627", "103256", "10325600", "0", "3404", "5427", "0.54", "2", "72")
    lines = ["".join(f"| {cell:>10} " for cell in line) for line in (head, figures)]
    printed = "\n".join(lines)
    assert REPORT.findall(printed) == [("627", "3404", "2")]


def test_progress_reports_the_row_its_duration_and_the_time_left() -> None:
    said: list[str] = []
    now_s = 0.0
    progress = Progress(total=3, say=said.append, clock=lambda: now_s)
    progress.begin(ROWS[0])
    now_s = 20.0
    progress.end()
    progress.begin(ROWS[1])
    assert said[0].startswith("row 1 of 3, time left not known yet: bulk produce: ")
    assert said[1] == "  took 20 s"
    assert said[2].startswith("row 2 of 3, 40 s left: ")


def test_rows_of_a_cluster_are_a_group_that_can_run_alone() -> None:
    assert {row.group for row in ROWS if row.is_cluster}
    assert all(row.is_cluster == row.group.startswith("cluster") for row in ROWS)


def test_a_cluster_is_measured_with_both_clients() -> None:
    names = {row.name for row in ROWS if row.group == "cluster produce"}
    cases = {
        "1 KiB, 1 partition, 16 KB batches",
        "1 KiB, 6 partitions, 16 KB batches",
        "100 B, 6 partitions, 16 KB batches",
        "1 KiB, 6 partitions, 1 MB batches",
    }
    assert names == {f"{client}, {case}" for client in ("Java", "librdkafka") for case in cases}


def test_a_failover_is_the_longest_gap_between_acknowledgements() -> None:
    acknowledged = Acknowledgements(times_s=[1.0, 1.1, 4.6, 4.7, 5.9])
    assert round(acknowledged.longest_gap_s(), 3) == 3.5
