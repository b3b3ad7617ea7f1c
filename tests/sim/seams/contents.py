"""What a simulated file holds: what reads see now, and what of it has reached the medium.

The durable content is not kept as a second copy. A file keeps its unsynced changes, each with what
it takes to undo it; undoing them all gives what the medium holds. Only a file whose sync failed
has a separate durable content, because from then on the two differ for good.
"""

from typing import Protocol

PAGE_BYTES = 4096


class Content:
    """Bytes with a size. What lies beyond the last byte written is a hole, and reads as zeros."""

    __slots__ = ("size", "stored")

    def __init__(self, stored: bytes | bytearray = b"", size: int = 0) -> None:
        self.stored = bytearray(stored)
        self.size = max(size, len(stored))

    def copy(self) -> "Content":
        return Content(self.stored, self.size)

    def read(self, position: int, size: int) -> bytes:
        end = min(position + size, self.size)
        if position >= end:
            return b""
        found = bytes(self.stored[position:end])
        return found + bytes(end - position - len(found))

    def write(self, position: int, written: bytes) -> None:
        if not written:
            return
        if position > len(self.stored):
            self.stored.extend(bytes(position - len(self.stored)))
        self.stored[position : position + len(written)] = written
        self.size = max(self.size, len(self.stored))

    def truncate(self, size: int) -> None:
        del self.stored[size:]
        self.size = size

    def extend(self, size: int) -> None:
        """Grows to `size` with zeros; never shrinks."""
        self.size = max(self.size, size)


class Change(Protocol):
    """One unsynced change of a file's content."""

    def apply(self, content: Content) -> None: ...

    def undo(self, content: Content) -> None:
        """Takes the change back from the content it was recorded on, newest change first."""
        ...


class Write:
    __slots__ = ("_overwritten", "_size_before", "_stored_before", "position", "written")

    def __init__(self, before: Content, position: int, written: bytes) -> None:
        self.position = position
        self.written = written
        self._overwritten = bytes(before.stored[position : position + len(written)])
        self._stored_before = len(before.stored)
        self._size_before = before.size

    @property
    def end(self) -> int:
        return self.position + len(self.written)

    def apply(self, content: Content) -> None:
        content.write(self.position, self.written)

    def undo(self, content: Content) -> None:
        end = self.position + len(self._overwritten)
        content.stored[self.position : end] = self._overwritten
        del content.stored[self._stored_before :]
        content.size = self._size_before


class Truncate:
    __slots__ = ("_cut", "_size_before", "size")

    def __init__(self, before: Content, size: int) -> None:
        self.size = size
        self._cut = bytes(before.stored[size:])
        self._size_before = before.size

    def apply(self, content: Content) -> None:
        content.truncate(self.size)

    def undo(self, content: Content) -> None:
        content.stored.extend(self._cut)
        content.size = self._size_before


class FileNode:
    """One file, whatever its names: its content, its unsynced changes, who has it open."""

    __slots__ = (
        "_diverged",
        "cold_pages",
        "content",
        "handles",
        "linked",
        "locked",
        "number",
        "unsynced",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.content = Content()
        self.unsynced: list[Change] = []
        self.handles = 0
        self.linked = True
        self.locked = False
        # Those that are not in the page cache.
        self.cold_pages: set[int] = set()
        # What the medium holds, once a failed sync has left it behind for good.
        self._diverged: Content | None = None

    def write(self, position: int, written: bytes) -> None:
        self.unsynced.append(Write(self.content, position, written))
        self.content.write(position, written)
        self.warm(position, len(written))

    def truncate(self, size: int) -> None:
        self.unsynced.append(Truncate(self.content, size))
        self.content.truncate(size)
        self.cold_pages = {page for page in self.cold_pages if page * PAGE_BYTES < size}

    def chill(self) -> None:
        """The page cache has none of it any more."""
        self.cold_pages = set(range(-(-self.content.size // PAGE_BYTES)))

    def is_cold(self, position: int, size: int) -> bool:
        """Whether somebody who reads here waits for the disk."""
        return bool(self.cold_pages) and not self.cold_pages.isdisjoint(_pages(position, size))

    def warm(self, position: int, size: int) -> int:
        """The pages are in the page cache from now on; how many were not."""
        if not self.cold_pages:
            return 0
        cold = self.cold_pages.intersection(_pages(position, size))
        self.cold_pages -= cold
        return len(cold)

    def sync(self) -> None:
        """Every change since the last sync, failed or not, is durable."""
        if self._diverged is not None:
            for change in self.unsynced:
                change.apply(self._diverged)
        self.unsynced.clear()

    def fail_sync(self) -> None:
        """The kernel drops what it could not write: reads still see it, no later sync saves it."""
        self._diverged = self.durable()
        self.unsynced.clear()

    def durable(self) -> Content:
        """A copy of what the medium holds for certain."""
        if self._diverged is not None:
            return self._diverged.copy()
        content = self.content.copy()
        for change in reversed(self.unsynced):
            change.undo(content)
        return content

    def settle(self, content: Content) -> None:
        """After a power loss: `content` is all there is, and all of it durable."""
        self.content = content
        self.unsynced.clear()
        self._diverged = None
        self.cold_pages.clear()
        self.handles = 0
        self.linked = True
        self.locked = False

    def flip_bit(self, position: int, bit: int) -> None:
        """Damages a byte where it lies: in what reads see, and on the medium if it is there."""
        for content in (self.content, self._diverged):
            if content is not None and position < len(content.stored):
                content.stored[position] ^= 1 << bit


def _pages(position: int, size: int) -> range:
    return range(position // PAGE_BYTES, -(-(position + size) // PAGE_BYTES))
