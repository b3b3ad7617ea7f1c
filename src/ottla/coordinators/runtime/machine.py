"""The interface between a shard and the state machine inside it, which does no I/O."""

from collections.abc import Iterator
from typing import Protocol, TypeVar

from ottla.coordinators.runtime.decision import Decision

RecordT = TypeVar("RecordT")
EffectT_co = TypeVar("EffectT_co", covariant=True)


class Machine(Protocol[RecordT, EffectT_co]):
    """A shard's state. It decides, and changes what lasts of it by `replay` alone."""

    def encode(self, record: RecordT, /) -> tuple[bytes, bytes | None]:
        """A record's key and value in the log."""
        ...

    def decode(self, key: bytes, value: bytes | None, /) -> RecordT | None:
        """The record, or None if it is of a kind that is not known. StorageError if damaged."""
        ...

    def replay(self, record: RecordT, /) -> None: ...

    def loaded(self, now_ms: int, /) -> Iterator[Decision[RecordT, EffectT_co]]:
        """The log was replayed to its end: what follows from it, one part at a time.

        Effects that an earlier shard may not have performed are decided again here.
        """
        ...

    def expired(self, timer_key: str, now_ms: int, /) -> Decision[RecordT, EffectT_co]:
        """A timer is due that a decision set."""
        ...
