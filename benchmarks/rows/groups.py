"""Consumer groups: members that join at once, commits, and a start with many groups."""

from benchmarks.comparing import at_least, at_most, below
from benchmarks.loads.group_loading import StartWithGroups, StartWithOneGroup
from benchmarks.loads.groups import ClassicMembers, Commits, ConsumerMembers
from benchmarks.row import CpuPer, Figure, Row

CLASSIC = Row(
    group="consumer groups",
    name="100 members join at once, classic protocol",
    load=ClassicMembers(members=100),
    figures=(
        Figure(
            name="assigned_s",
            unit="s until all have their partitions",
            hold=at_most(1.0),
            estimate=0.8,
            because="400 requests at 0.1 ms on both, but no hand-offs between threads",
        ),
    ),
    short_share=1.0,
)

CONSUMER = Row(
    group="consumer groups",
    name="100 members join at once, consumer protocol",
    load=ConsumerMembers(members=100),
    figures=(
        Figure(
            name="assigned_s",
            unit="s until all have their partitions",
            hold=at_most(1.0),
            estimate=1.0,
            because="100 assignments of 100 partitions to up to 100 members: Python's loops are "
            "slower, but each heartbeat writes only what it changes",
        ),
    ),
    short_share=1.0,
)

COMMITS = Row(
    group="consumer groups",
    name="offset commits, 50 members of one group",
    load=Commits(members=50, seconds=4),
    figures=(
        Figure(
            name="rate",
            unit="commits/s",
            hold=at_least(1.0, goal=1.3),
            estimate=0.8,
            because="both write one batch for all commits of a turn; one core of Python is full at "
            "12,000 per second, while Kafka spreads over all cores",
        ),
        Figure(
            name="p99_us",
            unit="us, p99",
            hold=at_most(1.0),
            estimate=0.8,
            because="no garbage collector and no queues between threads, but one busier core",
        ),
    ),
    cpu_per=CpuPer.REQUESTS,
    short_share=0.3,
)

MANY = StartWithGroups(groups=10_000, partitions=6, rounds=5)

START = Row(
    group="consumer groups",
    name="start with 10,000 groups, 6 offsets each, committed 5 times",
    load=MANY,
    figures=(
        Figure(
            name="answered_s",
            unit="s from start until all groups answer",
            hold=at_most(1.0),
            estimate=0.5,
            because="300,000 records at 3 us and 60,000 keys at 10 us are 1.5 s after 0.3 s of "
            "start-up; a JVM needs 3 s before it loads anything",
        ),
        Figure(
            name="memory_mb",
            unit="MB afterwards",
            hold=at_most(1.0),
            estimate=0.25,
            because="60,000 offsets at 0.7 KB beside 33 MB at rest; a JVM at rest is 385 MB",
        ),
        Figure(
            name="stall_ms",
            unit="ms, the longest wait of other clients",
            hold=at_most(1.0),
            estimate=0.5,
            because="a millisecond of loading between two answers, and 20 ms when a handler is "
            "imported; a JVM that has just started is far slower than a warm one",
        ),
    ),
    short_share=1.0,
)

STALL = Row(
    group="consumer groups",
    name="answers to others while 10,000 groups are loaded, compared with one (ours only)",
    load=MANY,
    base=StartWithOneGroup(partitions=6),
    base_name="one group",
    figures=(
        Figure(
            name="stall_ms",
            unit="ms, the longest wait for an answer",
            hold=below(50),
            estimate=2.0,
            because="a millisecond of loading between two answers; the first use of a handler "
            "imports it, which takes 20 ms with one group too",
        ),
    ),
)

ROWS = (CLASSIC, CONSUMER, COMMITS, START, STALL)
