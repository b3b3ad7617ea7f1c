"""Reads spans of topics for Spark: what tasks do, and how a batch query is planned."""

from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from ottla.client.arrow.spans import Span, SpanReader
from ottla.client.blocking.client import BlockingClient
from ottla.client.errors import Unreachable
from ottla.client.reading.partition_reader import Gone, UnreadableSpan
from ottla.client.routing.topology import Topic
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.seams.blocking import RealBlocking
from ottla.seams.clock import RealClock
from ottla.spark.cluster import Cluster
from ottla.spark.failures import explained, report_loss
from ottla.spark.filters import Narrowing, narrow, narrowed
from ottla.spark.options import SourceOptions
from ottla.spark.plan import spans_between, split
from ottla.spark.schema import arrow_form, projection


class SpanPartition(InputPartition):
    """What one task reads, and of which topic of that name, where that is known."""

    def __init__(self, span: Span, topic_id: Uuid | None = None) -> None:
        super().__init__(tuple(span))
        self.span = span
        self.topic_id = topic_id


def differ(before: Uuid | None, now: Uuid) -> bool:
    """Whether a topic was made anew; brokers that know no ids tell zero."""
    return before is not None and ZERO_UUID not in (before, now) and before != now


class Rows:
    """The rows of spans, as batches that have exactly the schema that Spark was told."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._columns = projection(schema)

    def of(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Fetches while the last batch is taken. Runs on an executor, in a process of Python."""
        # Where there is nothing to read, Spark makes up a partition of its own.
        if not isinstance(partition, SpanPartition):
            return
        options = self._options
        form = arrow_form(self._schema)
        with (
            explained(options),
            BlockingClient(options.bootstrap_servers, options.client) as client,
        ):
            topic = _reach(client, partition.span.partition.topic, options)
            if differ(partition.topic_id, topic.topic_id):
                self._report_renewed(partition.span)
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
                yield pyarrow.RecordBatch.from_arrays(batch.columns, schema=form)

    def _report_renewed(self, span: Span) -> None:
        report_loss(
            self._options,
            f"the topic of {span.partition} was deleted and made anew before offsets {span.start} "
            f"to {span.end - 1} were read",
            "the next batch sets it back to its beginning",
        )

    def _report_gone(self, gone: Gone) -> None:
        report_loss(
            self._options,
            f"offsets {gone.first_offset} to {gone.next_offset - 1} of {gone.partition} are gone, "
            "by retention or with their topic, before they were read",
            f"reading goes on at {gone.next_offset}",
        )

    def _report_unreadable(self, span: UnreadableSpan) -> None:
        report_loss(self._options, str(span), f"reading goes on at {span.next_offset}")


def _reach(client: BlockingClient, topic: str, options: SourceOptions) -> Topic:
    """Waits for brokers that are away: the driver has reached them a moment ago. ClientError."""
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
    """A batch query: from the starting to the ending offsets of the moment when it is planned."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._rows = Rows(options, schema)
        self._narrowing = Narrowing()

    def partitions(self) -> Sequence[InputPartition]:
        """One span for each task; Spark takes nothing but a list."""
        with closing(Cluster(self._options)) as cluster:
            spans = spans_between(cluster.starting(), cluster.ending())
            since_ms = self._narrowing.since_ms
            firsts = (
                {}
                if since_ms is None
                else cluster.first_since([span.partition for span in spans], since_ms)
            )
        seen = narrowed(spans, self._narrowing, firsts)
        return [SpanPartition(span) for span in split(seen, self._options.splitting)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return self._rows.of(partition)


class NarrowingBatchReader(BatchReader):
    """The same for a query whose conditions say what need not be fetched.

    A class of its own: where `spark.sql.python.filterPushdown.enabled` is off, Spark refuses a
    reader that has this method.
    """

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802 - Spark's name
        self._narrowing, left = narrow(filters)
        return left
