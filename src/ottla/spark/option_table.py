"""All options of the source, under the names of Spark's Kafka connector: used, ignored or refused.

docs/spark-options.md is generated from this table. Options that are not in it are refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeVar

from ottla.settings.kinds import Boolean, Kind, OneOf, Text, TextList, Unit, integer, long
from ottla.spark.offsets import (
    ASSIGN_EXAMPLE,
    OFFSETS_EXAMPLE,
    TIMES_EXAMPLE,
    AtOffsets,
    AtTimes,
    Edge,
    parse_assignment,
    parse_range_limit,
    parse_times,
)
from ottla.spark.option_values import parse_duration_ms, parse_pattern

T = TypeVar("T")


class Mode(StrEnum):
    """The kind of a query."""

    BATCH = "batch"
    STREAM = "stream"


class Verdict(StrEnum):
    """The effect of a given option."""

    USED = "used"
    # It has no effect, and a warning gives the reason.
    IGNORED = "ignored"
    # The query fails, and the error gives the reason.
    REFUSED = "refused"


class NoMatchStrategy(StrEnum):
    """The start in a partition that has no record at or after the starting timestamp."""

    ERROR = "error"
    LATEST = "latest"


class IsolationLevel(StrEnum):
    """Whether records of open and aborted transactions are read."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class SecurityProtocol(StrEnum):
    """The security protocol of connections to brokers."""

    PLAINTEXT = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class ValueFormat(Generic[T]):
    """The notation of a value: `parse` raises ValueError, `allowed` is a phrase after "must be"."""

    allowed: str
    parse: Callable[[str], T]


def of_kind(kind: Kind[T]) -> ValueFormat[T]:
    return ValueFormat(kind.allowed, kind.parse)


# Compared by identity: no two rows are equal.
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Option(Generic[T]):
    """One row of the table. `purpose` is its effect, or the reason why it has none."""

    name: str
    verdict: Verdict
    purpose: str
    value_format: ValueFormat[T]
    # In the notation of the option.
    default: str | None = None
    # The other mode ignores it, or refuses it if it would change the records read.
    modes: frozenset[Mode] = frozenset(Mode)
    is_refused_in_other_mode: bool = False
    # The row is for all names with this prefix.
    is_prefix: bool = False
    # Spark's Kafka connector does not have it.
    is_ours: bool = False


@dataclass(frozen=True, slots=True)
class Area:
    """Related rows under one heading."""

    title: str
    rows: list[Option[Any]] = field(default_factory=list)

    def used(
        self, name: str, value_format: ValueFormat[T], purpose: str, **details: Any
    ) -> Option[T]:
        row = Option(
            name=name, verdict=Verdict.USED, value_format=value_format, purpose=purpose, **details
        )
        self.rows.append(row)
        return row

    def ignored(self, reason: str, *names: str) -> None:
        self._without_value(Verdict.IGNORED, reason, names)

    def refused(self, reason: str, *names: str) -> None:
        self._without_value(Verdict.REFUSED, reason, names)

    def _without_value(self, verdict: Verdict, reason: str, names: tuple[str, ...]) -> None:
        for name in names:
            self.rows.append(
                Option(
                    name=name.removesuffix("*"),
                    verdict=verdict,
                    purpose=reason,
                    value_format=ANY_TEXT,
                    is_prefix=name.endswith("*"),
                )
            )


ANY_TEXT = of_kind(Text())
_BATCH_ONLY = {"modes": frozenset({Mode.BATCH}), "is_refused_in_other_mode": True}
_STREAM_ONLY = {"modes": frozenset({Mode.STREAM})}
_COUNT = of_kind(long(least=1))
_MS = of_kind(integer(least=0, unit=Unit.MS))
_TIMESTAMP = ValueFormat("a time in ms since 1970", long(least=0).parse)
_TIMES: ValueFormat[AtTimes] = ValueFormat(
    f"a time in ms per partition, {TIMES_EXAMPLE}", parse_times
)
_RANGE_LIMIT: ValueFormat[Edge | AtOffsets] = ValueFormat(
    f"earliest, latest, or an offset per partition, {OFFSETS_EXAMPLE}", parse_range_limit
)

CLUSTER = Area("Cluster")
BOOTSTRAP_SERVERS = CLUSTER.used(
    "kafka.bootstrap.servers",
    ANY_TEXT,
    "The brokers to connect to first: comma-separated host:port. Required.",
)

TOPICS = Area("Topics: exactly one of these")
SUBSCRIBE = TOPICS.used(
    "subscribe", of_kind(TextList(may_be_empty=False)), "Comma-separated topics."
)
PATH = TOPICS.used(
    "path",
    of_kind(TextList(may_be_empty=False)),
    'Set by `.load("orders")`; the same as `subscribe`.',
    is_ours=True,
)
SUBSCRIBE_PATTERN = TOPICS.used(
    "subscribePattern",
    ValueFormat("a regular expression", parse_pattern),
    "All topics whose full name matches, including later ones, but no internal topics.",
)
ASSIGN = TOPICS.used(
    "assign",
    ValueFormat(f"partitions of topics, {ASSIGN_EXAMPLE}", parse_assignment),
    "These partitions.",
)

RANGE = Area("Starting and ending offsets")
STARTING_OFFSETS = RANGE.used(
    "startingOffsets",
    _RANGE_LIMIT,
    "The start of a batch, or of a stream without a checkpoint; -2 is earliest, -1 latest. "
    "The default is `earliest` for a batch and `latest` for a stream. "
    "Partitions that are added later are read from their first record.",
)
STARTING_TIMESTAMP = RANGE.used(
    "startingTimestamp", _TIMESTAMP, "The start by time. Overrides the other two."
)
STARTING_OFFSETS_BY_TIMESTAMP = RANGE.used(
    "startingOffsetsByTimestamp",
    _TIMES,
    "The start by time, per partition. Overrides `startingOffsets`.",
)
STARTING_STRATEGY = RANGE.used(
    "startingOffsetsByTimestampStrategy",
    of_kind(OneOf(NoMatchStrategy)),
    "Whether a partition without a record at or after the timestamp is an error, or is read from "
    "its end.",
    default="error",
)
ENDING_OFFSETS = RANGE.used(
    "endingOffsets",
    _RANGE_LIMIT,
    "The end of a batch (exclusive); -1 is latest.",
    default="latest",
    **_BATCH_ONLY,
)
ENDING_TIMESTAMP = RANGE.used(
    "endingTimestamp",
    _TIMESTAMP,
    "The end by time; a partition without a record at or after it is read to its end. "
    "Overrides the other two.",
    **_BATCH_ONLY,
)
ENDING_OFFSETS_BY_TIMESTAMP = RANGE.used(
    "endingOffsetsByTimestamp",
    _TIMES,
    "The end by time, per partition. Overrides `endingOffsets`.",
    **_BATCH_ONLY,
)

AMOUNT = Area("Batch size")
MAX_OFFSETS_PER_TRIGGER = AMOUNT.used(
    "maxOffsetsPerTrigger",
    _COUNT,
    "The maximum offsets of a micro-batch, shared by lag; every lagging partition gets at least "
    "one.",
    **_STREAM_ONLY,
)
MIN_OFFSETS_PER_TRIGGER = AMOUNT.used(
    "minOffsetsPerTrigger",
    _COUNT,
    "The minimum offsets that a micro-batch waits for; not with `availableNow`.",
    **_STREAM_ONLY,
)
MAX_TRIGGER_DELAY = AMOUNT.used(
    "maxTriggerDelay",
    ValueFormat("a time like 30s, 15m or 1h", parse_duration_ms),
    "The maximum time that a micro-batch waits for them.",
    default="15m",
    **_STREAM_ONLY,
)
MIN_PARTITIONS = AMOUNT.used(
    "minPartitions",
    of_kind(integer(least=1, most=100_000)),
    "The minimum number of tasks of a batch, if it has that many offsets. More tasks than cores "
    "are slower.",
)
MAX_RECORDS_PER_PARTITION = AMOUNT.used(
    "maxRecordsPerPartition", _COUNT, "The maximum offsets of a task."
)

ROWS = Area("Rows")
INCLUDE_HEADERS = ROWS.used(
    "includeHeaders", of_kind(Boolean()), "Adds the column `headers`.", default="false"
)
FAIL_ON_DATA_LOSS = ROWS.used(
    "failOnDataLoss",
    of_kind(Boolean()),
    "Whether the query fails when records were deleted before they were read (by retention or "
    "with their topic), or when a stored batch is unreadable. Otherwise it warns and continues "
    "after them.",
    default="true",
)
ISOLATION_LEVEL = ROWS.used(
    "kafka.isolation.level",
    of_kind(OneOf(IsolationLevel)),
    "`read_committed` leaves out records of aborted transactions, and ends before the first open "
    "transaction.",
    default="read_uncommitted",
)
FILTER_PUSHDOWN = ROWS.used(
    "filterPushdown",
    of_kind(Boolean()),
    "Pushes down conditions on `topic`, `partition`, `offset` and lower bounds of `timestamp`. "
    "Requires `spark.sql.python.filterPushdown.enabled=true`; `ottla.spark.read` sets it in such "
    "sessions.",
    default="false",
    modes=frozenset({Mode.BATCH}),
    is_ours=True,
)

GROUP = Area("Consumer groups")
GROUP_ID = GROUP.used(
    "groupId",
    ANY_TEXT,
    "The offsets of each micro-batch are committed to this group, so that tools can show the "
    "query's lag. The group must have no members. The query resumes from its checkpoint, not from "
    "the group.",
    is_ours=True,
    **_STREAM_ONLY,
)
GROUP.ignored(
    "The source needs no group; to commit offsets to one, use `groupId`.",
    "groupIdPrefix",
    "kafka.group.id",
)

CLIENT = Area("Client")
CLIENT_ID = CLIENT.used(
    "kafka.client.id", ANY_TEXT, "The client id in requests.", default="ottla-spark"
)
REQUEST_TIMEOUT = CLIENT.used(
    "kafka.request.timeout.ms", _MS, "The timeout of one request.", default="30000"
)
API_TIMEOUT = CLIENT.used(
    "kafka.default.api.timeout.ms",
    _MS,
    "How long a request is retried while brokers are unavailable.",
    default="60000",
)
SETUP_TIMEOUT = CLIENT.used(
    "kafka.socket.connection.setup.timeout.ms",
    _MS,
    "The timeout for opening a connection.",
    default="10000",
)
RETRY_BACKOFF = CLIENT.used(
    "kafka.retry.backoff.ms", _MS, "The first pause before a retry.", default="100"
)
RETRY_BACKOFF_MAX = CLIENT.used(
    "kafka.retry.backoff.max.ms", _MS, "The longest pause before a retry.", default="1000"
)
FETCH_BYTES = CLIENT.used(
    "kafka.max.partition.fetch.bytes",
    of_kind(integer(least=1, unit=Unit.BYTES)),
    "The size of one fetch; the next fetch is sent before the last response is decoded.",
    default=str(4 << 20),
)
SECURITY_PROTOCOL = CLIENT.used(
    "kafka.security.protocol",
    of_kind(OneOf(SecurityProtocol)),
    "Only plaintext connections are supported yet.",
    default="PLAINTEXT",
)
CLIENT.refused("TLS and SASL are not supported yet.", "kafka.ssl.*", "kafka.sasl.*")
CLIENT.refused(
    "The source reads from `startingOffsets` or from the checkpoint.",
    "kafka.auto.offset.reset",
    "kafka.enable.auto.commit",
    "kafka.auto.commit.interval.ms",
)
CLIENT.refused(
    "Keys and values are always binary: cast or decode the columns.",
    "kafka.key.deserializer",
    "kafka.value.deserializer",
)
CLIENT.refused("The source runs no Java classes.", "kafka.interceptor.classes")
CLIENT.ignored(
    "Requests are retried until `kafka.default.api.timeout.ms` has passed.",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
    "kafka.reconnect.backoff.ms",
    "kafka.reconnect.backoff.max.ms",
    "kafka.socket.connection.setup.timeout.max.ms",
)
CLIENT.ignored(
    "The end offsets are known before a fetch: no fetch waits, and none is split into polls.",
    "kafka.fetch.min.bytes",
    "kafka.fetch.max.wait.ms",
    "kafka.fetch.max.bytes",
    "kafka.max.poll.records",
    "kafka.max.poll.interval.ms",
)
CLIENT.ignored(
    "The source is not a member of a group.",
    "kafka.session.timeout.ms",
    "kafka.heartbeat.interval.ms",
    "kafka.group.instance.id",
    "kafka.group.protocol",
    "kafka.group.remote.assignor",
    "kafka.partition.assignment.strategy",
)
CLIENT.ignored("Checksums are always verified.", "kafka.check.crcs")
CLIENT.ignored("Reading never creates a topic.", "kafka.allow.auto.create.topics")
CLIENT.ignored("Patterns never match internal topics.", "kafka.exclude.internal.topics")
CLIENT.ignored(
    "It tunes the Java client.",
    "kafka.auto.include.jmx.reporter",
    "kafka.client.dns.lookup",
    "kafka.client.rack",
    "kafka.connections.max.idle.ms",
    "kafka.enable.metrics.push",
    "kafka.metadata.max.age.ms",
    "kafka.metadata.recovery.*",
    "kafka.metric.reporters",
    "kafka.metrics.*",
    "kafka.receive.buffer.bytes",
    "kafka.security.providers",
    "kafka.send.buffer.bytes",
)

AREAS = (CLUSTER, TOPICS, RANGE, AMOUNT, ROWS, GROUP, CLIENT)
# By lower-case name: Spark does not keep the case of option names.
OPTIONS: Mapping[str, Option[Any]] = {row.name.lower(): row for area in AREAS for row in area.rows}
_PREFIXES = tuple(name for name, row in OPTIONS.items() if row.is_prefix)


def find_option(name: str) -> Option[Any] | None:
    """The row for an option's name, in any case; None if there is none."""
    lower = name.lower()
    row = OPTIONS.get(lower)
    if row is not None and not row.is_prefix:
        return row
    family = next((each for each in _PREFIXES if lower.startswith(each)), None)
    return None if family is None else OPTIONS[family]


def option_names() -> list[str]:
    """The names of all options except prefixes."""
    return [row.name for row in OPTIONS.values() if not row.is_prefix]
