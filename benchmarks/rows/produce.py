"""Bulk produce: two clients, two sizes, one and six partitions, two batch sizes, two acks."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.comparing import at_least, at_most
from benchmarks.loads import java, rdkafka
from benchmarks.row import CpuPer, Figure, Load, Row

COUNTS = {100: 2_000_000, 1024: 300_000}
SIZE_NAMES = {100: "100 B", 1024: "1 KiB"}
CPU_BOUNDS = {100: 0.5, 1024: 0.75}
CLIENTS = ("librdkafka", "Java")
PARTITIONS = (1, 6)

# Ours to Kafka's, by client and size. A prototype without producer state reached 1.2 to 1.4 and 1.9
# to 2.1 with librdkafka, 1.1 to 1.3 and 1.1 to 1.5 with Java; a full broker does more per batch.
ESTIMATES = {
    ("librdkafka", 100): 1.2,
    ("librdkafka", 1024): 1.6,
    ("Java", 100): 1.15,
    ("Java", 1024): 1.2,
}
BECAUSE_16_KB = (
    "Kafka spends 5 to 10 s/GB on threads that hand over to each other; one header, one CRC and "
    "one write per batch in one loop cost 2 to 4 s/GB; a third of that gain goes to the client"
)
BECAUSE_1_MB = "the client is the limit on a small machine: only the broker's CPU differs"


@dataclass(frozen=True, slots=True)
class _Case:
    client: str
    size: int
    partitions: int
    is_large_batch: bool
    is_idempotent: bool

    @property
    def name(self) -> str:
        batch = "1 MB" if self.is_large_batch else "16 KB"
        acks = "acks=all idempotent" if self.is_idempotent else "acks=1"
        plural = "s" if self.partitions > 1 else ""
        partitions = f"{self.partitions} partition{plural}"
        return f"{self.client}, {SIZE_NAMES[self.size]}, {partitions}, {batch} batches, {acks}"

    @property
    def short_share(self) -> float:
        """Half of the cases, so that each pair of choices occurs; a quarter of the large batches.

        The slowest cases are left out: a Java client takes seconds to reach its full speed.
        """
        is_odd = (self.size == 1024) ^ (self.partitions == 6) ^ self.is_idempotent
        is_fast = self.client == "librdkafka"
        if is_odd or (not is_fast and self.size == 1024 and self.is_idempotent):
            return 0
        if self.is_large_batch and is_fast == (self.size == 100) ^ (self.partitions == 1):
            return 0
        return 0.4 if is_fast else 0.2

    def load(self) -> Load:
        count = COUNTS[self.size]
        idempotence = f"enable.idempotence={str(self.is_idempotent).lower()}"
        if self.client == "librdkafka":
            batch = rdkafka.BATCH_1_MB if self.is_large_batch else rdkafka.BATCH_16_KB
            return rdkafka.Produce(
                count=count,
                size=self.size,
                partitions=self.partitions,
                acks=-1 if self.is_idempotent else 1,
                settings=(*batch, idempotence),
            )
        acks = "all" if self.is_idempotent else "1"
        batches = java.BATCH_1_MB if self.is_large_batch else java.BATCH_16_KB
        return java.Produce(
            count=count,
            size=self.size,
            partitions=self.partitions,
            settings=(f"acks={acks}", idempotence, *batches),
        )

    def row(self) -> Row:
        if self.is_large_batch:
            hold, cpu_hold = at_least(1.0, ties=True), at_most(1.0)
            estimate, because = 1.0, BECAUSE_1_MB
        else:
            hold, cpu_hold = at_least(1.0, goal=1.3), at_most(CPU_BOUNDS[self.size])
            estimate, because = ESTIMATES[self.client, self.size], BECAUSE_16_KB
        figure = Figure(
            name="rate", unit="messages/s", hold=hold, estimate=estimate, because=because
        )
        return Row(
            group="bulk produce",
            name=self.name,
            load=self.load(),
            figures=(figure,),
            cpu_per=CpuPer.GB,
            cpu_hold=cpu_hold,
            short_share=self.short_share,
        )


def _cases() -> Iterator[_Case]:
    for is_large_batch in (False, True):
        for client, size, partitions, is_idempotent in itertools.product(
            CLIENTS, COUNTS, PARTITIONS, (False, True)
        ):
            yield _Case(client, size, partitions, is_large_batch, is_idempotent)


ROWS = tuple(case.row() for case in _cases())
