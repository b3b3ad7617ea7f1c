"""The responses of one connection that cannot be sent yet, in the order of their requests.

A response waits until it is there and all earlier ones are sent. Does no I/O.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from ottla.protocol.primitives import Part
from ottla.tuples import maker

# The most responses that wait for other replicas, and the memory of their requests.
WAITING_PRODUCES_MAX = 64
WAITING_PRODUCES_BYTES_MAX = 256 << 10

# An encoded response; None if the request gets none.
ResponseParts = list[Part] | None


class Awaited(Protocol):
    """What a response waits for: an asyncio future, or a promise."""

    def done(self) -> bool: ...

    def cancelled(self) -> bool: ...

    def cancel(self) -> object: ...

    def add_done_callback(self, callback: Callable[[Any], object], /) -> object: ...


class Promise:
    """As a future, but its one callback is called at once, not a turn of the event loop later."""

    __slots__ = ("_callback", "_is_cancelled", "_is_done", "response")

    def __init__(self) -> None:
        self._is_done = self._is_cancelled = False
        self._callback: Callable[[Any], object] | None = None
        self.response: ResponseParts = None

    def done(self) -> bool:
        return self._is_done

    def cancelled(self) -> bool:
        return self._is_cancelled

    def cancel(self) -> None:
        self._is_done = self._is_cancelled = True

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        self._callback = callback

    def keep(self, response: ResponseParts) -> None:
        """The response is there. Does nothing if it was cancelled."""
        if not self._is_done:
            self.response = response
            self._is_done = True
            if self._callback is not None:
                self._callback(self)


class PendingResponse(NamedTuple):
    """What a response waits for, and the function that makes the response then.

    Much cheaper than an awaitable, which needs a task.
    """

    future: Awaited
    # Called when all earlier responses are sent.
    finish: Callable[[Any], ResponseParts]
    # Called if the client disconnects before that; None cancels the future.
    cancel: Callable[[], object] | None = None
    # Whether it is of a produce request whose batches are appended, so that the next produce
    # request may be handled.
    is_appended: bool = False
    # The memory of an appended request.
    held_bytes: int = 0

    def abandon(self) -> None:
        """The client has disconnected."""
        (self.cancel or self.future.cancel)()


make_pending = maker(PendingResponse)


class ResponseQueue:
    """`add` every response that does not go out at once, then `pop_ready` whenever one is there."""

    __slots__ = ("held_bytes", "waiting")

    def __init__(self) -> None:
        # Lists are responses that only wait for their turn. Empty mostly, which is checked first.
        self.waiting: deque[PendingResponse | list[Part]] = deque()
        self.held_bytes = 0

    @property
    def takes_produce(self) -> bool:
        """Whether a produce request may be handled before all responses are sent."""
        queue = self.waiting
        if not queue:
            return True
        last = queue[-1]
        return (
            (isinstance(last, list) or last.is_appended)
            and len(queue) < WAITING_PRODUCES_MAX
            and self.held_bytes < WAITING_PRODUCES_BYTES_MAX
        )

    def add(self, response: PendingResponse | list[Part]) -> None:
        self.waiting.append(response)
        if isinstance(response, list):
            self.held_bytes += sum(map(len, response))
        else:
            self.held_bytes += response.held_bytes

    def pop_ready(self) -> PendingResponse | list[Part] | None:
        """Removes the first response if it is there. None if there is none."""
        if not self.waiting:
            return None
        first = self.waiting[0]
        if isinstance(first, list):
            self.held_bytes -= sum(map(len, first))
        else:
            future = first.future
            # Nothing is sent after a cancelled one: responses would miss their requests.
            if not future.done() or future.cancelled():
                return None
            self.held_bytes -= first.held_bytes
        return self.waiting.popleft()

    def drop(self) -> list[PendingResponse]:
        """Removes all responses. Returns the pending ones, which the caller abandons."""
        dropped = [each for each in self.waiting if not isinstance(each, list)]
        self.waiting.clear()
        self.held_bytes = 0
        return dropped
