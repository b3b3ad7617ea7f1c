"""A node's meters: plain numbers that their owner changes in place.

A component gets its meter from `NodeMetrics` once and keeps it, so that a request costs an addition
and no lookup. Nothing here depends on Prometheus: the numbers are read when it scrapes.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sized
from enum import StrEnum
from typing import Any, Protocol

# Inclusive upper bounds; one more bucket counts longer durations.
SECONDS_BOUNDS = (
    *(0.0001, 0.00025, 0.0005),
    *(0.001, 0.0025, 0.005),
    *(0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0),
)
TALLY_NAMES_MAX = 256
OTHER = "other"


class Histogram:
    """The number of values per bucket, and the sum of all values."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...] = SECONDS_BOUNDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def observe_many(self, value: float, times: int) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    @property
    def count(self) -> int:
        return sum(self.counts)


class Tally:
    """Counts by name. Names beyond the first `names_max` share one count."""

    __slots__ = ("_names_max", "counts")

    def __init__(self, names_max: int = TALLY_NAMES_MAX) -> None:
        self.counts: dict[str, int] = {}
        self._names_max = names_max

    def add(self, name: str) -> None:
        if name not in self.counts and len(self.counts) >= self._names_max:
            name = OTHER
        self.counts[name] = self.counts.get(name, 0) + 1


class TopicCounters:
    """The traffic of one topic on this broker."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetch_requests",
        "failed_produce_requests",
        "fetch_requests",
        "messages_in",
        "name",
        "produce_requests",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.bytes_rejected = 0
        self.produce_requests = 0
        self.fetch_requests = 0
        self.failed_produce_requests = 0
        self.failed_fetch_requests = 0


class MeasuredLog(Protocol):
    """The properties of a partition's log that metrics read; `storage.log.log.Log` has them."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def segments(self) -> Sized: ...


class RequestMeter:
    """The requests of one API: seconds from frame to response, error codes, throttle times."""

    __slots__ = ("api", "errors", "seconds", "throttled", "throttled_s")

    def __init__(self, api: str) -> None:
        self.api = api
        self.seconds = Histogram()
        self.errors = Tally()
        self.throttled = 0
        self.throttled_s = 0.0


class ListenerMeter:
    """The connections of one listener."""

    __slots__ = ("accepted", "closed", "connections", "listener", "refused")

    def __init__(self, listener: str) -> None:
        self.listener = listener
        self.connections = 0
        self.accepted = 0
        self.refused = Tally()
        self.closed = Tally()


class LoopMeter:
    """The stalls of the event loop."""

    __slots__ = ("longest_seconds", "stalls")

    def __init__(self) -> None:
        self.stalls = Histogram()
        self.longest_seconds = 0.0

    def observe(self, seconds: float) -> None:
        self.stalls.observe(seconds)
        self.longest_seconds = max(self.longest_seconds, seconds)


class SessionState(StrEnum):
    """The state of a broker's session with the servers of its metadata."""

    CONNECTED = "connected"
    # The session may last, or may have expired.
    DISCONNECTED = "disconnected"
    # It has ended, and the broker has not registered again yet.
    LOST = "lost"


class BrokerMeter:
    """A broker's totals: its replicas, request queue and recovery."""

    __slots__ = (
        "at_min_isr_partitions",
        "isr_expands",
        "isr_shrinks",
        "leaders",
        "offline_log_dirs",
        "offline_replicas",
        "partitions",
        "possible_data_losses",
        "queued_request_bytes",
        "recovered_bytes",
        "recovery_bytes_left",
        "replication_bytes_in",
        "replication_bytes_out",
        "sessions_lost",
        "under_min_isr_partitions",
        "under_replicated_partitions",
        "unsent_reply_bytes",
    )

    def __init__(self) -> None:
        self.leaders = 0
        self.partitions = 0
        self.under_replicated_partitions = 0
        self.possible_data_losses = 0
        self.under_min_isr_partitions = 0
        self.at_min_isr_partitions = 0
        self.offline_replicas = 0
        # Counted when a leader asks for a smaller or a larger ISR and gets it.
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        # Sessions with the servers of the metadata.
        self.sessions_lost = 0
        self.offline_log_dirs = 0
        self.queued_request_bytes = 0
        self.unsent_reply_bytes = 0
        self.recovered_bytes = 0
        self.recovery_bytes_left = 0


class CleanerMeter:
    """The log cleaner's state and its last compaction."""

    __slots__ = (
        "buffer_utilization_percent",
        "clean_seconds",
        "last_check_ms",
        "max_compaction_delay_seconds",
        "max_dirty_percent",
        "now_ms",
        "recopy_percent",
        "uncleanable_bytes",
        "uncleanable_partitions",
        "worker_deaths",
    )

    def __init__(self) -> None:
        self.max_dirty_percent = 0.0
        self.max_compaction_delay_seconds = 0.0
        # Of the last compaction.
        self.clean_seconds = 0.0
        self.recopy_percent = 0.0
        self.buffer_utilization_percent = 0.0
        self.worker_deaths = 0
        # By log directory.
        self.uncleanable_partitions: dict[str, int] = {}
        self.uncleanable_bytes: dict[str, int] = {}
        # The time of the last check for dirty logs, and the current time, by the steady clock.
        self.last_check_ms: int | None = None
        self.now_ms: Callable[[], int] = lambda: 0

    @property
    def since_last_run_ms(self) -> int:
        return 0 if self.last_check_ms is None else self.now_ms() - self.last_check_ms

    def record_clean(self, seconds: float, report: Mapping[str, Any]) -> None:
        """Records a finished compaction. `storage.compaction.cleaner_protocol` defines reports."""
        self.clean_seconds = seconds
        # A share of the bytes read, as in Kafka: dirty parts are read twice.
        self.recopy_percent = 100 * report["written_bytes"] / max(1, report["read_bytes"])
        self.buffer_utilization_percent = 100 * report["map_utilization"]


class CoordinatorMeter:
    """The partitions of a coordinator's topic that this broker leads, and their loads."""

    __slots__ = (
        "failures",
        "load_ms_max",
        "load_ms_total",
        "loads",
        "longest_load_stall_seconds",
        "partitions",
    )

    def __init__(self) -> None:
        self.loads = 0
        self.load_ms_total = 0
        self.load_ms_max = 0
        self.longest_load_stall_seconds = 0.0
        self.failures = 0
        # By load state.
        self.partitions: dict[str, int] = {}

    @property
    def load_ms_avg(self) -> float:
        return self.load_ms_total / self.loads if self.loads else 0.0

    def note_load(self, took_ms: int, longest_stall_ns: int) -> None:
        self.loads += 1
        self.load_ms_total += took_ms
        self.load_ms_max = max(self.load_ms_max, took_ms)
        stall_seconds = longest_stall_ns / 1e9
        self.longest_load_stall_seconds = max(self.longest_load_stall_seconds, stall_seconds)


class GroupMeter(CoordinatorMeter):
    """The groups of this coordinator, and counts of its operations."""

    __slots__ = (
        "classic_rebalances",
        "consumer_rebalances",
        "groups",
        "members",
        "offset_commits",
        "offset_expirations",
    )

    def __init__(self) -> None:
        super().__init__()
        self.offset_commits = 0
        self.offset_expirations = 0
        self.classic_rebalances = 0
        self.consumer_rebalances = 0
        # By protocol and state.
        self.groups: dict[tuple[str, str], int] = {}
        # By protocol.
        self.members: dict[str, int] = {}


class TransactionMeter(CoordinatorMeter):
    """The transactional ids of this coordinator, and counts of its operations."""

    __slots__ = (
        "aborts",
        "commits",
        "expirations",
        "marker_retries",
        "markers",
        "states",
        "timeouts",
        "unfinished",
    )

    def __init__(self) -> None:
        super().__init__()
        # Transactions whose outcome was decided.
        self.commits = 0
        self.aborts = 0
        # Aborts because of a transaction's timeout.
        self.timeouts = 0
        self.expirations = 0
        # Markers that were written, and attempts that failed.
        self.markers = 0
        self.marker_retries = 0
        # Decided transactions with markers that have yet to be written.
        self.unfinished = 0
        # Transactional ids by state.
        self.states: dict[str, int] = {}


class ControllerMeter:
    """The controller's view of the cluster; all zero on brokers that are not the controller."""

    __slots__ = (
        "active_brokers",
        "active_controllers",
        "fenced_brokers",
        "offline_partitions",
        "partitions",
        "preferred_replica_imbalance",
        "topics",
        "unclean_elections",
    )

    def __init__(self) -> None:
        self.active_controllers = 0
        self.active_brokers = 0
        self.fenced_brokers = 0
        self.topics = 0
        self.partitions = 0
        self.offline_partitions = 0
        self.preferred_replica_imbalance = 0
        self.unclean_elections = 0


class LeaderElectionMeter:
    """The leaders that this broker elected as the controller, and the time of their commits."""

    __slots__ = ("count", "total_ms")

    def __init__(self) -> None:
        self.count = 0
        self.total_ms = 0.0
