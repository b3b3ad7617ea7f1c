"""One client's connection: bytes in, requests one after another, replies in their order.

As with Kafka a connection has one request under way: the next is looked at once the reply to the
one before it is queued. What arrives meanwhile stays where it is, in the kernel, so a client that
sends without end, or never reads its answers, fills its own buffers and nobody else's.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple, Protocol, cast

from ottla.broker.net.receive_buffer import FrameReceiver
from ottla.broker.net.send_queue import SendQueue
from ottla.broker.net.session import Session
from ottla.errors import PeerError
from ottla.protocol.primitives import Part
from ottla.seams.threads import Threads

# After this much of one connection the others have their turn.
TURN_BYTES_MAX = 256 << 10
# While more than this waits to be sent, nothing more is read.
UNSENT_BYTES_MAX = 1 << 20
# What is read at once, and held in any case, while requests take all the memory that they may.
CROWDED_BYTES_MAX = 16 << 10

Reply = list[Part] | None


class Later(NamedTuple):
    """A reply that comes with a future, and what makes it of the future once that is done.

    It takes a fraction of the time of an awaitable, which needs a task.
    """

    future: "asyncio.Future[Any]"
    finish: Callable[["asyncio.Future[Any]"], Reply]


class FrameHandler(Protocol):
    """Decides about each frame of a connection. The session names the one in force."""

    def handle(
        self, frame: memoryview, connection: "Connection"
    ) -> Reply | Later | Awaitable[Reply]:
        """No reply (None), a reply, or one that will come. PeerError ends the connection.

        `frame` is good until this returns.
        """
        ...

    def gather(self, frame: memoryview, connection: "Connection") -> bool:
        """Whether the frame is kept, to be handled together with those of other connections.

        The connection hears of it by `settle`, before the next turn of the loop is over.
        """
        ...

    def gather_silent(self, frame: memoryview, connection: "Connection") -> bool:
        """As `gather`, but only of what wants no reply: any number of those may wait."""
        ...


class Requests(FrameHandler, Protocol):
    """Handles the frames of a node: the handler of a session that is not restricted."""

    def settle_gathered(self) -> None:
        """Handles what was gathered now."""
        ...

    def failed(self, error: Exception) -> None:
        """Our own fault: nothing goes on after it."""
        ...


class Watch(Protocol):
    """Who counts the connections and what they hold."""

    def opened(self, connection: "Connection") -> bool:
        """Whether one more is taken."""
        ...

    def closed(self, connection: "Connection") -> None: ...

    def ended(self, connection: "Connection", reason: str, error: str) -> None:
        """The broker ends a connection: somebody will want to know why."""
        ...

    def holds(self, connection: "Connection", before: int, after: int) -> bool:
        """A connection now holds so many bytes of unfinished requests; whether it may read on.

        If not, its `go_on` is called once there is room.
        """
        ...

    @property
    def is_full(self) -> bool:
        """Whether unfinished requests take all the memory that they may."""
        ...

    def unsent(self, connection: "Connection", unsent_bytes: int) -> None:
        """The replies that a client has not taken take so much memory now."""
        ...

    @property
    def is_crowded(self) -> bool:
        """Whether such replies take much of the memory that they may.

        Then no client gets a reply before it has taken the ones before it.
        """
        ...

    @property
    def now_ns(self) -> Callable[[], int]:
        """Asked for every read: so once for whom to ask."""
        ...


class Connection(asyncio.BufferedProtocol):
    """Made by a listener for each client."""

    def __init__(
        self,
        requests: Requests,
        watch: Watch,
        threads: Threads,
        scratch: memoryview,
        session: Session,
        *,
        frame_bytes_max: int,
    ) -> None:
        self.session = session
        self._now_ns = watch.now_ns
        self.last_active_ns = self._now_ns()
        self._requests = requests
        self._watch = watch
        self._threads = threads
        self._receiver = FrameReceiver(scratch, frame_bytes_max)
        self._scratch = scratch
        self._backlog: deque[bytearray] = deque()
        self._pending: asyncio.Future[Any] | None = None
        self._is_gathered = False
        # The last request wanted no reply: those of whoever sends such ones come in great numbers.
        self._was_silent = False
        self._held_bytes = 0
        self._turn_bytes = 0
        self._had_its_turn = False
        self._is_reading = True
        self._may_hold_more = True
        # As told to the watch.
        self._unsent_bytes = 0
        self._was_taken = False
        self._transport: asyncio.Transport | None = None
        self._send: SendQueue | None = None

    # What the transport says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast("asyncio.Transport", transport)
        self._transport = stream
        session = self.session
        session.peer_host = (stream.get_extra_info("peername") or ("", 0))[0]
        session.local_address = (stream.get_extra_info("sockname") or ("", 0))[:2]
        self._was_taken = self._watch.opened(self)
        if not self._was_taken:
            stream.abort()
            return
        self._send = SendQueue(stream, self._threads, self._drained)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        if self._watch.is_full:
            return self._receiver.room()[:CROWDED_BYTES_MAX]
        return self._receiver.room() if self._receiver.held_bytes else self._scratch

    def buffer_updated(self, nbytes: int) -> None:
        self.last_active_ns = self._now_ns()
        self._turn_bytes += nbytes
        try:
            if self._is_gathered:
                # Replies keep their order.
                self._requests.settle_gathered()
            whole = self._receiver.whole(nbytes)
            if whole is None:
                for frame in self._receiver.frames(nbytes):
                    if not (self._was_silent and self._gather_silent(frame)):
                        self._handle(frame)
            elif (
                self._backlog
                or self._pending is not None
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
            self._tell_unsent()

    def resume_writing(self) -> None:
        self.last_active_ns = self._now_ns()
        if self._send:
            self._send.resume()
            self._tell_unsent()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        if self._pending:
            # After its first step: what it is about to await would else never be awaited.
            asyncio.get_running_loop().call_soon(self._pending.cancel)
        self._backlog.clear()
        self._receiver.drop()
        if self._send:
            self._send.drop()
        self._watch.unsent(self, 0)
        self._watch.holds(self, self._held_bytes, 0)
        if self._was_taken:
            self._watch.closed(self)
        # They refer to this connection in turn: only the collector would find that all are done
        # with, and it looks seldom.
        self._transport = self._send = None

    # What the broker says

    @property
    def held_bytes(self) -> int:
        """The memory that unfinished requests take."""
        return self._held_bytes

    @property
    def received_bytes(self) -> int:
        """What came of the request that is arriving."""
        return self._receiver.received_bytes

    @property
    def is_receiving(self) -> bool:
        """Whether a request is arriving, and nothing of ours holds it up."""
        return self._receiver.held_bytes > 0 and self._pending is None and not self._backlog

    def end(self, reason: str, error: Exception | str = "") -> None:
        """Ends the connection at once, for a reason."""
        if self._transport and not self._transport.is_closing():
            self._watch.ended(self, reason, str(error))
            self._transport.abort()

    def settle(self, outcome: bytearray | Reply | Later | Awaitable[Reply]) -> None:
        """What became of the frame that was gathered."""
        self._is_gathered = False
        if isinstance(outcome, bytearray) and self._send is not None and self._send.is_idle:
            # What nearly all of them are: one small reply, and nothing before it.
            self._send.write(outcome)
        elif outcome is not None:
            self._take([outcome] if isinstance(outcome, bytearray) else outcome)
            self._flush()
            return
        if self._turn_bytes > TURN_BYTES_MAX:
            self._steer()

    def go_on(self) -> None:
        """There is room again for what this connection wanted to hold."""
        self._may_hold_more = True
        self._steer()

    # One request after another

    @property
    def _is_busy(self) -> bool:
        """Whether the next request has to wait: for a reply, or for the client to take some."""
        return self._pending is not None or not self._takes_replies

    @property
    def _takes_replies(self) -> bool:
        """Whether the client has taken enough of its replies to get more of them."""
        send = self._send
        return send is None or (
            send.queued_bytes <= UNSENT_BYTES_MAX and (send.is_idle or not self._watch.is_crowded)
        )

    def _tell_unsent(self) -> None:
        if self._send is None or self._transport is None or self._transport.is_closing():
            return
        unsent_bytes = self._send.unsent_bytes
        if unsent_bytes != self._unsent_bytes:
            self._unsent_bytes = unsent_bytes
            self._watch.unsent(self, unsent_bytes)

    def _gather_silent(self, frame: memoryview) -> bool:
        if self._backlog or self._is_busy or not self.session.handler.gather_silent(frame, self):
            return False
        self._is_gathered = True
        return True

    def _handle(self, frame: memoryview) -> None:
        if self._is_gathered:
            # What came before it on this connection is done before it.
            self._requests.settle_gathered()
        if self._backlog or self._is_busy:
            # Not as bytes: a produce may have to be stamped where it lies.
            self._backlog.append(bytearray(frame))
        else:
            outcome = self.session.handler.handle(frame, self)
            self._was_silent = outcome is None
            self._take(outcome)

    def _take(self, outcome: Reply | Later | Awaitable[Reply]) -> None:
        if outcome is None:
            return
        if isinstance(outcome, list):
            if self._send:
                self._send.put(outcome)
            return
        if isinstance(outcome, Later):
            self._pending = outcome.future
            outcome.future.add_done_callback(partial(self._take_done, outcome.finish))
            return
        self._pending = asyncio.get_running_loop().create_task(
            self._take_later(outcome), name="request"
        )

    async def _take_later(self, outcome: Awaitable[Reply]) -> None:
        """Sends a reply as soon as it is there, not a turn of the loop later."""
        try:
            reply = await outcome
        except PeerError as error:
            self.end("bad request", error)
            return
        except Exception as error:  # noqa: BLE001 - the task would swallow it
            # Told even if the client has gone meanwhile.
            self._requests.failed(error)
            return
        finally:
            self._pending = None
        self._go_on_with(reply)

    def _take_done(
        self, finish: Callable[["asyncio.Future[Any]"], Reply], future: "asyncio.Future[Any]"
    ) -> None:
        self._pending = None
        if future.cancelled():
            return  # the client has gone
        try:
            reply = finish(future)
        except Exception as error:  # noqa: BLE001 - the loop would only log it
            self._requests.failed(error)
            return
        self._go_on_with(reply)

    def _go_on_with(self, reply: Reply) -> None:
        """Sends what was waited for; then the next request has its turn."""
        if self._transport is not None and not self._transport.is_closing():
            if reply is not None and self._send:
                self._send.put(reply)
            self._work_off()

    def _drained(self) -> None:
        """Everything was sent: there is room for the replies to what waits."""
        if self._unsent_bytes:
            self._tell_unsent()
        if self._backlog and self._pending is None:
            asyncio.get_running_loop().call_soon(self._work_off)
        self._steer()

    def _work_off(self) -> None:
        """Goes on with what came while it was busy."""
        if self._transport is None or self._transport.is_closing():
            return
        try:
            while self._backlog and not self._is_busy:
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
        """The replies to everything that arrived together go out together."""
        held_bytes = self._receiver.held_bytes
        if self._backlog:
            held_bytes += sum(map(len, self._backlog))
        if held_bytes != self._held_bytes or (held_bytes and self._watch.is_full):
            self._may_hold_more = self._watch.holds(self, self._held_bytes, held_bytes)
            self._held_bytes = held_bytes
        if self._send is None or not self._send.pump():
            self._tell_unsent()
            self._steer()
        elif self._backlog or not self._is_reading or self._turn_bytes > TURN_BYTES_MAX:
            self._drained()
        elif not self._may_hold_more:
            self._steer()

    def _steer(self) -> None:
        """Reads while it should, and not while it should not."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._turn_bytes > TURN_BYTES_MAX and not self._had_its_turn:
            self._had_its_turn = True
            asyncio.get_running_loop().call_soon(self._next_turn)
        may_read = (
            self._may_hold_more
            and not self._had_its_turn
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
        """The others have been asked, too."""
        self._had_its_turn = False
        self._turn_bytes = 0
        self._steer()
