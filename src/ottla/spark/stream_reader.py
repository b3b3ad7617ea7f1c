"""A streaming query: how far each micro-batch reads, asked of the brokers as it runs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from ottla.client.errors import ClientError
from ottla.protocol.primitives import Uuid
from ottla.seams.clock import Clock, RealClock
from ottla.spark.cluster import Cluster
from ottla.spark.failures import report_loss, warn
from ottla.spark.micro_batch import Patience, step, unsettled
from ottla.spark.offsets import Offsets, from_form, to_form
from ottla.spark.options import SourceOptions
from ottla.spark.plan import spans_between, split
from ottla.spark.reader import Rows, SpanPartition, differ

_NS_PER_MS = 1_000_000


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Planned in one long-lived process of the driver, read in those of the executors.

    What a batch reads follows from its two offsets alone; what is kept here in between only says
    where the next one ends.
    """

    def __init__(
        self,
        options: SourceOptions,
        schema: StructType,
        *,
        cluster: Cluster | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._options = options
        self._rows = Rows(options, schema)
        self._clock = clock or RealClock()
        self._patience = Patience(options.limits)
        self._cluster_when_asked = cluster
        self._topic_ids: dict[str, Uuid] = {}
        self._latest: Offsets = {}
        # Where a query ends that only reads what was there when it began.
        self._target: Offsets | None = None
        self._committed: Offsets | None = None

    @property
    def _cluster(self) -> Cluster:
        if self._cluster_when_asked is None:
            self._cluster_when_asked = Cluster(self._options)
        return self._cluster_when_asked

    # What Spark asks while it plans

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins."""
        return to_form(self._cluster.starting())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """The options' limits, of which Spark can only be told one."""
        limits = self._options.limits
        if limits.rows_max is not None:
            return ReadMaxRows(limits.rows_max)
        if limits.rows_min is not None:
            return ReadMinRows(limits.rows_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """The query ends where the partitions of this moment end."""
        self._target, _ = self._now()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the batch after `start` ends; `start` itself if there shall be none yet."""
        begin = from_form(start)
        # Whoever asks what comes after it has processed all that comes before.
        self._commit(begin)
        latest, renewed = (self._target, ()) if self._target is not None else self._now()
        self._latest = latest
        is_limited = not isinstance(limit, ReadAllAvailable)
        if is_limited and self._target is None and self._waits(begin, latest):
            return start
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        beginnings = self._cluster.beginnings(unsettled(begin, latest, renewed))
        end, losses = step(begin, latest, beginnings, renewed, rows_max)
        if losses:
            report_loss(
                self._options, "; ".join(losses), "what is there now is read from its start"
            )
        return to_form(end)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """What the last look at the brokers has shown: lag in the query's progress."""
        return to_form(self._latest) if self._latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The same spans whenever it is asked."""
        spans = spans_between(from_form(start), from_form(end))
        return [
            SpanPartition(span, self._topic_ids.get(span.partition.topic))
            for span in split(spans, self._options.splitting)
        ]

    def commit(self, end: dict[str, Any]) -> None:
        """Spark has processed all before `end`."""
        self._commit(from_form(end))

    def stop(self) -> None:
        if self._cluster_when_asked is not None:
            self._cluster_when_asked.close()

    # What executors do

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return self._rows.of(partition)

    # What is remembered from batch to batch

    def _now(self) -> tuple[Offsets, tuple[str, ...]]:
        """Where partitions end, and which topics are not those that were there before."""
        ends, topic_ids = self._cluster.standing(may_lack=bool(self._topic_ids))
        renewed = tuple(
            topic for topic, now in topic_ids.items() if differ(self._topic_ids.get(topic), now)
        )
        self._topic_ids.update(topic_ids)
        return ends, renewed

    def _waits(self, begin: Offsets, latest: Offsets) -> bool:
        return self._patience.holds_back(begin, latest, self._clock.steady_ns() // _NS_PER_MS)

    def _commit(self, offsets: Mapping[Any, int]) -> None:
        group_id = self._options.group_id
        if group_id is None or offsets == self._committed:
            return
        try:
            self._cluster.commit(group_id, dict(offsets))
        except ClientError as error:
            # The checkpoint says where the query goes on; the group only shows it to others.
            warn(f"offsets are not committed to the group {group_id}: {error}")
        else:
            self._committed = dict(offsets)
