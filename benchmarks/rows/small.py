"""Small requests: one record per produce request on few and many connections; end to end."""

from benchmarks.comparing import at_least, at_most
from benchmarks.loads.generators import EndToEnd, SmallProduces
from benchmarks.row import CpuPer, Figure, Row

# Ours to Kafka's: rate, p99. By number of connections.
ESTIMATES = {1: (1.1, 0.8), 10: (1.1, 0.8), 100: (0.8, 1.0)}
BECAUSE = {
    1: "no hand-offs between threads: a round trip of 75 us instead of 90; Python costs part of "
    "the gain",
    10: "as with one connection, and answers of one turn of the event loop are sent together",
    100: "one core of Python is full at 60,000 per second, while Kafka spreads over all cores",
}


def _one_record(connections: int) -> Row:
    rate, p99 = ESTIMATES[connections]
    plural = "s" if connections > 1 else ""
    return Row(
        group="small requests",
        name=f"one-record produces, 100 B, {connections} connection{plural}",
        load=SmallProduces(connections=connections, seconds=4),
        figures=(
            Figure(
                name="rate",
                unit="requests/s",
                hold=at_least(1.0, goal=1.3),
                estimate=rate,
                because=BECAUSE[connections],
            ),
            Figure(
                name="p99_us",
                unit="us, p99",
                hold=at_most(1.0),
                estimate=p99,
                because="no garbage collector and no queues between threads, but one busier core",
            ),
        ),
        cpu_per=CpuPer.REQUESTS,
        short_share=0.5,
    )


END_TO_END = Row(
    group="small requests",
    name="end to end at 1,000 messages/s, 100 B",
    load=EndToEnd(rate=1000, seconds=8),
    figures=(
        Figure(
            name="p50_us",
            unit="us, p50",
            hold=at_most(1.0),
            estimate=0.95,
            because="a waiting fetch is answered in the turn of the append, from the tail in "
            "memory",
        ),
        Figure(
            name="p99_us",
            unit="us, p99",
            hold=at_most(1.0),
            estimate=0.7,
            because="Kafka's p99 comes from its garbage collector and thread wake-ups",
        ),
    ),
    cpu_per=CpuPer.REQUESTS,
    short_share=0.3,
)

ROWS = (*(_one_record(connections) for connections in ESTIMATES), END_TO_END)
