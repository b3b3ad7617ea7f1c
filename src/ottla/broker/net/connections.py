"""Who may connect, how many, and for how long they may be silent."""

import sys
from collections import Counter
from dataclasses import dataclass

from ottla.broker.event_log import Logger
from ottla.broker.net.connection import CROWDED_BYTES_MAX, Connection, Requests
from ottla.broker.net.receive_buffer import SCRATCH_BYTES
from ottla.broker.net.session import Session
from ottla.metrics.node import NodeMetrics
from ottla.seams.clock import Clock
from ottla.seams.net import Listener, Net
from ottla.seams.threads import Threads
from ottla.settings.listeners import SecurityProtocol

# How long a request may take to arrive while others wait for the memory that it holds.
STUCK_MS_MAX = 10_000
STUCK_MS_PER_MIB = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Kafka's settings of these names, and ours."""

    frame_bytes_max: int
    queued_bytes_max: int
    unsent_bytes_max: int
    connections_max: int
    connections_max_per_ip: int
    idle_ms_max: int


class Connections:
    """All connections of a node: the limits are theirs together, and so is the scratch buffer."""

    def __init__(
        self,
        *,
        net: Net,
        clock: Clock,
        threads: Threads,
        limits: ConnectionLimits,
        metrics: NodeMetrics,
        logger: Logger,
    ) -> None:
        self._limits = limits
        self.held_bytes = 0
        # Whether unfinished requests take all the memory that they may; asked for every read.
        self.is_full = False
        # What the process has descriptors for, whatever the limits say.
        self.possible_max = sys.maxsize
        self._net = net
        self.now_ns = clock.steady_ns
        self._threads = threads
        self._metrics = metrics
        self._logger = logger
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        # Dicts for their order, which a set would not have.
        self._open: dict[Connection, None] = {}
        self._by_host: Counter[str] = Counter()
        # Those that hold much of a request, since when, and those of them that wait for room.
        self._holders: dict[Connection, int] = {}
        self._waiting: dict[Connection, None] = {}
        # The memory of replies that clients have not taken: of all, and of each that has any.
        self.unsent_bytes = 0
        self._unsent: dict[Connection, int] = {}
        # Whether that is half of what it may be: asked for every request.
        self.is_crowded = False
        self._is_over = False

    def __len__(self) -> int:
        return len(self._open)

    async def listen(
        self,
        requests: Requests,
        name: str,
        security_protocol: SecurityProtocol,
        host: str,
        port: int,
    ) -> Listener:
        """Takes connections from now on. OSError if the port is taken."""

        def connect() -> Connection:
            return Connection(
                requests,
                self,
                self._threads,
                self._scratch,
                Session(requests, name, security_protocol),
                frame_bytes_max=self.limits.frame_bytes_max,
            )

        return await self._net.listen(connect, host, port)

    def end_all(self, reason: str) -> None:
        """Ends them, and whichever is still on its way through the listener."""
        self._is_over = True
        for connection in list(self._open):
            connection.end(reason)

    def end_silent(self) -> None:
        """Ends those that neither sent nor took anything for too long.

        Sooner those whose request takes its time while others wait for the room.
        """
        oldest_ns = self.now_ns() - self.limits.idle_ms_max * 1_000_000
        for connection in [each for each in self._open if each.last_active_ns < oldest_ns]:
            connection.end("idle")
        if self._waiting:
            self._end_stuck()

    def _end_stuck(self) -> None:
        """Makes room, as far as that can be had of requests that are late: the latest goes first.

        A byte now and then does not help: whoever holds what others wait for has to be quick.
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

    # What connections say

    def opened(self, connection: Connection) -> bool:
        if self._is_over:
            return False
        host = connection.session.peer_host
        meter = self._metrics.listener(connection.session.listener)
        reason = None
        if len(self._open) >= self.limits.connections_max:
            reason = "max.connections"
        elif len(self._open) >= self.possible_max:
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

    def holds(self, connection: Connection, before: int, after: int) -> bool:
        self.held_bytes += after - before
        self.is_full = self.held_bytes > self._limits.queued_bytes_max
        # What is small goes on in any case: nobody's little requests wait for another's large one.
        if after > CROWDED_BYTES_MAX:
            self._holders.setdefault(connection, self.now_ns())
        else:
            self._holders.pop(connection, None)
            self._waiting.pop(connection, None)
        is_larger = connection in self._holders and after >= before
        if is_larger and self.is_full and len(self._holders) - len(self._waiting) > 1:
            self._waiting[connection] = None
            return False
        # One always goes on, however little room there is: else nobody would ever finish.
        while self._waiting and (not self.is_full or len(self._holders) == len(self._waiting)):
            waiting = next(iter(self._waiting))
            del self._waiting[waiting]
            waiting.go_on()
        return connection not in self._waiting

    def unsent(self, connection: Connection, unsent_bytes: int) -> None:
        self.unsent_bytes += unsent_bytes - self._unsent.pop(connection, 0)
        if unsent_bytes:
            self._unsent[connection] = unsent_bytes
        self._bound_unsent()

    def _bound_unsent(self) -> None:
        """Ends those who leave most to be sent; of equals whoever took nothing for longest.

        One may always have more: a reply that is larger than all the room could else never be sent.
        """
        unsent = self._unsent
        while self.unsent_bytes > self._limits.unsent_bytes_max and len(unsent) > 1:
            largest = max(unsent, key=lambda each: (unsent[each], -each.last_active_ns))
            self.unsent_bytes -= unsent.pop(largest)
            largest.end("unsent replies")
        self.is_crowded = 2 * self.unsent_bytes > self._limits.unsent_bytes_max

    @property
    def limits(self) -> ConnectionLimits:
        return self._limits

    @limits.setter
    def limits(self, limits: ConnectionLimits) -> None:
        """They count from now on, also for those who hold more already."""
        self._limits = limits
        self.is_full = self.held_bytes > limits.queued_bytes_max
        self._bound_unsent()


def _arrival_ns_max(received_bytes: int) -> int:
    return STUCK_MS_MAX * 1_000_000 + received_bytes * STUCK_MS_PER_MIB * 1_000_000 // (1 << 20)
