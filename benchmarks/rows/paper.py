"""The figures of the Kafka paper of 2011, on this machine, compared with today's Kafka."""

from benchmarks.comparing import above
from benchmarks.loads import rdkafka
from benchmarks.row import CpuPer, Figure, Load, Row

MESSAGE_BYTES = 200


def _row(name: str, then: int, load: Load, estimate: float, because: str) -> Row:
    figure = Figure(
        name="rate", unit="messages/s", hold=above(then), estimate=estimate, because=because
    )
    return Row(
        group="the paper's figures",
        name=f"{name} (then {then:,}/s)",
        load=load,
        figures=(figure,),
        cpu_per=CpuPer.GB,
        short_share=0.05,
    )


ROWS = (
    _row(
        "producer, 200 B, batches of 50, acks=0",
        400_000,
        rdkafka.UnacknowledgedProduce(count=10_000_000, size=MESSAGE_BYTES, batch=50),
        1.0,
        "batches of 10 KB: 8,000 requests per second for 400,000 messages, which one core can "
        "serve",
    ),
    _row(
        "producer, 200 B, batches of 1, acks=0",
        50_000,
        rdkafka.UnacknowledgedProduce(count=1_000_000, size=MESSAGE_BYTES, batch=1),
        0.9,
        "requests of one record on one connection, without answers: one core of Python is full",
    ),
    _row(
        "consumer, 200 B",
        22_000,
        rdkafka.Fetch(count=10_000_000, size=MESSAGE_BYTES, settings=rdkafka.batches_of(50)),
        1.0,
        "both use sendfile; the client is the limit",
    ),
)
