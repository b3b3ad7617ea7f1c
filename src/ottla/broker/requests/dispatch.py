"""Decodes a frame, calls its handler, encodes the response, and measures the time.

A handler is a module of `broker.handlers` with `handle(request, call)`. It returns the response,
None if the request gets none, or an awaitable of either; a future needs no task. Dispatch imports a
handler when its API is first called. If older versions get another response, the handler has
`in_version(response, version)`.

A request that only the controller can carry out is forwarded if another broker is the controller
(`broker.inter_broker`). A request between brokers is accepted on their listener only.

A PeerError becomes an error response, as the API's message declares it. Bytes that are no request
end the connection. Any other exception is a bug, and ends the broker.
"""

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ottla.broker.inter_broker.controller_channel import ControllerIsHere
from ottla.broker.inter_broker.forwarding import ENVELOPE_BYTES_MAX, FORWARDED, Forwarding
from ottla.broker.net.connection import Connection
from ottla.broker.net.response_queue import PendingResponse, ResponseParts
from ottla.broker.net.session import UNLIMITED, Session
from ottla.broker.requests.authorization import Unauthorized
from ottla.broker.requests.call import Call, make_call
from ottla.broker.requests.commit_fast_path import OFFSET_COMMIT_KEY, CommitFastPath
from ottla.broker.requests.produce_fast_path import PRODUCE_KEY, ProduceFastPath
from ottla.broker.requests.replica_fetch_path import FETCH_PREFIX, ReplicaFetchPath
from ottla.broker.requests.served_apis import INTER_BROKER
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.publisher import NotController
from ottla.metadata.values import AclResource
from ottla.native import produce as native_produce
from ottla.protocol import framing
from ottla.protocol.error_codes import has_error_code
from ottla.protocol.exchange import UnsupportedVersion, decode_request, encode_response
from ottla.protocol.headers import API_VERSIONS_KEY
from ottla.protocol.messages import APIS, Api
from ottla.protocol.messages.api_versions import ApiVersionsResponse, VersionRange
from ottla.settings.table.network import (
    REQUEST_BESIDES_PRODUCE_MAX_BYTES,
    REQUEST_ELEMENTS_MAX,
)

if TYPE_CHECKING:
    from ottla.broker.requests.services import Services

Handle = Callable[[Any, Call], Any]

ENVELOPE_KEY = 58


class Dispatch:
    """Handles the frames of all connections of a node."""

    def __init__(
        self, services: "Services", served: frozenset[int], on_fault: Callable[[Exception], None]
    ) -> None:
        self._services = services
        self._served = served
        self._handles: dict[int, Handle] = {}
        self._in_version: dict[int, Callable[[Any, int], object]] = {}
        self._produces = ProduceFastPath(services, on_fault)
        # By API key.
        self._gathering: dict[int, ProduceFastPath | CommitFastPath] = {
            PRODUCE_KEY: self._produces,
            OFFSET_COMMIT_KEY: CommitFastPath(services, on_fault),
        }
        self._replica_fetches = ReplicaFetchPath(services, on_fault)
        self._inter_broker_listener = services.identity.inter_broker_listener
        self._steady_ns = services.clock.steady_ns
        self._on_fault = on_fault
        services.handle_embedded = self.handle_embedded

    def handle(
        self, frame: memoryview, connection: Connection
    ) -> ResponseParts | PendingResponse | Awaitable[ResponseParts]:
        session = connection.session
        if session.listener == self._inter_broker_listener and frame[:2] == FETCH_PREFIX:
            fetched = self._replica_fetches.handle(frame, session)
            if fetched is not None:
                return fetched
        # Produce is the most frequent request. The fast path saves it the codec.
        produces = self._produces
        if produces.declined is not None and produces.declined[0] is frame:
            produce: native_produce.Request | None = produces.declined[1]
            produces.declined = None
        else:
            produce = native_produce.read(frame)
        if produce is not None:
            _, _, session.client_id, _, _, _, _ = produce
            return produces.handle(produce, frame, session)
        started_ns = self._steady_ns()
        self._check_size(frame)
        try:
            header, api, request = decode_request(
                frame, self._services.settings[REQUEST_ELEMENTS_MAX]
            )
        except UnsupportedVersion as error:
            return self._offer_versions(error)
        is_for_clients = api.key in self._served
        if not is_for_clients and api.key not in INTER_BROKER:
            raise PeerError(ErrorCode.UNSUPPORTED_VERSION, f"{api.name} is not served")
        session.client_id = header.client_id
        call = make_call((api, header.request_api_version, session, self._services))
        inter_broker = self._services.inter_broker
        if inter_broker is not None and api.key in FORWARDED and not inter_broker.is_controller():
            forwarding = inter_broker.forwarding
            return self._forward(
                bytes(frame), forwarding, request, call, header.correlation_id, started_ns
            )
        try:
            if not is_for_clients:
                self._require_inter_broker(session)
            response = self._handle_of(api)(request, call)
        except PeerError as error:
            response = self._refuse(request, call, error)
        if isinstance(response, asyncio.Future):
            finish = partial(self._finish, request, call, header.correlation_id, started_ns)
            return finish(response) if response.done() else PendingResponse(response, finish)
        if isinstance(response, Awaitable):
            return self._later(response, request, call, header.correlation_id, started_ns)
        return self._reply(response, call, header.correlation_id, started_ns)

    def gather(self, frame: memoryview, connection: Connection) -> bool:
        gathering = self._gathering.get(int.from_bytes(frame[:2], "big"))
        return gathering is not None and gathering.gather(frame, connection)

    def gather_silent(self, frame: memoryview, connection: Connection) -> bool:
        return self._produces.gather(frame, connection, True)

    def settle_gathered(self) -> None:
        for gathering in self._gathering.values():
            gathering.settle()

    def _check_size(self, frame: memoryview) -> None:
        """Caps the size of non-produce requests so that one client cannot stall the loop."""
        size_max = self._services.settings[REQUEST_BESIDES_PRODUCE_MAX_BYTES]
        if len(frame) <= size_max:
            return
        key = int.from_bytes(frame[:2], "big")
        if key == ENVELOPE_KEY:
            size_max += ENVELOPE_BYTES_MAX
        if len(frame) > size_max and key != PRODUCE_KEY:
            raise PeerError(
                ErrorCode.INVALID_REQUEST,
                f"a request of {len(frame)} bytes; {size_max} are taken unless it is a produce",
            )

    def failed(self, error: Exception) -> None:
        self._on_fault(error)

    # Between brokers

    def _require_inter_broker(self, session: Session) -> None:
        """Raises Unauthorized, a PeerError, unless the request came on the brokers' listener."""
        if session.listener != self._services.identity.inter_broker_listener:
            raise Unauthorized(AclResource.CLUSTER)

    async def _forward(
        self,
        frame: bytes,
        forwarding: Forwarding,
        request: object,
        call: Call,
        correlation_id: int,
        started_ns: int,
    ) -> ResponseParts:
        """Has the controller handle a request. Its response is sent on as it is."""
        try:
            answer = await forwarding.forward(frame, call.session, forwarding.timeout_ms(request))
        except PeerError as error:
            response = self._refuse(request, call, error)
        except ControllerIsHere:
            response = await self._handled(request, call)
        else:
            self._services.metrics.request_done(
                call.api.name, (self._steady_ns() - started_ns) / 1e9
            )
            return framing.frame(b"", [answer])
        return self._reply(response, call, correlation_id, started_ns)

    async def handle_embedded(self, frame: bytes, session: Session) -> bytes:
        """The frame of the response to a request that another broker forwards.

        PeerError if it was not handled: NotController, or because it is no such request.
        """
        started_ns = self._steady_ns()
        key = int.from_bytes(frame[:2], "big")
        if key not in FORWARDED or key not in self._served:
            raise PeerError(ErrorCode.INVALID_REQUEST, f"requests of key {key} are not forwarded")
        self._check_size(memoryview(frame))
        header, api, request = decode_request(frame, self._services.settings[REQUEST_ELEMENTS_MAX])
        session.client_id = header.client_id
        call = make_call((api, header.request_api_version, session, self._services))
        response = await self._handled(request, call)
        inter_broker = self._services.inter_broker
        if (
            inter_broker is not None
            and not inter_broker.is_controller()
            and has_error_code(response, ErrorCode.NOT_CONTROLLER)
        ):
            # The next controller is to carry out the rest.
            raise NotController
        parts = self._reply(response, call, header.correlation_id, started_ns) or []
        return b"".join(cast("list[bytes]", parts))[framing.LENGTH_BYTES :]

    async def _handled(self, request: object, call: Call) -> object:
        try:
            response = self._handle_of(call.api)(request, call)
            return await response if isinstance(response, Awaitable) else response
        except PeerError as error:
            return self._refuse(request, call, error)

    async def _later(
        self,
        coming: Awaitable[Any],
        request: object,
        call: Call,
        correlation_id: int,
        started_ns: int,
    ) -> ResponseParts:
        try:
            response = await coming
        except PeerError as error:
            response = self._refuse(request, call, error)
        return self._reply(response, call, correlation_id, started_ns)

    def _finish(
        self,
        request: object,
        call: Call,
        correlation_id: int,
        started_ns: int,
        come: "asyncio.Future[Any]",
    ) -> ResponseParts:
        """As `_later`, for a future that is done."""
        try:
            response = come.result()
        except PeerError as error:
            response = self._refuse(request, call, error)
        return self._reply(response, call, correlation_id, started_ns)

    def _reply(
        self, response: object, call: Call, correlation_id: int, started_ns: int
    ) -> ResponseParts:
        elapsed_ns = self._steady_ns() - started_ns
        self._services.metrics.request_done(call.api.name, elapsed_ns / 1e9)
        if response is None:
            return None
        if in_version := self._in_version.get(call.api.key):
            response = in_version(response, call.version)
        quota = call.session.quota
        parts = encode_response(
            correlation_id, call.api, call.version, response, quota.throttle_time_ms
        )
        if quota is not UNLIMITED and quota.charge_response(sum(map(len, parts))):
            # A consumer is charged for the size of the response, which is known only now.
            return encode_response(
                correlation_id, call.api, call.version, response, quota.throttle_time_ms
            )
        return parts

    def _refuse(self, request: object, call: Call, error: PeerError) -> object:
        self._services.metrics.request_refused(call.api.name, error.code.name)
        return call.refuse(request, error.code, str(error))

    def _offer_versions(self, error: UnsupportedVersion) -> ResponseParts:
        """Answers an ApiVersions of an unknown version: in v0, with the supported range.

        A request of an unknown version for any other API ends the connection.
        """
        if error.header.request_api_key != API_VERSIONS_KEY:
            raise error
        api = APIS[API_VERSIONS_KEY]
        first, last = api.advertised
        response = ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=(VersionRange(api_key=api.key, min_version=first, max_version=last),),
        )
        return encode_response(error.header.correlation_id, api, 0, response)

    def _handle_of(self, api: Api) -> Handle:
        handle = self._handles.get(api.key)
        if handle is None:
            name = api.module.rpartition(".")[2]
            module = importlib.import_module(f"ottla.broker.handlers.{name}")
            handle = self._handles[api.key] = module.handle
            if hasattr(module, "in_version"):
                self._in_version[api.key] = module.in_version
        return handle
