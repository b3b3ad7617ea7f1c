"""Every option of the source, by the names of Spark's Kafka connector: used, ignored or refused.

The page docs/spark-options.md is written from this table. What is not in it is refused.
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
    parse_place,
    parse_times,
)
from ottla.spark.option_values import parse_duration_ms, parse_pattern

T = TypeVar("T")


class Mode(StrEnum):
    """Which kind of query an option is for."""

    BATCH = "batch"
    STREAM = "stream"


class Verdict(StrEnum):
    """What becomes of an option that is given."""

    USED = "used"
    # It changes nothing here, and a warning says why.
    IGNORED = "ignored"
    # The query fails, and the error says why.
    REFUSED = "refused"


class LaterThanAll(StrEnum):
    """What is meant by a time after which a partition has no record."""

    ERROR = "error"
    LATEST = "latest"


class IsolationLevel(StrEnum):
    """Whether records of transactions that are not over, or were aborted, are seen."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class SecurityProtocol(StrEnum):
    """How brokers are connected to."""

    PLAINTEXT = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class Form(Generic[T]):
    """How a value is written; `parse` raises a ValueError, `allowed` goes on from "allowed is"."""

    allowed: str
    parse: Callable[[str], T]


def form(kind: Kind[T]) -> Form[T]:
    return Form(kind.allowed, kind.parse)


# Two rows are never the same one.
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Option(Generic[T]):
    """One row of the table: `purpose` is what it does, or why it does nothing here."""

    name: str
    verdict: Verdict
    purpose: str
    form: Form[T]
    # As it would be written.
    default: str | None = None
    # The other mode ignores it, or refuses it if it would change what is read.
    modes: frozenset[Mode] = frozenset(Mode)
    is_refused_elsewhere: bool = False
    # Every name that begins like this one's.
    is_family: bool = False
    # Spark's Kafka connector does not have it.
    is_ours: bool = False


@dataclass(frozen=True, slots=True)
class Area:
    """Rows that belong together, under a heading."""

    title: str
    rows: list[Option[Any]] = field(default_factory=list)

    def used(self, name: str, form: Form[T], purpose: str, **besides: Any) -> Option[T]:
        row = Option(name=name, verdict=Verdict.USED, form=form, purpose=purpose, **besides)
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
                    form=ANY_TEXT,
                    is_family=name.endswith("*"),
                )
            )


ANY_TEXT = form(Text())
_BATCH_ONLY = {"modes": frozenset({Mode.BATCH}), "is_refused_elsewhere": True}
_STREAM_ONLY = {"modes": frozenset({Mode.STREAM})}
_COUNT = form(long(least=1))
_MS = form(integer(least=0, unit=Unit.MS))
_TIMESTAMP = Form("a time in ms since 1970", long(least=0).parse)
_TIMES: Form[AtTimes] = Form(f"a time in ms for each partition, {TIMES_EXAMPLE}", parse_times)
_PLACE: Form[Edge | AtOffsets] = Form(
    f"earliest, latest, or an offset for each partition, {OFFSETS_EXAMPLE}", parse_place
)

CLUSTER = Area("Which cluster")
BOOTSTRAP_SERVERS = CLUSTER.used(
    "kafka.bootstrap.servers", ANY_TEXT, "Brokers to begin with: host:port, commas between. Needed."
)

TOPICS = Area("Which topics: one of these")
SUBSCRIBE = TOPICS.used("subscribe", form(TextList(may_be_empty=False)), "Topics, commas between.")
PATH = TOPICS.used(
    "path",
    form(TextList(may_be_empty=False)),
    'What `.load("orders")` sets: the same as `subscribe`.',
    is_ours=True,
)
SUBSCRIBE_PATTERN = TOPICS.used(
    "subscribePattern",
    Form("a regular expression", parse_pattern),
    "Every topic whose whole name matches, also one that is made later. Never internal ones.",
)
ASSIGN = TOPICS.used(
    "assign", Form(f"partitions of topics, {ASSIGN_EXAMPLE}", parse_assignment), "These partitions."
)

RANGE = Area("Where reading begins and ends")
STARTING_OFFSETS = RANGE.used(
    "startingOffsets",
    _PLACE,
    "Where a batch, or a stream without a checkpoint, begins; -2 is earliest, -1 latest. "
    "By default a batch at `earliest`, a stream at `latest`. "
    "Partitions that are added later are read from their first record.",
)
STARTING_TIMESTAMP = RANGE.used(
    "startingTimestamp", _TIMESTAMP, "The same by time. Counts before the other two."
)
STARTING_OFFSETS_BY_TIMESTAMP = RANGE.used(
    "startingOffsetsByTimestamp",
    _TIMES,
    "The same by time, for each partition its own. Counts before `startingOffsets`.",
)
STARTING_STRATEGY = RANGE.used(
    "startingOffsetsByTimestampStrategy",
    form(OneOf(LaterThanAll)),
    "Whether a partition without a record that late is an error, or is read from its end.",
    default="error",
)
ENDING_OFFSETS = RANGE.used(
    "endingOffsets",
    _PLACE,
    "Where a batch ends (the offset itself is not read); -1 is latest.",
    default="latest",
    **_BATCH_ONLY,
)
ENDING_TIMESTAMP = RANGE.used(
    "endingTimestamp",
    _TIMESTAMP,
    "The same by time; a partition without a record that late is read to its end. "
    "Counts before the other two.",
    **_BATCH_ONLY,
)
ENDING_OFFSETS_BY_TIMESTAMP = RANGE.used(
    "endingOffsetsByTimestamp",
    _TIMES,
    "The same by time, for each partition its own. Counts before `endingOffsets`.",
    **_BATCH_ONLY,
)

AMOUNT = Area("How much at once")
MAX_OFFSETS_PER_TRIGGER = AMOUNT.used(
    "maxOffsetsPerTrigger",
    _COUNT,
    "How many offsets a micro-batch reads at most, shared by lag; no partition that lags is left "
    "out.",
    **_STREAM_ONLY,
)
MIN_OFFSETS_PER_TRIGGER = AMOUNT.used(
    "minOffsetsPerTrigger",
    _COUNT,
    "How many offsets a micro-batch waits for; not with `availableNow`.",
    **_STREAM_ONLY,
)
MAX_TRIGGER_DELAY = AMOUNT.used(
    "maxTriggerDelay",
    Form("a time like 30s, 15m or 1h", parse_duration_ms),
    "How long it waits for them at most.",
    default="15m",
    **_STREAM_ONLY,
)
MIN_PARTITIONS = AMOUNT.used(
    "minPartitions",
    form(integer(least=1, most=100_000)),
    "Into how many tasks a batch is cut at least, where it has that many offsets. More tasks than "
    "cores are slower.",
)
MAX_RECORDS_PER_PARTITION = AMOUNT.used(
    "maxRecordsPerPartition", _COUNT, "How many offsets a task reads at most."
)

ROWS = Area("What is read")
INCLUDE_HEADERS = ROWS.used(
    "includeHeaders", form(Boolean()), "Adds the column `headers`.", default="false"
)
FAIL_ON_DATA_LOSS = ROWS.used(
    "failOnDataLoss",
    form(Boolean()),
    "Whether the query fails when records are gone before they were read (deleted by retention, "
    "or with their topic), or when a producer stored a batch that nobody can read. Otherwise it "
    "warns and goes on behind them.",
    default="true",
)
ISOLATION_LEVEL = ROWS.used(
    "kafka.isolation.level",
    form(OneOf(IsolationLevel)),
    "`read_committed` leaves out what a transaction has not committed, and ends where the first "
    "open one begins.",
    default="read_uncommitted",
)
FILTER_PUSHDOWN = ROWS.used(
    "filterPushdown",
    form(Boolean()),
    "Conditions on `topic`, `partition`, `offset` and the least `timestamp` narrow what is "
    "fetched. Needs `spark.sql.python.filterPushdown.enabled=true`; `ottla.spark.read` sets it by "
    "that.",
    default="false",
    modes=frozenset({Mode.BATCH}),
    is_ours=True,
)

GROUP = Area("Consumer groups")
GROUP_ID = GROUP.used(
    "groupId",
    ANY_TEXT,
    "After each micro-batch its offsets are committed to this group, so that every tool shows the "
    "query's lag. The group must have no members. Where the query goes on is in its checkpoint.",
    is_ours=True,
    **_STREAM_ONLY,
)
GROUP.ignored(
    "Reading needs no group here; to have offsets committed to one, use `groupId`.",
    "groupIdPrefix",
    "kafka.group.id",
)

CLIENT = Area("The client")
CLIENT_ID = CLIENT.used(
    "kafka.client.id", ANY_TEXT, "The name by which brokers know it.", default="ottla-spark"
)
REQUEST_TIMEOUT = CLIENT.used(
    "kafka.request.timeout.ms", _MS, "From a request to its answer.", default="30000"
)
API_TIMEOUT = CLIENT.used(
    "kafka.default.api.timeout.ms",
    _MS,
    "For how long a question is asked again while brokers are away.",
    default="60000",
)
SETUP_TIMEOUT = CLIENT.used(
    "kafka.socket.connection.setup.timeout.ms", _MS, "For a connection to be made.", default="10000"
)
RETRY_BACKOFF = CLIENT.used(
    "kafka.retry.backoff.ms", _MS, "The first pause before asking again.", default="100"
)
RETRY_BACKOFF_MAX = CLIENT.used(
    "kafka.retry.backoff.max.ms", _MS, "The longest pause.", default="1000"
)
FETCH_BYTES = CLIENT.used(
    "kafka.max.partition.fetch.bytes",
    form(integer(least=1, unit=Unit.BYTES)),
    "How much is asked for at once; the next request is sent before the last answer is decoded.",
    default=str(4 << 20),
)
SECURITY_PROTOCOL = CLIENT.used(
    "kafka.security.protocol",
    form(OneOf(SecurityProtocol)),
    "Connections are plain yet.",
    default="PLAINTEXT",
)
CLIENT.refused(
    "Connections are plain yet: TLS and SASL are not supported.", "kafka.ssl.*", "kafka.sasl.*"
)
CLIENT.refused(
    "The source says where it reads, by `startingOffsets` and the checkpoint.",
    "kafka.auto.offset.reset",
    "kafka.enable.auto.commit",
    "kafka.auto.commit.interval.ms",
)
CLIENT.refused(
    "Keys and values are always binary: cast or decode the column.",
    "kafka.key.deserializer",
    "kafka.value.deserializer",
)
CLIENT.refused("There is no Java class to load here.", "kafka.interceptor.classes")
CLIENT.ignored(
    "Questions are asked again until `kafka.default.api.timeout.ms` has passed.",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
    "kafka.reconnect.backoff.ms",
    "kafka.reconnect.backoff.max.ms",
    "kafka.socket.connection.setup.timeout.max.ms",
)
CLIENT.ignored(
    "A span's end is known before it is read: no fetch waits, and none is cut into polls.",
    "kafka.fetch.min.bytes",
    "kafka.fetch.max.wait.ms",
    "kafka.fetch.max.bytes",
    "kafka.max.poll.records",
    "kafka.max.poll.interval.ms",
)
CLIENT.ignored(
    "There is no group membership to keep up.",
    "kafka.session.timeout.ms",
    "kafka.heartbeat.interval.ms",
    "kafka.group.instance.id",
    "kafka.group.protocol",
    "kafka.group.remote.assignor",
    "kafka.partition.assignment.strategy",
)
CLIENT.ignored("Checksums are always checked.", "kafka.check.crcs")
CLIENT.ignored("A topic is never made by reading it.", "kafka.allow.auto.create.topics")
CLIENT.ignored("Internal topics match no pattern.", "kafka.exclude.internal.topics")
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
# By name in lower case: Spark does not keep the case in which an option was written.
OPTIONS: Mapping[str, Option[Any]] = {row.name.lower(): row for area in AREAS for row in area.rows}
_FAMILIES = tuple(name for name, row in OPTIONS.items() if row.is_family)


def row_of(name: str) -> Option[Any] | None:
    """The row that an option's name stands in, however it is written."""
    lower = name.lower()
    row = OPTIONS.get(lower)
    if row is not None and not row.is_family:
        return row
    family = next((each for each in _FAMILIES if lower.startswith(each)), None)
    return None if family is None else OPTIONS[family]


def option_names() -> list[str]:
    """Every option that can be named in full, as it is written."""
    return [row.name for row in OPTIONS.values() if not row.is_family]
