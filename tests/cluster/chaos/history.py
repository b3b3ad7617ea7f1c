"""What clients did, as events: one JSON line per event, one file per client process.

A client writes an event before it acts (sent, committing) or as soon as it knows the result
(acknowledged, committed). The events of a client that was killed are therefore never too few: a
value without a result has an unknown outcome.
"""

import json
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

# An acknowledgement without an offset: the broker only knows that it has the record already.
NO_OFFSET = -1


class Partition(NamedTuple):
    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


class Record(NamedTuple):
    """A record as a consumer read it. Its key is the unique value, its value the payload."""

    topic: str
    partition: int
    offset: int
    value: str
    payload: str = ""

    @property
    def where(self) -> Partition:
        return Partition(self.topic, self.partition)


class Step(StrEnum):
    """Of a transaction. One that has begun and was never asked to commit cannot be committed."""

    BEGUN = "begun"
    COMMITTING = "committing"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The times of all clients of one machine are comparable."""

    client: str
    time_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent(Event):
    """`producer` counts the producers that this client has opened: each has an order of its own."""

    producer: int
    partition: Partition
    value: str
    transaction: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged(Event):
    partition: Partition
    offset: int
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Event):
    """A failure is definite only if the record cannot be in the log."""

    value: str
    is_definite: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction(Event):
    transaction: str
    step: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled(Event):
    """The records of one poll, in their order."""

    records: tuple[Record, ...]
    group: str | None = None
    is_read_committed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned(Event):
    """The client reads these partitions from their committed offsets on, or goes back to them."""

    group: str
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked(Event):
    group: str
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsCommitted(Event):
    group: str
    offsets: tuple[tuple[Partition, int], ...]


KINDS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (Sent, Acknowledged, Failed, Transaction, Polled, Assigned, Revoked)
} | {OffsetsCommitted.__name__: OffsetsCommitted}


class HistoryWriter:
    """Appends events to the file of one client. Any of its threads may write."""

    def __init__(self, path: Path, client: str) -> None:
        self.client = client
        self._file = path.open("a", encoding="utf-8")
        self._lock = threading.Lock()

    def write(self, kind: type[Event], **fields: Any) -> None:
        """The line has left the process on return, so that a kill loses nothing."""
        with self._lock:
            event = kind(client=self.client, time_s=time.monotonic(), **fields)
            self._file.write(encode(event) + "\n")
            self._file.flush()

    def close(self) -> None:
        self._file.close()


def encode(event: Event) -> str:
    return json.dumps({"event": type(event).__name__, **asdict(event)})


def decode(line: str) -> Event:
    fields: dict[str, Any] = json.loads(line)
    kind = KINDS[fields.pop("event")]
    for name, parse in _PARSERS.items():
        if name in fields:
            fields[name] = parse(fields[name])
    return kind(**fields)


def read_history(path: Path) -> list[Event]:
    """All whole lines: a client that was killed may have left a part of one."""
    *lines, _ = path.read_text(encoding="utf-8").split("\n")
    return [decode(line) for line in lines]


def _partitions(found: Iterable[Sequence[Any]]) -> tuple[Partition, ...]:
    return tuple(Partition(*each) for each in found)


_PARSERS: dict[str, Any] = {
    "partition": lambda found: Partition(*found),
    "partitions": _partitions,
    "records": lambda found: tuple(Record(*each) for each in found),
    "offsets": lambda found: tuple((Partition(*where), offset) for where, offset in found),
    "step": Step,
}
