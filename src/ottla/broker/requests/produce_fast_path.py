"""The fast path of Produce: decoded and encoded by native code, small requests appended together.

If a hundred clients send one record each, a write and a wake-up per request cost more than all the
work on the records. Requests that arrive in one turn of the event loop share one write per
partition.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.net.connection import Connection
from ottla.broker.net.response_queue import PendingResponse, ResponseParts, make_pending
from ottla.broker.net.session import Session
from ottla.broker.requests.gathering import GATHERED_BYTES_MAX, GatheredOutcome, Gathering
from ottla.broker.requests.produce_outcomes import response as produce_response
from ottla.broker.requests.uncommitted_produce import UncommittedProduce
from ottla.native import produce as native_produce
from ottla.protocol.batch import CODEC_MASK, TRANSACTIONAL, BatchHeader
from ottla.protocol.exchange import encode_response
from ottla.replication.append.appender import ACKS_NONE
from ottla.replication.lookup import TopicKey
from ottla.tuples import maker

if TYPE_CHECKING:
    from ottla.broker.requests.services import Services

PRODUCE_KEY = 0
# A full list is settled at once.
GATHERED_PRODUCES_MAX = 256
# Of partitions that have followers, which fetch the batches of one write together.
GATHERED_REPLICATED_BYTES_MAX = 32 << 10

# Positions in the header fields of a batch. A named tuple per batch would cost more.
_ATTRIBUTES = BatchHeader._fields.index("attributes")
_MAX_TIMESTAMP = BatchHeader._fields.index("max_timestamp")

# A partition, with its topic's name or id, depending on the version of the request.
Destination = tuple[TopicKey, int]


class GatheredProduce(NamedTuple):
    """A request with one batch, and the connection that waits for its response."""

    connection: Connection
    request: native_produce.Request
    # A copy: the next connection overwrites the receive buffer.
    frame: memoryview
    destination: Destination
    batch: native_produce.Batch


_gathered_produce = maker(GatheredProduce)


class ProduceFastPath(Gathering[native_produce.Request, GatheredProduce]):
    """Handles the produce requests of all connections of a node."""

    def __init__(self, services: "Services", on_fault: Callable[[Exception], None]) -> None:
        super().__init__(
            services, on_fault, PRODUCE_KEY, native_produce.read, GATHERED_PRODUCES_MAX
        )

    def handle(
        self, request: native_produce.Request, frame: memoryview, session: Session
    ) -> ResponseParts | PendingResponse | Awaitable[ResponseParts]:
        """Handles one request by itself. `frame` is valid until this returns."""
        started_ns = self._steady_ns()
        response = (self._handler or self._import()).handle_native(
            request, frame, session, self._services
        )
        if isinstance(response, bytearray):
            self._seconds.observe((self._steady_ns() - started_ns) / 1e9)
            return [response]
        # It needs the general encoder, or has to wait.
        if isinstance(response, UncommittedProduce):
            return self._pending(response, request, session, started_ns)
        if isinstance(response, Awaitable):
            return self._later(response, request, session, started_ns)
        return self._encoded(response, request, session, started_ns)

    def _may_gather(self, size_bytes: int) -> bool:
        return (
            size_bytes <= GATHERED_REPLICATED_BYTES_MAX and self._services.inter_broker is not None
        )

    def _entry(
        self,
        request: native_produce.Request,
        frame: memoryview,
        connection: Connection,
        is_silent_only: bool,
    ) -> GatheredProduce | None:
        _, _, client_id, acks, _, topics, transactional_id = request
        key, batches = topics[0]
        if len(topics) > 1 or len(batches) > 1 or (is_silent_only and acks != ACKS_NONE):
            return None
        batch = batches[0]
        index, _, _, fields = batch
        attributes = fields[_ATTRIBUTES]
        # A connection may have several requests with acks=0 gathered, so none of them may wait.
        if attributes & TRANSACTIONAL and (transactional_id is None or acks == ACKS_NONE):
            return None
        destination = key, index
        replica = self._services.partitions.replicas.by_key.get(destination)
        if len(frame) > GATHERED_BYTES_MAX and (
            replica is None or replica.partition.commits_alone or acks == ACKS_NONE
        ):
            return None
        if replica is not None:
            rules, codec = replica.rules.admission, attributes & CODEC_MASK
            # A batch that may have to wait for a thread is not gathered.
            if (codec or rules.codec is not None) and rules.may_need_decompression(
                codec, fields[_MAX_TIMESTAMP], self._services.now_ms
            ):
                return None
        connection.session.client_id = client_id
        own = memoryview(bytearray(frame))
        return _gathered_produce((connection, request, own, destination, batch))

    def _handle_together(
        self, entries: list[GatheredProduce]
    ) -> list[tuple[Connection, GatheredOutcome]]:
        """Appends the batches of each partition with one write."""
        settled: list[tuple[Connection, GatheredOutcome]] = []
        by_destination: dict[Destination, list[GatheredProduce]] = {}
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
        together: list[GatheredProduce],
        settled: list[tuple[Connection, GatheredOutcome]],
    ) -> bool:
        handled = (self._handler or self._import()).handle_gathered(
            destination, together, self._services
        )
        if handled is None:
            return False
        answers, uncommitted = handled
        for number, waiting in uncommitted.items():
            connection, request, _, _, _ = together[number]
            answers[number] = self._pending(waiting, request, connection.session, self._since_ns)
        settled.extend(zip([each.connection for each in together], answers, strict=True))
        answered = len(answers) - len(uncommitted)
        self._seconds.observe_many(self._elapsed_s(self._since_ns), answered)
        return True

    def _pending(
        self,
        uncommitted: UncommittedProduce,
        request: native_produce.Request,
        session: Session,
        started_ns: int,
    ) -> PendingResponse:
        finish = partial(self._committed, uncommitted, request, session, started_ns)
        wait = uncommitted.wait
        return make_pending((wait.future, finish, wait.cancel, True, uncommitted.size_bytes))

    def _committed(
        self,
        uncommitted: UncommittedProduce,
        request: native_produce.Request,
        session: Session,
        started_ns: int,
        _done: "asyncio.Future[None]",
    ) -> ResponseParts:
        """The response to a request that has waited for other replicas."""
        outcomes = uncommitted.committed_outcomes
        if outcomes is None:
            version, *_ = request
            answers = uncommitted.settled(self._services)
            refused = produce_response(answers, version, session, self._services)
            return self._encoded(refused, request, session, started_ns)
        self._seconds.observe(self._elapsed_s(started_ns))
        version, correlation_id, _, _, _, topics, _ = request
        throttle_time_ms = session.quota.throttle_time_ms
        return [native_produce.answer(version, correlation_id, topics, outcomes, throttle_time_ms)]

    async def _later(
        self,
        coming: Awaitable[object],
        request: native_produce.Request,
        session: Session,
        started_ns: int,
    ) -> ResponseParts:
        return self._encoded(await coming, request, session, started_ns)

    def _encoded(
        self,
        response: object,
        request: native_produce.Request,
        session: Session,
        started_ns: int,
    ) -> ResponseParts:
        self._seconds.observe(self._elapsed_s(started_ns))
        if response is None:
            return None
        version, correlation_id, *_ = request
        throttle_time_ms = session.quota.throttle_time_ms
        return encode_response(correlation_id, self._api, version, response, throttle_time_ms)
