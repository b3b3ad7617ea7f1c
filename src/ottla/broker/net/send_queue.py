"""The queue of bytes and file slices that a connection has to send.

Only the head of the queue is written. Bytes go to the transport. A slice goes from the page cache
to the socket (sendfile), a piece at a time, and only while the transport's own buffer is empty:
this keeps the order. uvloop keeps the buffers that it gets without a copy, so none is reused here.
"""

import asyncio
import errno
from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

from ottla.protocol.primitives import Part
from ottla.seams.net import NoSendFile, send_file
from ottla.seams.threads import Threads
from ottla.storage.log.file_slice import FileSlice

# Smaller slices are read and sent together with the bytes around them.
COPIED_BYTES_MAX = 32 << 10
# The bytes that are sent before other connections have their turn: a fraction of a ms.
TURN_BYTES_MAX = 256 << 10
SLICE_TURN_BYTES_MAX = 512 << 10
# The first and the last page of each such piece are checked for the page cache.
WARM_CHECK_BYTES = 1 << 20
# The bytes of one read from the disk into the page cache.
WARMED_BYTES = 1 << 20
CHUNK_BYTES = 64 << 10
# The bytes behind a slice that are read ahead with it: the client's next fetch makes the log scan
# the headers there, on the event loop.
READ_AHEAD_BYTES = 64 << 10


Content = TypeVar("Content", bytes, bytes | bytearray)


class SendQueue:
    """`put` parts, then `pump`. The owner forwards the transport's pauses."""

    __slots__ = (
        "_is_paused",
        "_is_waiting",
        "_loop",
        "_on_drained",
        "_parts",
        "_threads",
        "_transport",
        "_warm_end",
        "borrowed_bytes",
        "queued_bytes",
        "sent_bytes",
    )

    def __init__(
        self, transport: asyncio.Transport, threads: Threads, on_drained: Callable[[], None]
    ) -> None:
        # The transport pauses as soon as it buffers anything: a slice must wait for that.
        transport.set_write_buffer_limits(high=0)
        self._transport = transport
        self._threads = threads
        self._loop = asyncio.get_running_loop()
        self._on_drained = on_drained
        self._parts: deque[Part] = deque()
        self._is_paused = False
        self._is_waiting = False
        # The end of the part of the head's file that is known to be in the page cache.
        self._warm_end = 0
        self.queued_bytes = 0
        # The part of `queued_bytes` without memory of its own: file slices, and views.
        self.borrowed_bytes = 0
        self.sent_bytes = 0

    def put(self, parts: Iterable[Part]) -> None:
        for part in parts:
            size = len(part)
            if size:
                self._parts.append(part)
                self.queued_bytes += size
                if not isinstance(part, (bytes, bytearray)):
                    self.borrowed_bytes += size

    @property
    def unsent_bytes(self) -> int:
        """The memory of the responses that the client has not read, with the transport's buffer."""
        return self.queued_bytes - self.borrowed_bytes + self._transport.get_write_buffer_size()

    def drop(self) -> None:
        """Drops all parts, since the client has disconnected."""
        self._parts.clear()
        self.queued_bytes = self.borrowed_bytes = 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing is queued, so that a write goes to the socket at once."""
        return not (self._parts or self._is_paused or self._is_waiting)

    def write(self, reply: bytearray) -> None:
        """Sends a small response without the queue, which must be idle."""
        self.sent_bytes += len(reply)
        self._transport.write(reply)

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._pump_and_notify()

    def pump(self) -> bool:
        """Sends what can be sent now. True if the queue is empty then."""
        while self._parts and not (self._is_paused or self._is_waiting):
            if self._transport.is_closing():
                self._parts.clear()
                return False
            head = self._parts[0]
            if len(self._parts) == 1 and isinstance(head, (bytes, bytearray)):
                # The common case: one small response.
                self._parts.popleft()
                self.queued_bytes -= len(head)
                self.sent_bytes += len(head)
                self._transport.write(head)
                continue
            try:
                self._send_head()
            except OSError:
                # The file cannot be read, or the client has disconnected.
                self._abort()
                return False
        return not self._parts and not self._is_paused

    def _pump_and_notify(self) -> None:
        """As `pump`, but calls `on_drained` if the queue is empty then."""
        if self.pump():
            self._on_drained()

    def _send_head(self) -> None:
        """Sends the bytes of one turn: bytes with the small slices between them, or a slice."""
        copied = self._take_copied()
        if not copied:
            self._send_slice()
            return
        size = sum(map(len, copied))
        self._count(size)
        self._transport.writelines(copied)
        if size >= TURN_BYTES_MAX:
            self._yield()

    def _take_copied(self) -> list[bytes | bytearray | memoryview]:
        """The bytes, and the small slices as bytes, at the head of the queue."""
        taken: list[bytes | bytearray | memoryview] = []
        left = TURN_BYTES_MAX
        while self._parts and left > 0:
            part = self._parts[0]
            if isinstance(part, FileSlice):
                if part.size > COPIED_BYTES_MAX:
                    break
                if part.is_cut:
                    raise _cut_off(part)
                content = part.file.read_warm(part.position, part.size)
                if content is None:
                    break
                taken.append(_whole(part, content, part.size))
                self.borrowed_bytes -= part.size
            elif isinstance(part, memoryview):
                # The rest stays here: the transport's buffer counts as unread by the client.
                taken.append(part[:left])
                self.borrowed_bytes -= len(taken[-1])
                if len(part) > left:
                    self._parts[0] = part[left:]
                    break
            elif isinstance(part, bytes | bytearray):
                taken.append(part)
            else:
                raise TypeError(f"{type(part).__name__} cannot be sent")
            self._parts.popleft()
            left -= len(taken[-1])
        return taken

    def _send_slice(self) -> None:
        part = self._parts[0]
        if not isinstance(part, FileSlice):
            raise TypeError("the head of the queue is no slice")
        if part.is_cut:
            raise _cut_off(part)
        size = min(part.size, SLICE_TURN_BYTES_MAX)
        # A small slice gets here only if it is not in the page cache.
        if part.position + size > self._warm_end and (
            part.size <= COPIED_BYTES_MAX or not self._is_warm(part)
        ):
            self._warm(part)
            return
        try:
            sent = send_file(self._transport, part.file, part.position, size)
        except NoSendFile:
            self._copy(part, TURN_BYTES_MAX)
            return
        except BlockingIOError:
            # The transport watches the socket only for bytes that are written to it.
            self._copy(part, CHUNK_BYTES)
            return
        if sent == 0:
            raise _cut_off(part)
        self._advance(part, sent)
        self._yield()

    def _is_warm(self, part: FileSlice) -> bool:
        end = part.position + min(part.size, WARM_CHECK_BYTES)
        is_warm = part.file.is_warm
        if not (
            is_warm(part.position) and is_warm(end - 1) and is_warm(end - 1 + READ_AHEAD_BYTES)
        ):
            return False
        self._warm_end = end
        return True

    def _copy(self, part: FileSlice, bytes_max: int) -> None:
        size = min(part.size, bytes_max)
        self._transport.write(_read_whole(part, size))
        self._advance(part, size)
        if size == TURN_BYTES_MAX:
            self._yield()

    def _advance(self, part: FileSlice, sent: int) -> None:
        self._count(sent)
        self.borrowed_bytes -= sent
        if sent == part.size:
            self._parts.popleft()
            self._warm_end = 0
        else:
            self._parts[0] = part.without(sent)

    def _count(self, sent: int) -> None:
        self.queued_bytes -= sent
        self.sent_bytes += sent

    def _yield(self) -> None:
        """Lets other connections have their turn before the rest is sent."""
        if self._parts:
            self._is_waiting = True
            self._loop.call_soon(self._go_on)

    def _warm(self, part: FileSlice) -> None:
        """Reads a piece into the page cache in a thread, so that the loop does not block."""
        size = min(part.size, WARMED_BYTES)
        self._is_waiting = True
        task = self._loop.create_task(
            self._threads.run(lambda: part.file.warm(part.position, size + READ_AHEAD_BYTES)),
            name="warm",
        )
        task.add_done_callback(lambda done: self._warmed(part.position + size, done))

    def _warmed(self, end: int, done: asyncio.Task[None]) -> None:
        self._is_waiting = False
        if done.cancelled() or self._transport.is_closing() or not self._parts:
            return
        if done.exception() is not None:
            self._abort()
            return
        self._warm_end = end
        self._pump_and_notify()

    def _abort(self) -> None:
        """Ends the connection, since the rest of the response cannot be sent."""
        self._transport.abort()
        self._parts.clear()

    def _go_on(self) -> None:
        self._is_waiting = False
        self._pump_and_notify()


def _read_whole(part: FileSlice, size: int) -> bytes:
    """The first `size` bytes of a slice. OSError if its file ends before it does."""
    content = part.file.read_at(part.position, size)
    return _whole(part, content, size)


def _whole(part: FileSlice, content: Content, size: int) -> Content:
    if len(content) < size:
        raise _cut_off(part)
    return content


def _cut_off(part: FileSlice) -> OSError:
    return OSError(errno.EIO, "the file was truncated before the slice ends", part.file.path)
