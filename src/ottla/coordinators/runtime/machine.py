"""The interface between a shard and its state machine, which does no I/O."""

from collections.abc import Iterator
from typing import Protocol, TypeVar

from ottla.coordinators.runtime.decision import Decision

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

    def loaded(self, now_ms: int, /) -> Iterator[Decision[RecordT, EffectT_co]]:
        """The log was replayed to its end: the decisions that follow, one at a time.

        They repeat the effects that an earlier shard may not have performed.
        """
        ...

    def timer_expired(self, timer_key: str, now_ms: int, /) -> Decision[RecordT, EffectT_co]:
        """A timer that a decision has set is due."""
        ...
