"""Collectors: they turn meters into Prometheus' metric families, page by page.

A collector yields a family as one or more consecutive `Metric` pages of the same name. A page has
at most `PAGE_SAMPLES_MAX` samples (a histogram is never split), which bounds the work between two
turns of the event loop for any number of partitions. A family without samples is an empty page, so
that every node shows the same families.

Names that begin with `kafka_` are those that the JMX exporter's common rules give Kafka's MBeans:
dashboards query them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, NamedTuple

from ottla.metrics.meters import Histogram, ListenerMeter, LoopMeter, RequestMeter
from ottla.metrics.tables import PartitionRow, PartitionTable, TopicTable

if TYPE_CHECKING:
    from prometheus_client import Metric
    from prometheus_client.samples import Sample

PAGE_SAMPLES_MAX = 200

MetricType = Literal["counter", "gauge", "histogram", "summary"]
Labels = dict[str, str]
LabelledValue = tuple[Labels, float]


class Family(NamedTuple):
    """A metric family. A counter's name lacks its suffix `_total`."""

    kind: MetricType
    name: str
    documentation: str

    def page(self, samples: Iterable["Sample"] = ()) -> "Metric":
        from prometheus_client import Metric

        page = Metric(self.name, self.documentation, self.kind)
        page.samples.extend(samples)
        return page

    def pages(self, values: Iterable[LabelledValue]) -> Iterator["Metric"]:
        """The pages of a counter or gauge; one empty page if there are no values."""
        from prometheus_client.samples import Sample

        name = f"{self.name}_total" if self.kind == "counter" else self.name
        page = self.page()
        for labels, value in values:
            if len(page.samples) == PAGE_SAMPLES_MAX:
                yield page
                page = self.page()
            page.samples.append(Sample(name, labels, value))
        yield page

    def summary_page(self, labels: Labels, count: int, total: float) -> "Metric":
        from prometheus_client.samples import Sample

        return self.page(
            [
                Sample(f"{self.name}_count", labels, count),
                Sample(f"{self.name}_sum", labels, total),
            ]
        )

    def histogram_page(self, labels: Labels, histogram: Histogram) -> "Metric":
        """One histogram on one page: its buckets, count and sum are read at the same moment."""
        from prometheus_client.samples import Sample

        cumulative = list(accumulate(histogram.counts))
        bounds = [*map(str, histogram.bounds), "+Inf"]
        return self.page(
            [
                *(
                    Sample(f"{self.name}_bucket", {**labels, "le": bound}, count)
                    for bound, count in zip(bounds, cumulative, strict=True)
                ),
                Sample(f"{self.name}_count", labels, cumulative[-1]),
                Sample(f"{self.name}_sum", labels, histogram.total),
            ]
        )


class ScalarCollector:
    """Families with one unlabelled value each, by the meter's attribute name."""

    __slots__ = ("_families", "_meter")

    def __init__(self, meter: object, families: Mapping[str, Family]) -> None:
        self._meter = meter
        self._families = families

    def collect(self) -> Iterator["Metric"]:
        for attribute, family in self._families.items():
            yield from family.pages([({}, getattr(self._meter, attribute))])


class SummaryCollector:
    """One summary without labels, whose count and sum are read by a call."""

    __slots__ = ("_family", "_read")

    def __init__(self, family: Family, read: Callable[[], tuple[int, float]]) -> None:
        self._family = family
        self._read = read

    def collect(self) -> Iterator["Metric"]:
        count, total = self._read()
        yield self._family.summary_page({}, count, total)


class LabelledCollector:
    """One family with few labelled values, read by a call."""

    __slots__ = ("_family", "_read")

    def __init__(self, family: Family, read: Callable[[], Iterable[LabelledValue]]) -> None:
        self._family = family
        self._read = read

    def collect(self) -> Iterator["Metric"]:
        yield from self._family.pages(self._read())


class TopicCollector:
    """One family per topic counter: a value per topic, then the broker's total without a label."""

    __slots__ = ("_families", "_table")

    def __init__(self, table: TopicTable, families: Mapping[str, Family]) -> None:
        self._table = table
        self._families = families

    def collect(self) -> Iterator["Metric"]:
        for counter, family in self._families.items():
            yield from family.pages(self._values(counter))

    def _values(self, counter: str) -> Iterator[LabelledValue]:
        read = attrgetter(counter)
        topics, deleted = self._table.snapshot()
        total = deleted[counter]
        for topic in topics:
            value = read(topic)
            total += value
            yield {"topic": topic.name}, value
        yield {}, total


class PartitionCollector:
    """Families with one value per partition, read from its log."""

    __slots__ = ("_families", "_table")

    def __init__(
        self,
        table: PartitionTable,
        families: Sequence[tuple[Family, Callable[[PartitionRow], float]]],
    ) -> None:
        self._table = table
        self._families = families

    def collect(self) -> Iterator["Metric"]:
        for family, read in self._families:
            yield from family.pages(
                ({"topic": row.topic, "partition": str(row.partition)}, read(row))
                for row in self._table.snapshot()
            )


class RequestCollector:
    """Request counts, durations and errors, by API."""

    __slots__ = ("_meters",)

    COUNT = Family("counter", "kafka_network_requestmetrics_requests", "Requests answered, by API.")
    TIME_MS = Family(
        "summary",
        "kafka_network_requestmetrics_totaltimems",
        "Milliseconds from a request's last byte to its response, by API.",
    )
    SECONDS = Family(
        "histogram",
        "ottla_request_seconds",
        "Seconds from a request's last byte to its response, by API.",
    )
    KAFKA_ERRORS = Family(
        "counter", "kafka_network_requestmetrics_errors", "Error codes in responses, by API."
    )
    ERRORS = Family("counter", "ottla_request_errors", "Error codes in responses, by API.")
    THROTTLED = Family(
        "counter", "ottla_request_throttled", "Responses to clients over their quota, by API."
    )
    THROTTLED_S = Family(
        "counter",
        "ottla_request_throttle_seconds",
        "Seconds that clients over their quota had to wait, by API.",
    )

    def __init__(self, meters: Mapping[str, RequestMeter]) -> None:
        self._meters = meters

    def collect(self) -> Iterator["Metric"]:
        meters = list(self._meters.values())
        yield from self.COUNT.pages(({"request": each.api}, each.seconds.count) for each in meters)
        yield self.TIME_MS.page()
        for meter in meters:
            yield self._time_ms(meter)
        yield self.SECONDS.page()
        for meter in meters:
            yield self.SECONDS.histogram_page({"api": meter.api}, meter.seconds)
        for family, label in ((self.KAFKA_ERRORS, "request"), (self.ERRORS, "api")):
            yield from family.pages(
                ({label: meter.api, "error": error}, count)
                for meter in meters
                for error, count in list(meter.errors.counts.items())
            )
        throttled = [each for each in meters if each.throttled]
        for family, value in (
            (self.THROTTLED, attrgetter("throttled")),
            (self.THROTTLED_S, attrgetter("throttled_s")),
        ):
            yield from family.pages(({"api": each.api}, value(each)) for each in throttled)

    def _time_ms(self, meter: RequestMeter) -> "Metric":
        return self.TIME_MS.summary_page(
            {"request": meter.api}, meter.seconds.count, meter.seconds.total * 1000
        )


class ListenerCollector:
    """Connections, by listener."""

    __slots__ = ("_meters",)

    # The bean's type is `socket-server-metrics`; the two common sets of rules spell it differently.
    OPEN = tuple(
        Family("gauge", name, "Open connections, by listener.")
        for name in (
            "kafka_server_socketservermetrics_connection_count",
            "kafka_server_socket_server_metrics_connection_count",
            "ottla_connections",
        )
    )
    ACCEPTED = Family(
        "counter",
        "kafka_server_socketservermetrics_connection_creation",
        "Accepted connections, by listener.",
    )
    REFUSED = Family(
        "counter", "ottla_connections_refused", "Refused connections, by listener and reason."
    )
    CLOSED = Family(
        "counter", "ottla_connections_closed", "Closed connections, by listener and reason."
    )

    def __init__(self, meters: Mapping[str, ListenerMeter]) -> None:
        self._meters = meters

    def collect(self) -> Iterator["Metric"]:
        meters = list(self._meters.values())
        for family in self.OPEN:
            yield from family.pages(
                ({"listener": each.listener}, each.connections) for each in meters
            )
        yield from self.ACCEPTED.pages(
            ({"listener": each.listener}, each.accepted) for each in meters
        )
        for family, tallied in (
            (self.REFUSED, attrgetter("refused")),
            (self.CLOSED, attrgetter("closed")),
        ):
            yield from family.pages(
                ({"listener": meter.listener, "reason": reason}, count)
                for meter in meters
                for reason, count in list(tallied(meter).counts.items())
            )


class LoopStallCollector:
    """The stalls of the event loop."""

    __slots__ = ("_meter",)

    SECONDS = Family(
        "histogram",
        "ottla_loop_stall_seconds",
        "How much later than scheduled the event loop ran a timer.",
    )
    LONGEST = Family(
        "gauge", "ottla_loop_stall_longest_seconds", "The longest stall since the broker started."
    )

    def __init__(self, meter: LoopMeter) -> None:
        self._meter = meter

    def collect(self) -> Iterator["Metric"]:
        yield self.SECONDS.histogram_page({}, self._meter.stalls)
        yield from self.LONGEST.pages([({}, self._meter.longest_seconds)])
