"""The transaction coordinator's metrics: transactional ids by state, counts of its operations."""

from collections.abc import Iterable

from ottla.metrics.collectors import Family, LabelledCollector, ScalarCollector
from ottla.metrics.meters import TransactionMeter

_COORDINATOR = "kafka_server_transaction_coordinator_metrics_"
_MARKERS = "kafka_coordinator_transaction_transactionmarkerchannelmanager_"

COUNTED_FAMILIES = {
    "commits": Family(
        "counter", "ottla_transactions_committed", "Transactions that were committed."
    ),
    "aborts": Family(
        "counter",
        "ottla_transactions_aborted",
        "Transactions that were aborted by their producer, a newer producer or a timeout.",
    ),
    "timeouts": Family(
        "counter",
        "ottla_transactions_timed_out",
        "Transactions that were aborted because of their timeout.",
    ),
    "expirations": Family(
        "counter", "ottla_transactional_ids_expired", "Transactional ids that expired."
    ),
    "markers": Family("counter", "ottla_transaction_markers", "Markers that were written."),
    "marker_retries": Family(
        "counter",
        "ottla_transaction_marker_retries",
        "Times that markers of a transaction were tried again.",
    ),
    "unfinished": Family(
        "gauge",
        f"{_MARKERS}logappendretryqueuesize",
        "Decided transactions whose end is not written everywhere yet.",
    ),
    "load_ms_max": Family(
        "gauge",
        f"{_COORDINATOR}partition_load_time_max",
        "Milliseconds of the longest load of a transaction topic partition.",
    ),
    "load_ms_avg": Family(
        "gauge", f"{_COORDINATOR}partition_load_time_avg", "Milliseconds of the average load."
    ),
    "longest_load_stall_seconds": Family(
        "gauge",
        "ottla_transaction_load_longest_stall_seconds",
        "The longest time for which a load held the event loop.",
    ),
    "failures": Family(
        "counter",
        "ottla_transaction_coordinator_failures",
        "Failed loads and writes of transaction topic partitions.",
    ),
}
STATES = Family("gauge", "ottla_transactional_ids", "Transactional ids, by state.")


def transaction_collectors(
    meter: TransactionMeter,
) -> Iterable[ScalarCollector | LabelledCollector]:
    """The collectors of all transaction metrics."""
    yield ScalarCollector(meter, COUNTED_FAMILIES)
    yield LabelledCollector(
        STATES, lambda: [({"state": state}, count) for state, count in meter.states.items()]
    )
