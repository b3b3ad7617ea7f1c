"""The interface of every client, and the records that they exchange."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import count
from typing import Protocol

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LARGEST_VALUE_BYTES = 1_000_000
FIRST_TIMESTAMP_MS = 1_700_000_000_123
# With this much a client takes the largest value and what is around it.
REQUEST_BYTES_MAX = 1_048_576
# For whatever surely comes, on a machine that others use as well.
WAIT_S = 120.0
ANY_BYTES = bytes(range(256))

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Sent:
    """A record on its way to partition 0. Without a timestamp the client takes its own clock's."""

    value: bytes | None
    key: bytes | None = b"key"
    headers: Headers = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """A record as a client read it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Unsayable(Enum):
    """The parts of a record that a client cannot send."""

    TIMESTAMP = auto()
    NULL_HEADER = auto()
    NULL_KEY_AND_VALUE = auto()
    ANY_BYTES = auto()


class Client(Protocol):
    """Writes to partition 0 of a topic, and reads from it without a group."""

    name: str
    cannot_say: frozenset[Unsayable]

    def write(self, servers: str, topic: str, sent: Sequence[Sent], codec: str = "none") -> None:
        """Every record is acknowledged on return, in this order."""
        ...

    def read(self, servers: str, topic: str, amount: int, *, first: int = 0) -> list[Stored]:
        """So many records from the offset `first` on."""
        ...

    def offset_at(self, servers: str, topic: str, timestamp_ms: int) -> int | None:
        """The first offset with that time or a later one."""
        ...


def samples(client: Client) -> list[Sent]:
    """One of every kind that the client can send, among enough of one kind to be compressed."""
    alike = [Sent(f"value {number} ".encode() * 8, b"key %d" % number) for number in range(20)]
    kinds = [
        Sent(b"", b"with an empty value"),
        Sent(b"with an empty key", b""),
        Sent(None, b"with a null value"),
        Sent(b"with a null key", None),
        Sent("Größe 大きさ".encode(), "Schlüssel 鍵".encode()),
        Sent(b"with headers", headers=(("a", b"1"), ("b", "ü".encode()), ("a", b"2"), ("e", b""))),
        Sent(_large_text()),
    ]
    special = {
        Unsayable.NULL_HEADER: Sent(b"with a null header", headers=(("null", None),)),
        Unsayable.NULL_KEY_AND_VALUE: Sent(None, None),
        Unsayable.ANY_BYTES: Sent(ANY_BYTES, ANY_BYTES[::-1], (("high", ANY_BYTES[128:]),)),
    }
    kinds += [sent for kind, sent in special.items() if kind not in client.cannot_say]
    if Unsayable.TIMESTAMP in client.cannot_say:
        return [*alike, *kinds]
    # Neither in order nor all different.
    minutes = random.Random(1).choices(range(60), k=len(alike) + len(kinds))
    return [
        Sent(sent.value, sent.key, sent.headers, FIRST_TIMESTAMP_MS + minute * 60_000)
        for sent, minute in zip([*alike, *kinds], minutes, strict=True)
    ]


def numbered(amount: int, *, timestamps: bool = False) -> list[Sent]:
    """Distinct records, on request with timestamps a second apart."""
    return [
        Sent(
            b"value %d" % number,
            b"key %d" % number,
            timestamp_ms=FIRST_TIMESTAMP_MS + number * 1000 if timestamps else None,
        )
        for number in range(amount)
    ]


def unlike(sent: Sequence[Sent], stored: Sequence[Stored], *, first: int = 0) -> list[int]:
    """The offsets at which the read record differs from the sent one, or is missing."""
    wrong = [
        offset
        for offset, one, other in zip(count(first), sent, stored, strict=False)
        if _content(one) != _content(other)
        or other.offset != offset
        or (one.timestamp_ms is not None and one.timestamp_ms != other.timestamp_ms)
    ]
    shorter, longer = sorted((len(sent), len(stored)))
    return [*wrong, *range(first + shorter, first + longer)]


def take(amount: int, poll: Callable[[], Sequence[Stored]]) -> list[Stored]:
    """Polls until so many records came, or one poll has waited in vain."""
    found: list[Stored] = []
    while len(found) < amount:
        polled = poll()
        if not polled:
            break
        found += polled
    return found[:amount]


def _content(record: Sent | Stored) -> tuple[bytes | None, bytes | None, Headers]:
    return record.key, record.value, record.headers


def _large_text() -> bytes:
    """Text that a codec makes smaller, yet not small."""
    return random.Random(2).randbytes(LARGEST_VALUE_BYTES // 2).hex().encode()
