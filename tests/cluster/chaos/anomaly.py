"""The anomalies that a history can show. The names are those of Jepsen's Kafka workload."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tests.cluster.chaos.history import Partition, Record

SHOWN_MAX = 8


class Kind(StrEnum):
    # Of what was written.
    LOST_WRITE = "lost-write"
    DUPLICATE = "duplicate"
    INCONSISTENT_OFFSETS = "inconsistent-offsets"
    ABORTED_READ = "aborted-read"
    NONMONOTONIC_SEND = "nonmonotonic-send"
    TORN_TRANSACTION = "torn-transaction"
    PHANTOM = "phantom"
    # Of what was polled.
    UNSEEN = "unseen"
    POLL_SKIP = "poll-skip"
    INT_POLL_SKIP = "int-poll-skip"
    NONMONOTONIC_POLL = "nonmonotonic-poll"
    INT_NONMONOTONIC_POLL = "int-nonmonotonic-poll"
    LOST_COMMIT = "lost-commit"
    # Of what was made from other topics.
    COPIED_TWICE = "copied-twice"
    NOT_COPIED = "not-copied"
    MISCOUNTED = "miscounted"
    # Of the clients themselves.
    CLIENT_ENDED = "client-ended"
    STUCK = "stuck"


@dataclass(frozen=True, slots=True)
class Anomaly:
    kind: Kind
    values: tuple[str, ...] = ()
    partition: Partition | None = None
    offsets: tuple[int, ...] = ()
    clients: tuple[str, ...] = ()
    detail: str = ""

    def __str__(self) -> str:
        parts = [f"{self.kind}:", _shown(self.values)]
        parts += [f"in {self.partition}"] if self.partition else []
        parts += [f"at {_shown(self.offsets)}"] if self.offsets else []
        parts += [f"by {_shown(self.clients)}"] if self.clients else []
        parts += [f"({self.detail})"] if self.detail else []
        return " ".join(part for part in parts if part)


def _shown(values: Sequence[object]) -> str:
    shown = ", ".join(map(str, values[:SHOWN_MAX]))
    return shown + (f" and {len(values) - SHOWN_MAX} more" if len(values) > SHOWN_MAX else "")


@dataclass(frozen=True, slots=True)
class FinalRead:
    """All records of all partitions, read from the start to the end after all producers ended."""

    committed: Sequence[Record]
    uncommitted: Sequence[Record]
    committed_values: frozenset[str] = field(init=False)
    uncommitted_values: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "committed_values", frozenset(r.value for r in self.committed))
        object.__setattr__(self, "uncommitted_values", frozenset(r.value for r in self.uncommitted))

    def without(self, topics: Iterable[str]) -> "FinalRead":
        left_out = set(topics)
        return FinalRead(
            [each for each in self.committed if each.topic not in left_out],
            [each for each in self.uncommitted if each.topic not in left_out],
        )


def by_partition(records: Iterable[Record]) -> Mapping[Partition, list[Record]]:
    found: dict[Partition, list[Record]] = {}
    for record in records:
        found.setdefault(record.where, []).append(record)
    return found
