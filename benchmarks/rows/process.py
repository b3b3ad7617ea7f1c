"""The broker process: start-up, memory, many partitions, many connections."""

from benchmarks.comparing import at_most, below
from benchmarks.loads.idle_connections import IdleConnections
from benchmarks.loads.many_partitions import ManyPartitions
from benchmarks.loads.starting import Start
from benchmarks.row import Figure, Row

START = Row(
    group="process",
    name="start, and memory",
    load=Start(messages=500_000, size=1024),
    figures=(
        Figure(
            name="start_s",
            unit="s from start to first acknowledged produce",
            hold=at_most(0.1),
            estimate=0.08,
            because="imports and opening logs take 0.2 s; a JVM, its classes and a quorum of one "
            "about 3 s",
        ),
        Figure(
            name="rest_mb",
            unit="MB at rest",
            hold=below(48),
            estimate=0.1,
            because="an interpreter with uvloop and our modules is 30 MB; a JVM at rest is 385 MB",
        ),
        Figure(
            name="loaded_mb",
            unit="MB after load",
            hold=at_most(0.1),
            estimate=0.06,
            because="buffers have the size of requests and are freed; a JVM fills its heap",
        ),
    ),
    short_share=0.5,
)

PARTITIONS = Row(
    group="process",
    name="1,000 partitions",
    load=ManyPartitions(partitions=1000, seconds=2),
    figures=(
        Figure(
            name="led_s",
            unit="s until all have leaders",
            hold=at_most(1.0),
            estimate=0.5,
            because="one metadata record, one fsync, and directories created at the first append",
        ),
        Figure(
            name="idle_percent",
            unit="% of a core, idle",
            hold=at_most(1.0),
            estimate=0.3,
            because="one sliced tick for all partitions; each of Kafka's threads wakes on timers",
        ),
    ),
    short_share=1.0,
)

CONNECTIONS = Row(
    group="process",
    name="2,000 idle connections",
    load=IdleConnections(connections=2000, seconds=2),
    figures=(
        Figure(
            name="idle_percent",
            unit="% of a core, idle",
            hold=at_most(1.0),
            estimate=0.3,
            because="no timer and no buffer per connection",
        ),
        Figure(
            name="kb_each",
            unit="KB of memory per connection",
            hold=None,
            estimate=1.0,
            because="a transport and its protocol are 5 to 10 KB; Kafka's are in its heap",
        ),
    ),
    short_share=1.0,
)

ROWS = (START, PARTITIONS, CONNECTIONS)
