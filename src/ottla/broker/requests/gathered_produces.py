"""The way of ordinary produces: read and answered natively, small ones of many clients together.

What arrives in one turn of the loop is settled at the beginning of the next. Of a hundred clients
that send a record each, the broker would else make a hundred writes to six files, and wake somebody
who sleeps a hundred times: both cost more than all that is done with the records.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.net.connection import Connection, Reply
from ottla.native import produce as native_produce
from ottla.protocol.exchange import encode_response
from ottla.protocol.messages import APIS
from ottla.replication.append.appender import ACKS_NONE
from ottla.tuples import maker

if TYPE_CHECKING:
    from ottla.broker.handlers import produce as handler
    from ottla.broker.requests.services import Services

PRODUCE = 0
# Of what is larger, writing and waking are a small part.
GATHERED_BYTES_MAX = 4 << 10
# As many are settled at once, whatever else there is: a MiB at most.
GATHERED_MAX = 256


class Gathered(NamedTuple):
    """One request for one partition, and who waits for it."""

    connection: Connection
    request: native_produce.Request
    # Its own: what was received is overwritten by the next connection's.
    frame: memoryview


_gathered = maker(Gathered)


class OrdinaryProduces:
    """Handles them for all connections of a node.

    A connection has one gathered at most, or any number that want no reply.
    """

    def __init__(self, services: "Services", on_fault: Callable[[Exception], None]) -> None:
        self._services = services
        self._on_fault = on_fault
        self._seconds = services.metrics.request(APIS[PRODUCE].name).seconds
        self._steady_ns = services.clock.steady_ns
        self._handler: Any = None
        # By the partition to which they go, and when the first of them came.
        self._waiting: dict[handler.Destination, list[Gathered]] = {}
        self._waiting_count = 0
        self._since_ns = 0

    def handle(
        self, request: native_produce.Request, frame: memoryview
    ) -> Reply | Awaitable[Reply]:
        """One by itself. `frame` is good until this returns."""
        started_ns = self._steady_ns()
        response = (self._handler or self._import()).handle_ordinary(request, frame, self._services)
        if isinstance(response, bytearray):
            self._seconds.observe((self._steady_ns() - started_ns) / 1e9)
            return [response]
        # Something was out of the ordinary after all, or has to be waited for.
        if isinstance(response, Awaitable):
            return self._later(response, request, started_ns)
        return self._encoded(response, request, started_ns)

    def gather(self, frame: memoryview, connection: Connection) -> bool:
        """Keeps a small produce to one partition; the connection is told by `settle`."""
        if len(frame) > GATHERED_BYTES_MAX:
            return False
        request = native_produce.read(frame)
        return request is not None and self._gather(request, frame, connection)

    def gather_silent(self, frame: memoryview, connection: Connection) -> bool:
        """As `gather`, of acks=0 alone: no replies have to keep their order."""
        if len(frame) > GATHERED_BYTES_MAX:
            return False
        request = native_produce.read(frame)
        if request is None or request[3] != ACKS_NONE:
            return False
        return self._gather(request, frame, connection)

    def _gather(
        self, request: native_produce.Request, frame: memoryview, connection: Connection
    ) -> bool:
        topics = request[5]
        key, batches = topics[0]
        if len(topics) > 1 or len(batches) > 1:
            return False
        destination = key, batches[0][0]
        if self._may_unfold(destination, batches[0][3]):
            return False
        if self._waiting_count == GATHERED_MAX:
            self.settle()
        together = self._waiting.get(destination)
        if together is None:
            if not self._waiting:
                self._since_ns = self._steady_ns()
                asyncio.get_running_loop().call_soon(self.settle)
            together = self._waiting[destination] = []
        together.append(_gathered((connection, request, memoryview(bytearray(frame)))))
        self._waiting_count += 1
        return True

    def _may_unfold(
        self, destination: "handler.Destination", fields: native_produce.Fields
    ) -> bool:
        """Whether a batch may have to wait for a thread: then it is handled by itself."""
        replica = self._services.partitions.replicas.by_key.get(destination)
        if replica is None:
            return False
        rules, codec = replica.rules.admission, fields[5]
        # Nearly all batches of clients that are gathered are too small to be compressed.
        if not codec and rules.codec is None:
            return False
        return rules.may_unfold(codec, fields[8], self._services.now_ms)

    def settle(self) -> None:
        """Handles all that was gathered.

        Replies go out at the end, one right after another: a client that is woken by the first of
        them finds the others before it sleeps again.
        """
        waiting, self._waiting = self._waiting, {}
        self._waiting_count = 0
        settled: list[tuple[Connection, bytearray | Reply | Awaitable[Reply]]] = []
        try:
            for destination, together in waiting.items():
                if len(together) == 1 or not self._append_together(destination, together, settled):
                    for connection, request, frame in together:
                        settled.append((connection, self.handle(request, frame)))
            for connection, outcome in settled:
                connection.settle(outcome)
        except Exception as error:  # noqa: BLE001 - the loop would only log it
            self._on_fault(error)

    def _append_together(
        self,
        destination: "handler.Destination",
        together: list[Gathered],
        settled: list[tuple[Connection, bytearray | Reply | Awaitable[Reply]]],
    ) -> bool:
        answers = (self._handler or self._import()).handle_joint(
            destination, together, self._services
        )
        if answers is None:
            return False
        settled.extend(zip([each[0] for each in together], answers, strict=True))
        self._seconds.observe_many((self._steady_ns() - self._since_ns) / 1e9, len(answers))
        return True

    async def _later(
        self, coming: Awaitable[object], request: native_produce.Request, started_ns: int
    ) -> Reply:
        return self._encoded(await coming, request, started_ns)

    def _encoded(self, response: object, request: native_produce.Request, started_ns: int) -> Reply:
        self._seconds.observe((self._steady_ns() - started_ns) / 1e9)
        if response is None:
            return None
        version, correlation_id = request[:2]
        return encode_response(correlation_id, APIS[PRODUCE], version, response)

    def _import(self) -> Any:
        """As with every other handler, when it is first called."""
        from ottla.broker.handlers import produce

        self._handler = produce
        return produce
