"""The interface between a shard and its state machine, which does no I/O."""

from collections.abc import Iterator
from typing import Generic, Never, Protocol, TypeVar

from ottla.coordinators.runtime.decision import Decision
from ottla.protocol.batch import MarkerKind

RecordT = TypeVar("RecordT")
EffectT_co = TypeVar("EffectT_co", covariant=True)


class Machine(Protocol[RecordT, EffectT_co]):
    """The state of a shard. It decides; its durable state changes only by `replay`."""

    def encode(self, record: RecordT, /) -> tuple[bytes, bytes | None]:
        """A record's key and value in the log."""
        ...

    def decode(self, key: bytes, value: bytes | None, /) -> RecordT | None:
        """The record, or None if its type is unknown. StorageError if it is damaged."""
        ...

    def replay(self, record: RecordT, /) -> None: ...

    def replay_pending(self, record: RecordT, producer_id: int, /) -> None:
        """A record of this producer's open transaction: it takes effect if that is committed."""
        ...

    def replay_marker(self, producer_id: int, kind: MarkerKind, /) -> None:
        """The transaction of this producer has ended."""
        ...

    def loaded(self, now_ms: int, /) -> Iterator[Decision[RecordT, EffectT_co]]:
        """The log was replayed to its end: the decisions that follow, one at a time.

        They repeat the effects that an earlier shard may not have performed.
        """
        ...

    def timer_expired(self, timer_key: str, now_ms: int, /) -> Decision[RecordT, EffectT_co]:
        """A timer that a decision has set is due."""
        ...


class WithoutTransactions(Generic[RecordT]):
    """The part of a `Machine` that never writes in a transaction."""

    def replay_pending(self, record: RecordT, producer_id: int, /) -> Never:
        raise RuntimeError(f"{record!r} in a transaction of producer {producer_id}")

    def replay_marker(self, producer_id: int, kind: MarkerKind, /) -> Never:
        raise RuntimeError(f"a marker ({kind.name}) of producer {producer_id}")
