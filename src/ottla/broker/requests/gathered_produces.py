"""The way of ordinary produces: read and answered natively, small ones of many clients together.

Of a hundred clients that send a record each, the broker would else make a hundred writes to six
files, and wake somebody who sleeps a hundred times: both cost more than all that is done with the
records.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.net.connection import Connection, Reply
from ottla.broker.net.session import Session
from ottla.broker.requests.gathering import Gathering, Outcome
from ottla.native import produce as native_produce
from ottla.protocol.batch import BatchHeader
from ottla.protocol.exchange import encode_response
from ottla.replication.append.appender import ACKS_NONE
from ottla.replication.lookup import TopicKey
from ottla.tuples import maker

if TYPE_CHECKING:
    from ottla.broker.requests.services import Services

PRODUCE = 0
# As many are settled at once, whatever else there is: a MiB at most.
GATHERED_MAX = 256

# Positions in what is read natively: as a named tuple each batch would cost more.
_ATTRIBUTES = BatchHeader._fields.index("attributes")
_MAX_TIMESTAMP = BatchHeader._fields.index("max_timestamp")

# A partition of a topic that is named as the request's version does.
Destination = tuple[TopicKey, int]


class Gathered(NamedTuple):
    """One request with one batch, and the connection that waits for its answer."""

    connection: Connection
    request: native_produce.Request
    # Its own: what was received is overwritten by the next connection's.
    frame: memoryview
    destination: Destination
    batch: native_produce.Batch


_gathered = maker(Gathered)


class OrdinaryProduces(Gathering[native_produce.Request, Gathered]):
    """Handles them for all connections of a node."""

    def __init__(self, services: "Services", on_fault: Callable[[Exception], None]) -> None:
        super().__init__(services, on_fault, PRODUCE, native_produce.read, GATHERED_MAX)

    def handle(
        self, request: native_produce.Request, frame: memoryview, session: Session
    ) -> Reply | Awaitable[Reply]:
        """One by itself. `frame` is good until this returns."""
        started_ns = self._steady_ns()
        response = (self._handler or self._import()).handle_ordinary(
            request, frame, session, self._services
        )
        if isinstance(response, bytearray):
            self._seconds.observe((self._steady_ns() - started_ns) / 1e9)
            return [response]
        # Something was out of the ordinary after all, or has to be waited for.
        if isinstance(response, Awaitable):
            return self._later(response, request, session, started_ns)
        return self._encoded(response, request, session, started_ns)

    def _entry(
        self,
        request: native_produce.Request,
        frame: memoryview,
        connection: Connection,
        is_silent_only: bool,
    ) -> Gathered | None:
        _, _, client_id, acks, _, topics = request
        key, batches = topics[0]
        if len(topics) > 1 or len(batches) > 1 or (is_silent_only and acks != ACKS_NONE):
            return None
        batch = batches[0]
        index, _, _, fields = batch
        destination = key, index
        replica = self._services.replicas.by_key.get(destination)
        if replica is not None:
            rules, codec = replica.rules.admission, fields[_ATTRIBUTES]
            # Nearly all batches of clients that are gathered are too small to be compressed. A
            # batch that may have to wait for a thread is handled by itself.
            if (codec or rules.codec is not None) and rules.may_unfold(
                codec, fields[_MAX_TIMESTAMP], self._services.now_ms
            ):
                return None
        connection.session.client_id = client_id
        own = memoryview(bytearray(frame))
        return _gathered((connection, request, own, destination, batch))

    def _handle_together(self, entries: list[Gathered]) -> list[tuple[Connection, Outcome]]:
        """Those of one partition are appended by one write."""
        settled: list[tuple[Connection, Outcome]] = []
        by_destination: dict[Destination, list[Gathered]] = {}
        for entry in entries:
            destination = entry.destination
            together = by_destination.get(destination)
            if together is None:
                by_destination[destination] = [entry]
            else:
                together.append(entry)
        for destination, together in by_destination.items():
            if len(together) == 1 or not self._append_together(destination, together, settled):
                for connection, request, frame, _, _ in together:
                    settled.append((connection, self.handle(request, frame, connection.session)))
        return settled

    def _append_together(
        self,
        destination: Destination,
        together: list[Gathered],
        settled: list[tuple[Connection, Outcome]],
    ) -> bool:
        answers = (self._handler or self._import()).handle_joint(
            destination, together, self._services
        )
        if answers is None:
            return False
        settled.extend(zip([each.connection for each in together], answers, strict=True))
        self._seconds.observe_many(self._elapsed_s(self._since_ns), len(answers))
        return True

    async def _later(
        self,
        coming: Awaitable[object],
        request: native_produce.Request,
        session: Session,
        started_ns: int,
    ) -> Reply:
        return self._encoded(await coming, request, session, started_ns)

    def _encoded(
        self,
        response: object,
        request: native_produce.Request,
        session: Session,
        started_ns: int,
    ) -> Reply:
        self._seconds.observe(self._elapsed_s(started_ns))
        if response is None:
            return None
        version, correlation_id, *_ = request
        throttle_time_ms = session.quota.throttle_time_ms
        return encode_response(correlation_id, self._api, version, response, throttle_time_ms)
