"""The batch reader, and the reading of spans in tasks."""

from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from ottla.client.arrow.spans import Span, SpanReader
from ottla.client.blocking.client import BlockingClient
from ottla.client.errors import Unreachable
from ottla.client.reading.partition_reader import GoneOffsets, UnreadableSpan
from ottla.client.routing.topology import Topic
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.seams.blocking import RealBlocking
from ottla.seams.clock import RealClock
from ottla.spark.cluster import Cluster
from ottla.spark.failures import explain_errors, report_data_loss
from ottla.spark.filters import PushedFilters, filter_spans, push_filters
from ottla.spark.options import SourceOptions
from ottla.spark.plan import spans_between, split
from ottla.spark.schema import batch_schema, projection


class SpanPartition(InputPartition):
    """The span that one task reads, and the topic's id if it is known."""

    def __init__(self, span: Span, topic_id: Uuid | None = None) -> None:
        super().__init__(tuple(span))
        self.span = span
        self.topic_id = topic_id


def is_recreated(before: Uuid | None, now: Uuid) -> bool:
    """Whether a topic was deleted and recreated. Brokers without topic ids return zero."""
    return before is not None and ZERO_UUID not in (before, now) and before != now


class SpanRows:
    """Reads spans as batches with exactly the schema that Spark expects."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._columns = projection(schema)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """The rows of one partition; prefetches the next batch. Runs in a Python worker."""
        # If there is no partition, Spark passes a placeholder of its own.
        if not isinstance(partition, SpanPartition):
            return
        options = self._options
        schema = batch_schema(self._schema)
        with (
            explain_errors(options),
            BlockingClient(options.bootstrap_servers, options.client) as client,
        ):
            topic = _await_topic(client, partition.span.partition.topic, options)
            if is_recreated(partition.topic_id, topic.topic_id):
                self._report_recreated(partition.span)
                return
            spans = SpanReader(
                client,
                columns=self._columns,
                isolation=options.isolation,
                fetch_bytes=options.fetch_bytes,
                on_gone=self._report_gone,
                on_unreadable=self._report_unreadable,
            )
            for batch in spans.read(partition.span):
                yield pyarrow.RecordBatch.from_arrays(batch.columns, schema=schema)

    def _report_recreated(self, span: Span) -> None:
        report_data_loss(
            self._options,
            f"the topic of {span.partition} was deleted and recreated before offsets {span.start} "
            f"to {span.end - 1} were read",
            "the next batch resets it to its beginning",
        )

    def _report_gone(self, gone: GoneOffsets) -> None:
        report_data_loss(
            self._options,
            f"offsets {gone.first_offset} to {gone.next_offset - 1} of {gone.partition} were "
            "deleted, by retention or with their topic, before they were read",
            f"reading continues at {gone.next_offset}",
        )

    def _report_unreadable(self, span: UnreadableSpan) -> None:
        report_data_loss(self._options, str(span), f"reading continues at {span.next_offset}")


def _await_topic(client: BlockingClient, topic: str, options: SourceOptions) -> Topic:
    """The topic; retries unreachable brokers, because the driver has just reached them.
    ClientError."""
    clock, blocking = RealClock(), RealBlocking()
    until_ns = clock.steady_ns() + options.client.default_api_timeout_ms * 1_000_000
    while True:
        try:
            return client.topic(topic)
        except Unreachable:
            if clock.steady_ns() >= until_ns:
                raise
        blocking.pause(options.client.retry_backoff_max_ms)


class BatchReader(DataSourceReader):
    """A batch query, from the starting to the ending offsets at the time of its planning."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._rows = SpanRows(options, schema)
        self._pushed = PushedFilters()

    def partitions(self) -> Sequence[InputPartition]:
        """One span per task. Spark requires a list."""
        with closing(Cluster(self._options)) as cluster:
            spans = spans_between(cluster.starting(), cluster.ending())
            since_ms = self._pushed.since_ms
            firsts = (
                {}
                if since_ms is None
                else cluster.first_since([span.partition for span in spans], since_ms)
            )
        seen = filter_spans(spans, self._pushed, firsts)
        return [SpanPartition(span) for span in split(seen, self._options.split_limits)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return self._rows.read(partition)


class FilteringBatchReader(BatchReader):
    """A batch query with filter pushdown.

    A separate class: if `spark.sql.python.filterPushdown.enabled` is off, Spark refuses a reader
    with this method.
    """

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802 - Spark's name
        self._pushed, left = push_filters(filters)
        return left
