"""The fast path of replica fetches: decoded and encoded by native code, parked without a task.

A lone batch is acknowledged after one append, one answer to each follower and their next fetches,
one after another: each of these steps adds to its latency. Fetches that are not ordinary take the
way of consumers' fetches, through the codec.
"""

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ottla.broker.net.response_queue import (
    PendingResponse,
    Promise,
    ResponseParts,
    make_pending,
)
from ottla.broker.net.session import UNLIMITED, Session
from ottla.broker.requests.authorization import CLUSTER
from ottla.broker.requests.call import Call, make_call
from ottla.errors import PeerError
from ottla.metadata.values import Incarnation
from ottla.native import replica_fetch
from ottla.protocol.exchange import encode_response
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.messages import APIS
from ottla.protocol.messages.fetch import FetchResponse
from ottla.protocol.primitives import Part
from ottla.replication.fetch.fetch import Answer, Context, Fetch, FetchLimits, Reading
from ottla.replication.lookup import TopicKey, find_replica
from ottla.replication.replica import Replica
from ottla.seams.deadline import Deadline
from ottla.settings.table.network import FETCH_MAX_BYTES
from ottla.storage.log.file_slice import FileSlice
from ottla.tuples import maker

if TYPE_CHECKING:
    from ottla.broker.requests.services import Services

FETCH_KEY = 1
# As it begins a frame.
FETCH_PREFIX = FETCH_KEY.to_bytes(2, "big")

_make_limits = maker(FetchLimits)


class _Answering(NamedTuple):
    """A request that is being answered."""

    fetch: Fetch
    context: Context
    call: Call
    correlation_id: int
    started_ns: int


_make_answering = maker(_Answering)


class ParkedFetch(Promise):
    """A replica fetch that waits for bytes.

    After a change it looks at its partitions in the next turn of the event loop, so that the
    batches of all requests of a turn are sent together.
    """

    __slots__ = ("_is_woken", "_look", "_missing", "answering", "is_due", "slot")

    def __init__(
        self, answering: _Answering, slot: "_FollowerSlot", look: Callable[["ParkedFetch"], None]
    ) -> None:
        super().__init__()
        self.answering = answering
        self.slot = slot
        self.is_due = False
        self._look = look
        self._missing = 0
        self._is_woken = False

    def expect(self, missing: int) -> None:
        self._missing = missing
        self._is_woken = False

    def count(self, amount: int) -> None:
        self._missing -= amount
        if self._missing <= 0:
            self.wake()

    def wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            asyncio.get_running_loop().call_soon(self._look, self)

    def expire(self) -> None:
        """It has waited for as long as it may."""
        self.is_due = True
        self.wake()


class _FollowerSlot:
    """The parked fetch of one follower, and its deadline."""

    __slots__ = ("deadline", "parked")

    def __init__(self) -> None:
        self.parked: ParkedFetch | None = None
        self.deadline = Deadline(self._expire)

    def park(self, parked: ParkedFetch, wait_ms: int) -> None:
        # Another fetch is parked only if the follower has given up the connection of that one.
        self._expire()
        self.parked = parked
        self.deadline.set(wait_ms / 1e3)

    def leave(self, parked: ParkedFetch) -> None:
        if self.parked is parked:
            self.parked = None
            self.deadline.clear()

    def close(self, parked: ParkedFetch) -> None:
        """As `leave`, and leaves no timer."""
        if self.parked is parked:
            self.parked = None
            self.deadline.close()

    def _expire(self) -> None:
        if self.parked is not None:
            self.parked.expire()


class ReplicaFetchPath:
    """Answers the ordinary fetches of all followers of a node."""

    def __init__(self, services: "Services", on_fault: Callable[[Exception], None]) -> None:
        self._services = services
        self._on_fault = on_fault
        self._api = APIS[FETCH_KEY]
        self._seconds = services.metrics.request(self._api.name).seconds
        self._steady_ns = services.clock.steady_ns
        self._handler: Any = None
        # By broker id.
        self._slots: dict[int, _FollowerSlot] = {}

    def handle(
        self, frame: memoryview, session: Session
    ) -> ResponseParts | PendingResponse | Awaitable[ResponseParts]:
        """None, with nothing changed, if the frame is left to the codec.

        The caller has checked the listener. `frame` is valid until this returns.
        """
        request = replica_fetch.read_request(frame)
        if request is None or session.quota is not UNLIMITED:
            return None
        started_ns = self._steady_ns()
        correlation_id, replica, bounds, (session_id, session_epoch), topics = request
        call = make_call((self._api, replica_fetch.VERSION, session, self._services))
        follower = self._follower(replica, call)
        if follower is None:
            return None
        partitions = self._services.partitions
        try:
            context = partitions.follower_sessions.resume(
                follower, session_id, session_epoch, topics
            )
        except PeerError as error:
            self._services.metrics.request_refused(self._api.name, error.code.name)
            response = FetchResponse(error_code=error.code, responses=())
            return encode_response(correlation_id, self._api, replica_fetch.VERSION, response)
        if context is None:
            return None
        wait_ms, bytes_min, bytes_max = bounds
        bytes_max = max(0, min(bytes_max, self._services.settings[FETCH_MAX_BYTES]))
        limits = _make_limits(
            (
                min(bytes_min, bytes_max),
                bytes_max,
                Isolation.READ_UNCOMMITTED,
                follower,
                partitions.throttles.leader,
                None,
                False,
            )
        )
        fetch = Fetch(context, limits, self._find, partitions.cold_reads)
        answering = _make_answering((fetch, context, call, correlation_id, started_ns))
        reading = fetch.read()
        if reading.cold:
            return self._answer_cold(answering, reading)
        if wait_ms <= 0 or fetch.is_enough(reading):
            return self._answer(answering, reading)
        return self._park(answering, reading, follower.broker_id, wait_ms)

    def _follower(self, replica: replica_fetch.Replica, call: Call) -> Incarnation | None:
        """The broker that fetches; None if it is refused, for which the codec's way has reasons."""
        replica_id, replica_epoch = replica
        broker = self._services.image.brokers.get(replica_id)
        if broker is None or not broker.is_live or broker.epoch != replica_epoch:
            return None
        return broker.incarnation if call.may(CLUSTER) else None

    def _find(self, topic: TopicKey, index: int) -> Replica:
        services = self._services
        return find_replica(services.partitions.replicas, services.image, topic, index)

    # Waiting

    def _park(
        self, answering: _Answering, reading: Reading, follower_id: int, wait_ms: int
    ) -> PendingResponse:
        slot = self._slots.get(follower_id)
        if slot is None:
            slot = self._slots[follower_id] = _FollowerSlot()
        parked = ParkedFetch(answering, slot, self._look)
        slot.park(parked, wait_ms)
        answering.fetch.park(parked, reading)
        return make_pending((parked, _response_of, partial(self._drop, parked), False, 0))

    def _look(self, parked: ParkedFetch) -> None:
        if parked.done():
            return
        try:
            reading = parked.answering.fetch.read()
            if reading.cold:
                self._services.tasks.spawn(self._warm(parked, reading), "cold replica fetch")
            else:
                self._decide(parked, reading)
        except Exception as error:  # noqa: BLE001 - the loop would only log it
            self._on_fault(error)

    async def _warm(self, parked: ParkedFetch, reading: Reading) -> None:
        self._decide(parked, await parked.answering.fetch.read_cold(reading))

    def _decide(self, parked: ParkedFetch, reading: Reading) -> None:
        """Answers, or waits on. No other task has run since the partitions were read."""
        if parked.done():
            return
        answering = parked.answering
        if parked.is_due or answering.fetch.is_enough(reading):
            answering.context.leave(parked)
            parked.slot.leave(parked)
            parked.keep(self._answer(answering, reading))
        else:
            answering.fetch.park(parked, reading)

    def _drop(self, parked: ParkedFetch) -> None:
        """The follower has disconnected."""
        parked.cancel()
        parked.answering.context.leave(parked)
        parked.slot.close(parked)

    async def _answer_cold(self, answering: _Answering, reading: Reading) -> ResponseParts:
        """Does not wait for more: there is something to read already."""
        return self._answer(answering, await answering.fetch.read_cold(reading))

    # Answering

    def _answer(self, answering: _Answering, reading: Reading) -> ResponseParts:
        _, context, _, correlation_id, started_ns = answering
        answer = context.answer(reading)
        self._seconds.observe((self._steady_ns() - started_ns) / 1e9)
        topics: list[replica_fetch.TopicResult] = []
        records: list[FileSlice] = []
        results: list[replica_fetch.Result] = []
        topic: TopicKey = b""
        for item, outcome in answer.reads:
            if isinstance(outcome, PeerError) or outcome.diverging is not None:
                return self._declared(answering, answer, is_urgent=reading.is_urgent)
            if item.topic != topic or not topics:
                topic, results = item.topic, []
                # Sessions of followers name topics by their ids.
                topics.append((cast("bytes", topic), results))
            size = outcome.size
            if outcome.records is not None and size:
                records.append(outcome.records)
            results.append(
                (item.asked.partition, outcome.high_watermark, outcome.start_offset, size)
            )
        self._services.metrics.broker.replication_bytes_out += reading.size
        head, *rest = replica_fetch.write_answer(correlation_id, answer.session_id, topics)
        parts: list[Part] = [head]
        for each, part in zip(records, rest, strict=True):
            parts += (each, part)
        return parts

    def _declared(self, answering: _Answering, answer: Answer, *, is_urgent: bool) -> ResponseParts:
        """The response by the codec, with the errors of partitions."""
        fetch, _, call, correlation_id, _ = answering
        if self._handler is None:
            self._handler = importlib.import_module("ottla.broker.handlers.fetch")
        response = self._handler.response_of(answer, fetch.follower, call, is_urgent=is_urgent)
        return encode_response(correlation_id, self._api, replica_fetch.VERSION, response)


def _response_of(parked: ParkedFetch) -> ResponseParts:
    return parked.response
