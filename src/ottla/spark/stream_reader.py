"""The stream reader: plans each micro-batch of a streaming query from the brokers' offsets."""

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
from ottla.spark.failures import report_data_loss, warn
from ottla.spark.micro_batch import TriggerDelay, next_batch, partitions_without_position
from ottla.spark.offsets import Offsets, from_json_offsets, to_json_offsets
from ottla.spark.options import SourceOptions
from ottla.spark.plan import spans_between, split
from ottla.spark.reader import SpanPartition, SpanRows, is_recreated

_NS_PER_MS = 1_000_000


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans in one long-lived process of the driver, and reads in the executors' processes.

    A batch's content follows from its two offsets alone. The state kept between batches only
    determines the end of the next one.
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
        self._rows = SpanRows(options, schema)
        self._clock = clock or RealClock()
        self._trigger_delay = TriggerDelay(options.limits)
        self._lazy_cluster = cluster
        self._topic_ids: dict[str, Uuid] = {}
        self._latest: Offsets = {}
        # The end of an availableNow query.
        self._target: Offsets | None = None
        self._committed: Offsets | None = None

    @property
    def _cluster(self) -> Cluster:
        if self._lazy_cluster is None:
            self._lazy_cluster = Cluster(self._options)
        return self._lazy_cluster

    # Spark's calls while it plans

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The start of a query without a checkpoint."""
        return to_json_offsets(self._cluster.starting())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """The limit of the options. Spark accepts only one."""
        limits = self._options.limits
        if limits.rows_max is not None:
            return ReadMaxRows(limits.rows_max)
        if limits.rows_min is not None:
            return ReadMinRows(limits.rows_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fixes the end of the query at the current end of its partitions."""
        self._target, _ = self._now()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the batch after `start`; `start` itself if the batch has to wait."""
        begin = from_json_offsets(start)
        # Spark asks for the next batch only after it has processed the previous one.
        self._commit(begin)
        latest, recreated = (self._target, ()) if self._target is not None else self._now()
        self._latest = latest
        is_limited = not isinstance(limit, ReadAllAvailable)
        if is_limited and self._target is None and self._waits(begin, latest):
            return start
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        beginnings = self._cluster.beginnings(partitions_without_position(begin, latest, recreated))
        end, losses = next_batch(begin, latest, beginnings, recreated, rows_max)
        if losses:
            report_data_loss(
                self._options, "; ".join(losses), "the existing data is read from its beginning"
            )
        return to_json_offsets(end)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """The end offsets of the last query to the brokers, for the lag in Spark's progress."""
        return to_json_offsets(self._latest) if self._latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The spans between two offsets. Equal offsets give equal spans."""
        spans = spans_between(from_json_offsets(start), from_json_offsets(end))
        return [
            SpanPartition(span, self._topic_ids.get(span.partition.topic))
            for span in split(spans, self._options.split_limits)
        ]

    def commit(self, end: dict[str, Any]) -> None:
        """Called when Spark has processed all records before `end`."""
        self._commit(from_json_offsets(end))

    def stop(self) -> None:
        if self._lazy_cluster is not None:
            self._lazy_cluster.close()

    # Spark's calls on executors

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return self._rows.read(partition)

    # State between batches

    def _now(self) -> tuple[Offsets, tuple[str, ...]]:
        """The end offsets, and the topics that were recreated since the last call."""
        ends, topic_ids = self._cluster.standing(may_lack=bool(self._topic_ids))
        recreated = tuple(
            topic
            for topic, now in topic_ids.items()
            if is_recreated(self._topic_ids.get(topic), now)
        )
        self._topic_ids.update(topic_ids)
        return ends, recreated

    def _waits(self, begin: Offsets, latest: Offsets) -> bool:
        return self._trigger_delay.should_wait(begin, latest, self._clock.steady_ns() // _NS_PER_MS)

    def _commit(self, offsets: Mapping[Any, int]) -> None:
        group_id = self._options.group_id
        if group_id is None or offsets == self._committed:
            return
        try:
            self._cluster.commit(group_id, dict(offsets))
        except ClientError as error:
            # The checkpoint has the query's position; the group only shows it to other tools.
            warn(f"offsets were not committed to the group {group_id}: {error}")
        else:
            self._committed = dict(offsets)
