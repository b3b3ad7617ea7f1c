"""One flush of a log, apart from the log, so that a thread can run it."""

from collections.abc import Callable
from dataclasses import dataclass

from ottla.storage.segment import Unsynced


@dataclass(frozen=True, slots=True)
class Flush:
    """What must be made durable, in this order, before the recovery point may be `end_offset`.

    `run` touches only open files, so it may be done in a thread.
    """

    end_offset: int
    truncations: int
    messages: int
    unsynced: tuple[Unsynced, ...]
    sync_names: Callable[[], None] | None

    def run(self) -> None:
        for item in self.unsynced:
            item.file.sync()
        if self.sync_names:
            self.sync_names()
