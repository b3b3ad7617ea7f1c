"""All connections of a node: their listeners, limits, shared memory and idle timeouts."""

import sys
from collections import Counter
from dataclasses import dataclass

from ottla.broker.event_log import Logger
from ottla.broker.net.connection import (
    CROWDED_BYTES_MAX,
    Connection,
    FrameHandler,
    RequestDispatcher,
)
from ottla.broker.net.receive_buffer import SCRATCH_BYTES
from ottla.broker.net.session import Session
from ottla.metrics.node import NodeMetrics
from ottla.seams.clock import Clock
from ottla.seams.net import Listener
from ottla.seams.threads import Threads
from ottla.settings.listeners import SecurityProtocol

# The time a request may take to arrive while other requests wait for its memory.
STUCK_MS_MAX = 10_000
STUCK_MS_PER_MIB = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """The values of the network settings."""

    frame_bytes_max: int
    queued_bytes_max: int
    unsent_bytes_max: int
    connections_max: int
    connections_max_per_ip: int
    idle_ms_max: int


class Connections:
    """All connections of a node. They share the limits and one receive buffer."""

    def __init__(
        self,
        *,
        clock: Clock,
        threads: Threads,
        limits: ConnectionLimits,
        metrics: NodeMetrics,
        logger: Logger,
    ) -> None:
        self._limits = limits
        self.held_bytes = 0
        # An attribute, since every read from a socket needs it.
        self.is_request_memory_full = False
        # The connections for which the process has file descriptors.
        self.descriptors_max = sys.maxsize
        self.now_ns = clock.steady_ns
        self._threads = threads
        self._metrics = metrics
        self._logger = logger
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        # Dicts, since they keep an order.
        self._open: dict[Connection, None] = {}
        self._by_host: Counter[str] = Counter()
        # The connections with a large incomplete request and its start, and those of them that wait
        # for memory.
        self._holders: dict[Connection, int] = {}
        self._waiting: dict[Connection, None] = {}
        # The memory of unread responses, in total and per connection that has any.
        self.unsent_bytes = 0
        self._unsent: dict[Connection, int] = {}
        # Whether that is more than half of the limit. An attribute, since every request reads it.
        self.is_response_memory_scarce = False
        self._is_closed = False
        # Handles the frames of new sessions, instead of the listener's dispatcher.
        self._handler: FrameHandler | None = None

    def __len__(self) -> int:
        return len(self._open)

    async def accept(
        self,
        listener: Listener,
        requests: RequestDispatcher,
        name: str,
        security_protocol: SecurityProtocol,
    ) -> None:
        """Accepts the connections of a listener. OSError if its port is in use."""

        def connect() -> Connection:
            return Connection(
                requests,
                self,
                self._threads,
                self._scratch,
                Session(self._handler or requests, name, security_protocol),
                frame_bytes_max=self.limits.frame_bytes_max,
            )

        await listener.accept(connect)

    def route_to(self, handler: FrameHandler) -> None:
        """Has the frames of all sessions handled by this handler from now on."""
        self._handler = handler
        for connection in self._open:
            connection.session.handler = handler

    def end_all(self, reason: str) -> None:
        """Ends all connections, also connections that the listener accepts later."""
        self._is_closed = True
        for connection in list(self._open):
            connection.end(reason)

    def end_idle(self) -> None:
        """Ends connections that neither sent nor read anything for too long.

        Ends slow requests sooner while other connections wait for memory.
        """
        oldest_ns = self.now_ns() - self.limits.idle_ms_max * 1_000_000
        for connection in [each for each in self._open if each.last_active_ns < oldest_ns]:
            connection.end("idle")
        if self._waiting:
            self._end_stuck()

    def _end_stuck(self) -> None:
        """Frees memory: ends connections whose request is overdue, the most overdue one first.

        The deadline grows with the bytes received: a byte now and then does not save a connection.
        """
        late = {}
        for connection, since_ns in self._holders.items():
            due_ns = since_ns + _arrival_ns_max(connection.received_bytes)
            if connection.is_receiving and due_ns < self.now_ns():
                late[connection] = due_ns
        missing_bytes = self.held_bytes - self.limits.queued_bytes_max
        for connection in sorted(late, key=late.__getitem__):
            if missing_bytes <= 0:
                return
            missing_bytes -= connection.held_bytes
            connection.end("stuck")

    # Called by connections

    def opened(self, connection: Connection) -> bool:
        if self._is_closed:
            return False
        host = connection.session.peer_host
        meter = self._metrics.listener(connection.session.listener)
        reason = None
        if len(self._open) >= self.limits.connections_max:
            reason = "max.connections"
        elif len(self._open) >= self.descriptors_max:
            reason = "descriptors"
        elif self._by_host[host] >= self.limits.connections_max_per_ip:
            reason = "max.connections.per.ip"
        if reason:
            meter.refused.add(reason)
            self._logger.warning("connection refused", repeats_of=reason, reason=reason, peer=host)
            return False
        self._open[connection] = None
        self._by_host[host] += 1
        meter.accepted += 1
        meter.connections += 1
        return True

    def closed(self, connection: Connection) -> None:
        del self._open[connection]
        host = connection.session.peer_host
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]
        self._metrics.listener(connection.session.listener).connections -= 1

    def ended(self, connection: Connection, reason: str, error: str) -> None:
        self._metrics.listener(connection.session.listener).closed.add(reason)
        self._logger.info(
            "connection ended",
            repeats_of=reason,
            reason=reason,
            peer=connection.session.peer_host,
            error=error,
        )

    def update_held_bytes(self, connection: Connection, before: int, after: int) -> bool:
        self.held_bytes += after - before
        self.is_request_memory_full = self.held_bytes > self._limits.queued_bytes_max
        # Small requests never wait for the memory of large ones.
        if after > CROWDED_BYTES_MAX:
            self._holders.setdefault(connection, self.now_ns())
        else:
            self._holders.pop(connection, None)
            self._waiting.pop(connection, None)
        is_larger = connection in self._holders and after >= before
        if (
            is_larger
            and self.is_request_memory_full
            and len(self._holders) - len(self._waiting) > 1
        ):
            self._waiting[connection] = None
            return False
        # One connection always continues, or no request would ever finish.
        while self._waiting and (
            not self.is_request_memory_full or len(self._holders) == len(self._waiting)
        ):
            waiting = next(iter(self._waiting))
            del self._waiting[waiting]
            waiting.resume()
        return connection not in self._waiting

    def update_unsent_bytes(self, connection: Connection, unsent_bytes: int) -> None:
        self.unsent_bytes += unsent_bytes - self._unsent.pop(connection, 0)
        if unsent_bytes:
            self._unsent[connection] = unsent_bytes
        self._bound_unsent()

    def _bound_unsent(self) -> None:
        """Ends the connections with the most unread bytes; of equals, the one idle for longest.

        A single connection may exceed the limit, so that a response larger than it can be sent.
        """
        unsent = self._unsent
        while self.unsent_bytes > self._limits.unsent_bytes_max and len(unsent) > 1:
            largest = max(unsent, key=lambda each: (unsent[each], -each.last_active_ns))
            self.unsent_bytes -= unsent.pop(largest)
            largest.end("unsent replies")
        self.is_response_memory_scarce = 2 * self.unsent_bytes > self._limits.unsent_bytes_max

    @property
    def limits(self) -> ConnectionLimits:
        return self._limits

    @limits.setter
    def limits(self, limits: ConnectionLimits) -> None:
        """New limits apply at once, also to existing connections."""
        self._limits = limits
        self.is_request_memory_full = self.held_bytes > limits.queued_bytes_max
        self._bound_unsent()


def _arrival_ns_max(received_bytes: int) -> int:
    return STUCK_MS_MAX * 1_000_000 + received_bytes * STUCK_MS_PER_MIB * 1_000_000 // (1 << 20)
