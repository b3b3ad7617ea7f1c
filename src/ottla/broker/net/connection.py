"""A client's connection: handles its requests one after another and sends responses in order.

As in Kafka a connection has one request in flight: the next request is handled when the response to
the one before it is queued. Later bytes stay in the kernel. A client that sends without end, or
never reads its responses, fills its own socket buffers, not the broker's memory.

Produce requests are the exception. One that waits for nothing but other replicas has its place in
the log, so the produce request behind it is handled meanwhile. Its response waits for its turn.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol, cast

from ottla.broker.net.receive_buffer import FrameReceiver
from ottla.broker.net.response_queue import PendingResponse, ResponseParts, ResponseQueue
from ottla.broker.net.send_queue import SendQueue
from ottla.broker.net.session import Session
from ottla.errors import PeerError
from ottla.seams.threads import Threads

# The bytes that one connection may send before other connections have their turn.
TURN_BYTES_MAX = 256 << 10
# The connection reads nothing while more response bytes than this are queued.
UNSENT_BYTES_MAX = 1 << 20
# The limit per read while the memory for requests is full. A connection may always hold this much.
CROWDED_BYTES_MAX = 16 << 10

# The API key of Produce, as it begins a frame.
PRODUCE_PREFIX = bytes(2)


class FrameHandler(Protocol):
    """Handles the frames of a connection. The session has the current handler."""

    def handle(
        self, frame: memoryview, connection: "Connection"
    ) -> ResponseParts | PendingResponse | Awaitable[ResponseParts]:
        """The response, None if there is none, or an awaitable. PeerError ends the connection.

        `frame` is valid until this returns.
        """
        ...

    def gather(self, frame: memoryview, connection: "Connection") -> bool:
        """Whether the frame is kept, to be handled together with frames of other connections.

        The connection gets the outcome by `settle` in the next turn of the event loop.
        """
        ...

    def gather_silent(self, frame: memoryview, connection: "Connection") -> bool:
        """As `gather`, but only for requests without a response. Any number of them may wait."""
        ...


class RequestDispatcher(FrameHandler, Protocol):
    """The frame handler of a node, for sessions without restrictions."""

    def settle_gathered(self) -> None:
        """Handles all gathered frames now."""
        ...

    def failed(self, error: Exception) -> None:
        """Reports a bug, which ends the broker."""
        ...


class ConnectionTracker(Protocol):
    """Counts the connections of a node and their memory, and enforces the limits."""

    def opened(self, connection: "Connection") -> bool:
        """Whether the connection is accepted."""
        ...

    def closed(self, connection: "Connection") -> None: ...

    def ended(self, connection: "Connection", reason: str, error: str) -> None:
        """Logs and counts that the broker ends a connection."""
        ...

    def update_held_bytes(self, connection: "Connection", before: int, after: int) -> bool:
        """Updates the memory of a connection's unfinished requests; whether it may read more.

        If not, its `resume` is called when there is memory again.
        """
        ...

    @property
    def is_request_memory_full(self) -> bool:
        """Whether unfinished requests use all the memory that they may."""
        ...

    def update_unsent_bytes(self, connection: "Connection", unsent_bytes: int) -> None:
        """Updates the memory of the responses that a client has not read."""
        ...

    @property
    def is_response_memory_scarce(self) -> bool:
        """Whether unread responses use much of the memory that they may.

        Then a client gets no response before it has read the ones before it.
        """
        ...

    @property
    def now_ns(self) -> Callable[[], int]:
        """The clock. Called on every read, so connections bind it once."""
        ...


class Connection(asyncio.BufferedProtocol):
    """The transport's protocol, one per client connection."""

    def __init__(
        self,
        requests: RequestDispatcher,
        tracker: ConnectionTracker,
        threads: Threads,
        scratch: memoryview,
        session: Session,
        *,
        frame_bytes_max: int,
    ) -> None:
        self.session = session
        self._now_ns = tracker.now_ns
        self.last_active_ns = self._now_ns()
        self._requests = requests
        self._tracker = tracker
        self._threads = threads
        self._receiver = FrameReceiver(scratch, frame_bytes_max)
        self._scratch = scratch
        self._backlog: deque[bytearray] = deque()
        self._responses = ResponseQueue()
        self._is_gathered = False
        # The last request got no response (acks=0). More of them are likely to follow.
        self._was_silent = False
        self._held_bytes = 0
        self._turn_bytes = 0
        self._is_turn_over = False
        self._is_reading = True
        self._may_hold_more = True
        # A quota is used up: no request is handled.
        self.is_muted = False
        # The last value that the tracker got.
        self._unsent_bytes = 0
        self._was_taken = False
        self._transport: asyncio.Transport | None = None
        self._send: SendQueue | None = None

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast("asyncio.Transport", transport)
        self._transport = stream
        session = self.session
        session.peer_host = (stream.get_extra_info("peername") or ("", 0))[0]
        session.local_address = (stream.get_extra_info("sockname") or ("", 0))[:2]
        self._was_taken = self._tracker.opened(self)
        if not self._was_taken:
            stream.abort()
            return
        self._send = SendQueue(stream, self._threads, self._drained)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        if self._tracker.is_request_memory_full:
            return self._receiver.room()[:CROWDED_BYTES_MAX]
        return self._receiver.room() if self._receiver.held_bytes else self._scratch

    def buffer_updated(self, nbytes: int) -> None:
        self.last_active_ns = self._now_ns()
        self._turn_bytes += nbytes
        try:
            if self._is_gathered:
                # Responses keep the order of their requests.
                self._requests.settle_gathered()
            whole = self._receiver.whole(nbytes)
            if whole is None:
                for frame in self._receiver.frames(nbytes):
                    if not (self._was_silent and self._gather_silent(frame)):
                        self._handle(frame)
            elif (
                self._backlog
                or (self._responses.waiting and not self._may_overtake(whole))
                or not self.session.handler.gather(whole, self)
            ):
                self._handle(whole)
            else:
                self._is_gathered = True
                return
        except PeerError as error:
            self.end("bad request", error)
            return
        except Exception as error:  # noqa: BLE001 - a transport would swallow it
            self._requests.failed(error)
            return
        self._flush()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        if self._send:
            self._send.pause()
            self._report_unsent()

    def resume_writing(self) -> None:
        self.last_active_ns = self._now_ns()
        if self._send:
            self._send.resume()
            self._report_unsent()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        for pending in self._responses.drop():
            # After a task's first step: a coroutine that never starts causes a warning.
            asyncio.get_running_loop().call_soon(pending.abandon)
        self._backlog.clear()
        self._receiver.drop()
        if self._send:
            self._send.drop()
        self._tracker.update_unsent_bytes(self, 0)
        self._tracker.update_held_bytes(self, self._held_bytes, 0)
        if self._was_taken:
            self._tracker.closed(self)
        # Breaks reference cycles: the garbage collector, which would find them, runs seldom.
        self._transport = self._send = None

    # Called by the broker

    @property
    def held_bytes(self) -> int:
        """The memory of unfinished requests."""
        return self._held_bytes

    @property
    def received_bytes(self) -> int:
        """The bytes that have arrived of an incomplete request."""
        return self._receiver.received_bytes

    @property
    def is_receiving(self) -> bool:
        """Whether a request is incomplete because of the client, and not because we do not read."""
        return self._receiver.held_bytes > 0 and not self._responses.waiting and not self._backlog

    def end(self, reason: str, error: Exception | str = "") -> None:
        """Closes the connection at once, and logs the reason."""
        if self._transport and not self._transport.is_closing():
            self._tracker.ended(self, reason, str(error))
            self._transport.abort()

    def settle(
        self, outcome: bytearray | ResponseParts | PendingResponse | Awaitable[ResponseParts]
    ) -> None:
        """Takes the outcome of the gathered frame."""
        self._is_gathered = False
        if (
            isinstance(outcome, bytearray)
            and self._send is not None
            and self._send.is_idle
            and not self._responses.waiting
        ):
            # The common case: one small response, and nothing queued before it.
            self._send.write(outcome)
        elif isinstance(outcome, PendingResponse) and self._transport is not None:
            self._wait_for(outcome)
            if self._held_bytes or self._responses.held_bytes > CROWDED_BYTES_MAX:
                self._flush()
                return
        elif outcome is not None:
            self._take([outcome] if isinstance(outcome, bytearray) else outcome)
            self._flush()
            return
        if self._turn_bytes > TURN_BYTES_MAX:
            self._pause_or_resume()

    def resume(self) -> None:
        """There is memory again for this connection's requests."""
        self._may_hold_more = True
        self._pause_or_resume()

    def mute(self, seconds: float) -> None:
        """Handles no further request for this time. Responses are still sent."""
        self.is_muted = True
        asyncio.get_running_loop().call_later(seconds, self._unmute)

    # One request after another

    def _is_busy(self, frame: bytes | bytearray | memoryview) -> bool:
        """Whether a request has to wait: for responses, a quota or the client to read."""
        return (
            self.is_muted
            or not self._takes_replies
            or (len(self._responses.waiting) > 0 and not self._may_overtake(frame))
        )

    def _may_overtake(self, frame: bytes | bytearray | memoryview) -> bool:
        """Whether a request may be handled before the responses that are waited for are sent."""
        return frame[:2] == PRODUCE_PREFIX and self._responses.takes_produce

    @property
    def _takes_replies(self) -> bool:
        """Whether the client has read enough of its responses to get more."""
        send = self._send
        return send is None or (
            send.queued_bytes <= UNSENT_BYTES_MAX
            and (send.is_idle or not self._tracker.is_response_memory_scarce)
        )

    def _report_unsent(self) -> None:
        if self._send is None or self._transport is None or self._transport.is_closing():
            return
        unsent_bytes = self._send.unsent_bytes
        if unsent_bytes != self._unsent_bytes:
            self._unsent_bytes = unsent_bytes
            self._tracker.update_unsent_bytes(self, unsent_bytes)

    def _gather_silent(self, frame: memoryview) -> bool:
        if (
            self._backlog
            or self._is_busy(frame)
            or not self.session.handler.gather_silent(frame, self)
        ):
            return False
        self._is_gathered = True
        return True

    def _handle(self, frame: memoryview) -> None:
        if self._is_gathered:
            # Requests of a connection are handled in their order.
            self._requests.settle_gathered()
        if self._backlog or self._is_busy(frame):
            # A bytearray, since produce writes offsets into the batch in place.
            self._backlog.append(bytearray(frame))
        else:
            outcome = self.session.handler.handle(frame, self)
            self._was_silent = outcome is None
            self._take(outcome)

    def _take(self, outcome: ResponseParts | PendingResponse | Awaitable[ResponseParts]) -> None:
        if outcome is None:
            return
        if isinstance(outcome, list):
            if self._responses.waiting:
                self._responses.add(outcome)
            elif self._send:
                self._send.put(outcome)
        elif isinstance(outcome, PendingResponse):
            if self._transport is None:
                outcome.abandon()  # the client has disconnected while its request was gathered
                return
            self._wait_for(outcome)
        else:
            loop = asyncio.get_running_loop()
            answered: asyncio.Future[ResponseParts] = loop.create_future()
            task = loop.create_task(self._take_later(outcome, answered), name="request")
            self._responses.add(PendingResponse(answered, asyncio.Future.result, task.cancel))

    def _wait_for(self, pending: PendingResponse) -> None:
        self._responses.add(pending)
        pending.future.add_done_callback(self._send_ready)

    async def _take_later(
        self, outcome: Awaitable[ResponseParts], answered: "asyncio.Future[ResponseParts]"
    ) -> None:
        """Sends a response when it is there, not a turn of the event loop later."""
        try:
            answered.set_result(await outcome)
        except PeerError as error:
            self.end("bad request", error)
        except Exception as error:  # noqa: BLE001 - the task would swallow it
            # Reported even if the client has disconnected.
            self._requests.failed(error)
        else:
            self._send_ready(answered)

    def _send_ready(self, _done: object) -> None:
        """Sends the responses that are there, in their order, and handles the next requests."""
        if self._transport is None or self._transport.is_closing():
            return
        responses, is_any = self._responses, False
        try:
            while responses.waiting and (response := responses.pop_ready()) is not None:
                is_any = True
                if isinstance(response, PendingResponse):
                    response = response.finish(response.future)
                if response is not None and self._send:
                    self._send.put(response)
        except Exception as error:  # noqa: BLE001 - the loop would only log it
            self._requests.failed(error)
            return
        if self._backlog and is_any:
            self._handle_backlog()
        elif is_any:
            self._flush()

    def _drained(self) -> None:
        """Everything was sent: the next responses may be queued."""
        if self._unsent_bytes:
            self._report_unsent()
        if self._backlog and not self._is_busy(self._backlog[0]):
            asyncio.get_running_loop().call_soon(self._handle_backlog)
        self._pause_or_resume()

    def _unmute(self) -> None:
        self.is_muted = False
        self._handle_backlog()

    def _handle_backlog(self) -> None:
        """Handles the requests that arrived while the connection was busy."""
        if self._transport is None or self._transport.is_closing():
            return
        try:
            while self._backlog and not self._is_busy(self._backlog[0]):
                frame = memoryview(self._backlog.popleft())
                self._take(self.session.handler.handle(frame, self))
        except PeerError as fault:
            self.end("bad request", fault)
            return
        except Exception as fault:  # noqa: BLE001 - the loop would only log it
            self._requests.failed(fault)
            return
        self._flush()

    def _flush(self) -> None:
        """Sends the responses to all requests that arrived together."""
        held_bytes = self._receiver.held_bytes
        if self._backlog:
            held_bytes += sum(map(len, self._backlog))
        if self._responses.held_bytes > CROWDED_BYTES_MAX:
            held_bytes += self._responses.held_bytes
        if held_bytes != self._held_bytes or (held_bytes and self._tracker.is_request_memory_full):
            self._may_hold_more = self._tracker.update_held_bytes(
                self, self._held_bytes, held_bytes
            )
            self._held_bytes = held_bytes
        if self._send is None or not self._send.pump():
            self._report_unsent()
            self._pause_or_resume()
        elif self._backlog or not self._is_reading or self._turn_bytes > TURN_BYTES_MAX:
            self._drained()
        elif not self._may_hold_more:
            self._pause_or_resume()

    def _pause_or_resume(self) -> None:
        """Pauses or resumes reading, as the limits demand."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._turn_bytes > TURN_BYTES_MAX and not self._is_turn_over:
            self._is_turn_over = True
            asyncio.get_running_loop().call_soon(self._next_turn)
        may_read = (
            self._may_hold_more
            and not self._is_turn_over
            and not self._backlog
            and self._takes_replies
        )
        if may_read != self._is_reading:
            self._is_reading = may_read
            if may_read:
                transport.resume_reading()
            else:
                transport.pause_reading()

    def _next_turn(self) -> None:
        """The other connections had their turn."""
        self._is_turn_over = False
        self._turn_bytes = 0
        self._pause_or_resume()
