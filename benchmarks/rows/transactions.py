"""Transactions: their rate, bulk produce inside of them, isolation levels, and loading many ids."""

from benchmarks.comparing import at_least, at_most, below
from benchmarks.loads import java
from benchmarks.loads.isolation import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    AbortedTopic,
    CommittedTopic,
    Scan,
    TailFetches,
)
from benchmarks.loads.transactional_ids import StartWithTransactionalIds
from benchmarks.loads.transactions import Transactions
from benchmarks.row import CpuPer, Figure, Row

GROUP = "transactions"
OURS_ONLY_GROUP = "cost of transactions"
SECONDS = 4.0

# Ours to Kafka's, by producers, offsets and version.
RATE_ESTIMATES = {
    (1, False, 2): 10.0,
    (10, False, 2): 3.0,
    (100, False, 2): 0.8,
    (1, True, 2): 8.0,
    (10, True, 2): 2.5,
    (1, False, 1): 8.0,
}
BECAUSE_OF_WAITING = {
    2: "markers are written in the turn of EndTxn's answer, so that the next transaction begins at "
    "once; Kafka's begins 20 ms later, since the broker that finds the last one incomplete asks "
    "again after that time",
    1: "as version 2, but Kafka's client waits 20 ms and asks again",
}
BECAUSE_OF_ONE_CORE = {
    10: "as with one producer, but others use the time in which Kafka waits; one core of Python "
    "is full at 1,200 transactions per second",
    100: "some producer is always ready, so that Kafka's waiting costs nothing: one core of Python "
    "beside all cores",
}
END_ESTIMATES = {1: 0.2, 10: 1.3, 100: 2.0}
BECAUSE_END = {
    1: "one write to the coordinator's log before the answer on both; here without hand-offs "
    "between threads",
    10: "all producers wait for one core, which is full, at twice Kafka's rate; the row with one "
    "rate for both compares what a transaction has to wait for",
    100: "all producers wait for one core; Kafka's wait for their turn elsewhere",
}


def _transactions(
    producers: int, *, has_offsets: bool = False, version: int = 2, short_share: float = 0.5
) -> Row:
    plural = "s" if producers > 1 else ""
    offsets = " and an offset" if has_offsets else ""
    name = f"100 records of 100 B{offsets} per transaction, 6 partitions, {producers} producer"
    return Row(
        group=GROUP,
        name=f"{name}{plural}, version {version}",
        load=Transactions(
            producers=producers, seconds=SECONDS, version=version, has_offsets=has_offsets
        ),
        figures=(
            Figure(
                name="rate",
                unit="transactions/s",
                hold=at_least(1.0, goal=1.5, ties=True),
                estimate=RATE_ESTIMATES[producers, has_offsets, version],
                because=BECAUSE_OF_ONE_CORE.get(producers, BECAUSE_OF_WAITING[version]),
            ),
            Figure(
                name="p99_us",
                unit="us, p99 of EndTxn",
                hold=at_most(1.0),
                estimate=END_ESTIMATES[producers],
                because=BECAUSE_END[producers],
            ),
        ),
        cpu_per=CpuPer.REQUESTS,
        short_share=short_share,
    )


PACED_PRODUCERS, PACED_RATE = 10, 300
PACED = Row(
    group=GROUP,
    name=f"100 records of 100 B per transaction, 6 partitions, {PACED_PRODUCERS} producers, "
    f"{PACED_RATE} transactions/s, version 2",
    load=Transactions(producers=PACED_PRODUCERS, seconds=10, per_second=PACED_RATE),
    figures=(
        Figure(
            name="p99_us",
            unit="us, p99 of EndTxn",
            hold=at_most(1.0),
            estimate=1.0,
            because="as with one producer: at the same rate on both, half of what Kafka manages, "
            "nobody waits for long for the one core",
        ),
        Figure(
            name="p50_us",
            unit="us, p50 of EndTxn",
            hold=None,
            estimate=1.3,
            because="one write to the coordinator's log on both; here the markers of other "
            "transactions may be ahead of it",
        ),
    ),
    cpu_per=CpuPer.REQUESTS,
    short_share=0.3,
)

BULK_NAME = "Java, 100 B, 6 partitions, 16 KB batches, transactional"
BULK_COUNT, BULK_BYTES, BULK_PARTITIONS = 2_000_000, 100, 6
BULK_SETTINGS = ("acks=all", "enable.idempotence=true", *java.BATCH_16_KB)
TRANSACTION_MS = 2000


def _bulk(*, is_transactional: bool) -> java.Produce:
    return java.Produce(
        count=BULK_COUNT,
        size=BULK_BYTES,
        partitions=BULK_PARTITIONS,
        settings=BULK_SETTINGS,
        transaction_ms=TRANSACTION_MS if is_transactional else 0,
    )


BULK = Row(
    group=GROUP,
    name=BULK_NAME,
    load=_bulk(is_transactional=True),
    figures=(
        Figure(
            name="rate",
            unit="messages/s",
            hold=at_least(1.0, goal=1.3),
            estimate=1.15,
            because="as idempotent produce: batches of an open transaction need no verification",
        ),
    ),
    cpu_per=CpuPer.GB,
    short_share=0.2,
)

BULK_OVERHEAD = Row(
    group=OURS_ONLY_GROUP,
    name=f"{BULK_NAME}, compared with idempotent (ours only)",
    load=_bulk(is_transactional=True),
    base=_bulk(is_transactional=False),
    base_name="idempotent",
    figures=(
        Figure(
            name="rate",
            unit="messages/s",
            hold=at_least(0.9),
            estimate=0.97,
            because="one more request per two seconds, and the client waits for it; nothing per "
            "batch",
        ),
    ),
    cpu_per=CpuPer.GB,
    short_share=0.2,
)

COMMITTED = CommittedTopic(transactions=10_000)
COMMITTED_NAME = "raw fetch of committed transactions, 1 MiB per request, read_committed"
SCANS = 3

SCAN = Row(
    group=GROUP,
    name=COMMITTED_NAME,
    load=Scan(COMMITTED, READ_COMMITTED, times=SCANS),
    figures=(
        Figure(
            name="mb_s",
            unit="MB/s",
            hold=at_least(1.0, ties=True),
            estimate=1.0,
            because="page cache to socket by sendfile on both: the client is the limit",
        ),
    ),
    cpu_per=CpuPer.GB,
    short_share=0.2,
)

SCAN_ISOLATION = Row(
    group=OURS_ONLY_GROUP,
    name=f"{COMMITTED_NAME}, compared with read_uncommitted (ours only)",
    load=Scan(COMMITTED, READ_COMMITTED, times=SCANS),
    base=Scan(COMMITTED, READ_UNCOMMITTED, times=SCANS),
    base_name="read_uncommitted",
    figures=(
        Figure(
            name="mb_s",
            unit="MB/s",
            hold=at_least(0.95, ties=True),
            estimate=1.0,
            because="nothing was aborted: one lookup in an empty list per fetch",
        ),
    ),
    cpu_per=CpuPer.GB,
    short_share=0.2,
)

ABORTED = AbortedTopic(transactions=100_000)
ABORTED_NAME = "fetches at the end after 100,000 aborted transactions, read_committed"
TAIL_SECONDS = 1.5

TAIL = Row(
    group=GROUP,
    name=ABORTED_NAME,
    load=TailFetches(ABORTED, READ_COMMITTED, seconds=TAIL_SECONDS),
    figures=(
        Figure(
            name="rate",
            unit="fetches/s",
            hold=at_least(1.0),
            estimate=10.0,
            because="a bisection here; Kafka reads all 100,000 entries of the segment's "
            "transaction index, 34 bytes each, for every fetch",
        ),
        Figure(
            name="p99_us",
            unit="us, p99",
            hold=at_most(1.0),
            estimate=0.1,
            because="as the rate",
        ),
        Figure(
            name="scan_mb_s",
            unit="MB/s from the start, through all that was aborted",
            hold=None,
            estimate=2.0,
            because="Kafka reads the index up to the end of each fetch, half of it on average; "
            "both list about 4,000 transactions per answer",
        ),
    ),
    cpu_per=CpuPer.REQUESTS,
    short_share=1.0,
)

TAIL_ISOLATION = Row(
    group=OURS_ONLY_GROUP,
    name=f"{ABORTED_NAME}, compared with read_uncommitted (ours only)",
    load=TailFetches(ABORTED, READ_COMMITTED, seconds=TAIL_SECONDS),
    base=TailFetches(ABORTED, READ_UNCOMMITTED, seconds=TAIL_SECONDS),
    base_name="read_uncommitted",
    figures=(
        Figure(
            name="rate",
            unit="fetches/s",
            hold=at_least(0.95),
            estimate=0.97,
            because="one bisection of 17 steps per fetch",
        ),
        Figure(
            name="p99_us",
            unit="us, p99",
            hold=at_most(1.05, ties=True),
            estimate=1.03,
            because="as the rate",
        ),
        Figure(
            name="scan_mb_s",
            unit="MB/s from the start, through all that was aborted",
            hold=None,
            estimate=0.5,
            because="each MB has 4,000 aborted transactions to read from the index and to list, "
            "at 0.3 us, beside 1 ms for its bytes",
        ),
    ),
    cpu_per=CpuPer.REQUESTS,
    short_share=1.0,
)

START = Row(
    group=GROUP,
    name="start with 100,000 transactional ids",
    load=StartWithTransactionalIds(transactional_ids=100_000),
    figures=(
        Figure(
            name="answered_s",
            unit="s from start until all coordinators answer",
            hold=at_most(1.0),
            estimate=0.45,
            because="100,000 records at 5 us and as many transactions at 8 us are 1.3 s after 0.3 "
            "s of start-up; a JVM needs 3 s before it loads anything",
        ),
        Figure(
            name="memory_mb",
            unit="MB afterwards",
            hold=at_most(0.25),
            estimate=0.25,
            because="100,000 transactions at 0.4 KB beside 45 MB at rest; a JVM at rest is 385 MB",
        ),
        Figure(
            name="growth_mb",
            unit="MB more than without transactional ids",
            hold=None,
            estimate=0.3,
            because="100,000 transactions at 0.8 KB; as much in a JVM's heap, and beside it what "
            "loading leaves to the garbage collector",
        ),
        Figure(
            name="stall_ms",
            unit="ms, the longest wait of other clients",
            hold=below(50),
            estimate=0.5,
            because="a millisecond of loading between two answers, and 20 ms when a handler is "
            "imported; a JVM that has just started is far slower than a warm one",
        ),
    ),
    short_share=1.0,
)

ROWS = (
    _transactions(1),
    _transactions(10),
    _transactions(100, short_share=0),
    _transactions(1, has_offsets=True, short_share=0),
    _transactions(10, has_offsets=True),
    _transactions(1, version=1),
    PACED,
    BULK,
    SCAN,
    TAIL,
    START,
    BULK_OVERHEAD,
    SCAN_ISOLATION,
    TAIL_ISOLATION,
)
