"""What a shard asks of the state machine inside it, which does no I/O."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from ottla.coordinators.runtime.decision import Decision

if TYPE_CHECKING:
    from ottla.coordinators.group.records import Record


class Machine(Protocol):
    """A shard's state: it decides, and changes by `replay`."""

    def encode(self, record: "Record") -> tuple[bytes, bytes | None]:
        """A record's key and value in the log."""
        ...

    def decode(self, key: bytes, value: bytes | None) -> "Record | None":
        """The record, or None if it is of a kind that is not known. StorageError if damaged."""
        ...

    def replay(self, record: "Record") -> None: ...

    def loaded(self, now_ms: int) -> Iterator[Decision]:
        """All there is was replayed: what follows from it, a part at a time."""
        ...

    def expired(self, timer_key: str, now_ms: int) -> Decision:
        """A timer is due that a decision set."""
        ...
