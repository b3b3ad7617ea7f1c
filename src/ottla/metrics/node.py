"""All metrics of one node, under the names that Kafka's dashboards use and under our own."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from ottla.metrics.collectors import (
    Family,
    LabelledCollector,
    LabelledValue,
    ListenerCollector,
    LoopStallCollector,
    PartitionCollector,
    RequestCollector,
    ScalarCollector,
    SummaryCollector,
    TopicCollector,
)
from ottla.metrics.exposition import SLICE_LINES_MAX, render
from ottla.metrics.groups import group_collectors
from ottla.metrics.meters import (
    BrokerMeter,
    CleanerMeter,
    ControllerMeter,
    GroupMeter,
    LeaderElectionMeter,
    ListenerMeter,
    LoopMeter,
    RequestMeter,
    SessionState,
    TopicCounters,
    TransactionMeter,
)
from ottla.metrics.tables import PartitionRow, PartitionTable, TopicTable
from ottla.metrics.transactions import transaction_collectors

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_TOPICS = "kafka_server_brokertopicmetrics_"
_REPLICAS = "kafka_server_replicamanager_"
_CLEANER = "kafka_log_logcleaner_"
_CLEANER_MANAGER = "kafka_log_logcleanermanager_"
_CONTROLLER = "kafka_controller_kafkacontroller_"

TOPIC_FAMILIES = {
    "messages_in": Family("counter", f"{_TOPICS}messagesin", "Records that producers appended."),
    "bytes_in": Family("counter", f"{_TOPICS}bytesin", "Bytes of batches from producers."),
    "bytes_out": Family("counter", f"{_TOPICS}bytesout", "Bytes of batches sent to consumers."),
    "bytes_rejected": Family("counter", f"{_TOPICS}bytesrejected", "Bytes of refused batches."),
    "produce_requests": Family(
        "counter", f"{_TOPICS}totalproducerequests", "Produce requests to the topic's partitions."
    ),
    "fetch_requests": Family(
        "counter", f"{_TOPICS}totalfetchrequests", "Fetch requests to the topic's partitions."
    ),
    "failed_produce_requests": Family(
        "counter", f"{_TOPICS}failedproducerequests", "Produce requests that failed."
    ),
    "failed_fetch_requests": Family(
        "counter", f"{_TOPICS}failedfetchrequests", "Fetch requests that failed."
    ),
}
PARTITION_FAMILIES: tuple[tuple[Family, Callable[[PartitionRow], float]], ...] = (
    (
        Family("gauge", "kafka_log_log_size", "Bytes of the partition's log."),
        lambda row: row.log.size_bytes,
    ),
    (
        Family("gauge", "kafka_log_log_logstartoffset", "The log start offset."),
        lambda row: row.log.start_offset,
    ),
    (
        Family("gauge", "kafka_log_log_logendoffset", "The log end offset."),
        lambda row: row.log.end_offset,
    ),
    (
        Family("gauge", "kafka_log_log_numlogsegments", "Segments of the partition's log."),
        lambda row: len(row.log.segments),
    ),
)
BROKER_FAMILIES = {
    "leaders": Family("gauge", f"{_REPLICAS}leadercount", "Partitions led by this broker."),
    "partitions": Family("gauge", f"{_REPLICAS}partitioncount", "Replicas on this broker."),
    "under_replicated_partitions": Family(
        "gauge",
        f"{_REPLICAS}underreplicatedpartitions",
        "Partitions led here with a replica that is out of sync.",
    ),
    "under_min_isr_partitions": Family(
        "gauge",
        f"{_REPLICAS}underminisrpartitioncount",
        "Partitions led here with fewer replicas in sync than min.insync.replicas.",
    ),
    "at_min_isr_partitions": Family(
        "gauge",
        f"{_REPLICAS}atminisrpartitioncount",
        "Partitions led here with just min.insync.replicas replicas in sync.",
    ),
    "offline_replicas": Family(
        "gauge", f"{_REPLICAS}offlinereplicacount", "Replicas here whose log is offline."
    ),
    "isr_shrinks": Family("counter", f"{_REPLICAS}isrshrinks", "Replicas that fell out of sync."),
    "isr_expands": Family("counter", f"{_REPLICAS}isrexpands", "Replicas that caught up."),
    "replication_bytes_in": Family(
        "counter", f"{_TOPICS}replicationbytesin", "Bytes of batches fetched from leaders."
    ),
    "replication_bytes_out": Family(
        "counter", f"{_TOPICS}replicationbytesout", "Bytes of batches sent to followers."
    ),
    "sessions_lost": Family(
        "counter",
        "kafka_server_sessionexpirelistener_zookeeperexpires",
        "Sessions of this broker that ZooKeeper ended, or that it gave up after a stall.",
    ),
    "possible_data_losses": Family(
        "counter",
        "ottla_possible_data_loss",
        "Elections, in the whole cluster, of leaders that may have lost records.",
    ),
    "offline_log_dirs": Family(
        "gauge", "kafka_log_logmanager_offlinelogdirectorycount", "Log directories that failed."
    ),
    "queued_request_bytes": Family(
        "gauge", "ottla_queued_request_bytes", "Bytes of requests received and not yet answered."
    ),
    "unsent_reply_bytes": Family(
        "gauge",
        "ottla_unsent_reply_bytes",
        "Bytes of responses in memory that clients have not received yet.",
    ),
    "recovered_bytes": Family(
        "counter", "ottla_recovery_bytes", "Bytes of logs that recovery has checked."
    ),
    "recovery_bytes_left": Family(
        "gauge", "ottla_recovery_left_bytes", "Bytes of logs that recovery still has to check."
    ),
}
CONTROLLER_FAMILIES = {
    "active_controllers": Family(
        "gauge", f"{_CONTROLLER}activecontrollercount", "1 on the broker that is the controller."
    ),
    "active_brokers": Family(
        "gauge", f"{_CONTROLLER}activebrokercount", "Brokers that are registered and not fenced."
    ),
    "fenced_brokers": Family(
        "gauge", f"{_CONTROLLER}fencedbrokercount", "Brokers that are registered and fenced."
    ),
    "topics": Family("gauge", f"{_CONTROLLER}globaltopiccount", "Topics of the cluster."),
    "partitions": Family(
        "gauge", f"{_CONTROLLER}globalpartitioncount", "Partitions of the cluster."
    ),
    "offline_partitions": Family(
        "gauge", f"{_CONTROLLER}offlinepartitionscount", "Partitions without a leader."
    ),
    "preferred_replica_imbalance": Family(
        "gauge",
        f"{_CONTROLLER}preferredreplicaimbalancecount",
        "Partitions that are not led by their first replica.",
    ),
    "unclean_elections": Family(
        "counter",
        "kafka_controller_controllerstats_uncleanleaderelections",
        "Unclean leader elections.",
    ),
}
CLEANER_FAMILIES = {
    "max_dirty_percent": Family(
        "gauge", f"{_CLEANER_MANAGER}max_dirty_percent", "The dirty ratio of the dirtiest log."
    ),
    "since_last_run_ms": Family(
        "gauge",
        f"{_CLEANER_MANAGER}time_since_last_run_ms",
        "Milliseconds since the cleaner last checked for dirty logs.",
    ),
    "max_compaction_delay_seconds": Family(
        "gauge",
        f"{_CLEANER}max_compaction_delay_secs",
        "How long a record has been overdue by max.compaction.lag.ms.",
    ),
    "clean_seconds": Family(
        "gauge", f"{_CLEANER}max_clean_time_secs", "Seconds of the last compaction."
    ),
    "recopy_percent": Family(
        "gauge",
        f"{_CLEANER}cleaner_recopy_percent",
        "The share of the bytes read that the last compaction wrote.",
    ),
    "buffer_utilization_percent": Family(
        "gauge",
        f"{_CLEANER}max_buffer_utilization_percent",
        "The share of its offset map that the last compaction used.",
    ),
    "worker_deaths": Family(
        "counter", "ottla_cleaner_deaths", "Cleaner processes that ended unexpectedly."
    ),
}
UNCLEANABLE_PARTITIONS = Family(
    "gauge",
    f"{_CLEANER_MANAGER}uncleanable_partitions_count",
    "Partitions that could not be compacted, by log directory.",
)
UNCLEANABLE_BYTES = Family(
    "gauge",
    f"{_CLEANER_MANAGER}uncleanable_bytes",
    "Bytes of partitions that could not be compacted, by log directory.",
)
MAX_LAG = Family(
    "gauge",
    "kafka_server_replicafetchermanager_maxlag",
    "The largest number of committed offsets that a follower here lacks.",
)
MAX_LAG_BY_LEADER = Family(
    "gauge",
    "ottla_replica_max_lag",
    "The largest number of committed offsets that a follower here lacks, by the leader's id.",
)
LEADER_ELECTIONS = Family(
    "summary",
    "kafka_controller_controllerstats_leaderelectionrateandtimems",
    "Leaders that this broker elected as the controller, and the milliseconds of their commits.",
)
SESSION_STATE = Family(
    "gauge",
    "ottla_zookeeper_session_state",
    "1 for the state of this broker's ZooKeeper session, 0 for the other states.",
)
DISK_FREE = Family("gauge", "ottla_disk_free_bytes", "Free bytes on a log directory's disk.")
LEFT_OUT = Family(
    "gauge", "ottla_metrics_partitions_left_out", "Partitions beyond the limit of shown ones."
)


class NodeMetrics:
    """A node's meters, and the registry through which Prometheus reads them.

    Each node has its own registry. The owner of the process registers metrics of the process
    there, such as its memory and descriptors.
    """

    def __init__(self, *, topics_max: int = 10_000, partitions_max: int = 20_000) -> None:
        self.topics = TopicTable(topics_max)
        self.partitions = PartitionTable(partitions_max)
        self.broker = BrokerMeter()
        self.controller = ControllerMeter()
        self.leader_elections = LeaderElectionMeter()
        # None if the metadata has no servers.
        self.session_state: SessionState | None = None
        self.loop = LoopMeter()
        self.cleaner = CleanerMeter()
        self.groups = GroupMeter()
        self.transactions = TransactionMeter()
        # By log directory.
        self.disk_free_bytes: dict[str, int] = {}
        # The largest lag of the partitions that are fetched from each leader, by its broker id.
        self.max_lag_by_leader: dict[int, int] = {}
        self._requests: dict[str, RequestMeter] = {}
        self._listeners: dict[str, ListenerMeter] = {}

    def topic(self, name: str) -> TopicCounters:
        """The topic's counters. The caller keeps them until the topic is removed from `topics`."""
        return self.topics.get(name)

    def request(self, api: str) -> RequestMeter:
        """The meter of an API under Kafka's name (a consumer's Fetch is `FetchConsumer`).

        Only for APIs in our own table: a peer must not be able to add one.
        """
        meter = self._requests.get(api)
        if meter is None:
            meter = self._requests[api] = RequestMeter(api)
        return meter

    def request_done(self, api: str, seconds: float) -> None:
        """Records a response `seconds` after the request's last byte arrived."""
        self.request(api).seconds.observe(seconds)

    def request_refused(self, api: str, error: str) -> None:
        """Records a response with the error code of this name."""
        self.request(api).errors.add(error)

    def request_throttled(self, api: str, seconds: float) -> None:
        """Records a response after which the client has to wait, as its quota demands."""
        meter = self.request(api)
        meter.throttled += 1
        meter.throttled_s += seconds

    def listener(self, name: str) -> ListenerMeter:
        """The meter of a listener by its name in the settings."""
        meter = self._listeners.get(name)
        if meter is None:
            meter = self._listeners[name] = ListenerMeter(name)
        return meter

    def render(self, lines_max: int = SLICE_LINES_MAX) -> Iterator[bytes]:
        """The body of a scrape in slices. The caller yields to the event loop between slices."""
        return render(self.registry, lines_max)

    @cached_property
    def registry(self) -> "CollectorRegistry":
        """Created on first use, so that a start does not import Prometheus' library."""
        from prometheus_client import CollectorRegistry

        # Without auto_describe: it would read every meter at once when a collector registers.
        registry = CollectorRegistry()
        for collector in (
            TopicCollector(self.topics, TOPIC_FAMILIES),
            ScalarCollector(self.broker, BROKER_FAMILIES),
            ScalarCollector(self.controller, CONTROLLER_FAMILIES),
            ScalarCollector(self.cleaner, CLEANER_FAMILIES),
            LabelledCollector(
                UNCLEANABLE_PARTITIONS, lambda: _by_log_dir(self.cleaner.uncleanable_partitions)
            ),
            LabelledCollector(
                UNCLEANABLE_BYTES, lambda: _by_log_dir(self.cleaner.uncleanable_bytes)
            ),
            *group_collectors(self.groups),
            *transaction_collectors(self.transactions),
            RequestCollector(self._requests),
            ListenerCollector(self._listeners),
            LoopStallCollector(self.loop),
            SummaryCollector(
                LEADER_ELECTIONS,
                lambda: (self.leader_elections.count, self.leader_elections.total_ms),
            ),
            LabelledCollector(SESSION_STATE, self._session_states),
            LabelledCollector(DISK_FREE, self._free_bytes),
            LabelledCollector(MAX_LAG, self._max_lag),
            LabelledCollector(MAX_LAG_BY_LEADER, self._max_lag_by_leader),
            LabelledCollector(LEFT_OUT, lambda: [({}, self.partitions.left_out_count)]),
            PartitionCollector(self.partitions, PARTITION_FAMILIES),
        ):
            registry.register(collector)
        return registry

    def _session_states(self) -> Iterable[LabelledValue]:
        current = self.session_state
        if current is None:
            return []
        return [({"state": state}, int(state is current)) for state in SessionState]

    def _free_bytes(self) -> Iterable[LabelledValue]:
        return [({"log_dir": path}, free) for path, free in self.disk_free_bytes.items()]

    def _max_lag(self) -> Iterable[LabelledValue]:
        # Kafka's label: fetchers of replicas, not of log directories.
        return [({"clientId": "Replica"}, max(self.max_lag_by_leader.values(), default=0))]

    def _max_lag_by_leader(self) -> Iterable[LabelledValue]:
        lags = sorted(self.max_lag_by_leader.items())
        return [({"leader": str(leader_id)}, lag) for leader_id, lag in lags]


def _by_log_dir(values: Mapping[str, int]) -> Iterable[LabelledValue]:
    return [({"logDirectory": path}, value) for path, value in values.items()]
