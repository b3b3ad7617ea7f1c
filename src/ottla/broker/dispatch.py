"""From a frame to a handler and back: decoded, handled, encoded, timed.

A handler is a module of `broker.handlers` with `handle(request, call)`: it returns the response, or
None where none is due, or an awaitable of either. It is imported when its API is first called.

The peer's fault (PeerError) becomes the error that the API's message declares. Bytes that are no
request end the connection. Anything else is our own fault, and ends the broker.
"""

import importlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.call import Call
from ottla.broker.connection import Connection, Reply
from ottla.errors import ErrorCode, PeerError
from ottla.native import produce as native_produce
from ottla.protocol.exchange import UnsupportedVersion, decode_request, encode_response
from ottla.protocol.messages import APIS, Api
from ottla.protocol.messages.api_versions import ApiVersionsResponse, VersionRange
from ottla.settings.table.network import REQUEST_BESIDES_PRODUCE_MAX_BYTES

if TYPE_CHECKING:
    from ottla.broker.services import Services

PRODUCE = 0
API_VERSIONS = 18
Handle = Callable[[Any, Call], Any]
HandleOrdinary = Callable[[native_produce.Request, memoryview, "Services"], Any]


class Dispatch:
    """Handles the frames of every connection of a node."""

    def __init__(
        self, services: "Services", served: frozenset[int], on_fault: Callable[[Exception], None]
    ) -> None:
        self._services = services
        self._served = served
        self._handles: dict[int, Handle] = {}
        self._handle_ordinary: HandleOrdinary = self._first_ordinary
        self._produces = services.metrics.request(APIS[PRODUCE].name).seconds
        self._steady_ns = services.clock.steady_ns
        self._on_fault = on_fault

    def handle(self, frame: memoryview, connection: Connection) -> Reply | Awaitable[Reply]:
        started_ns = self._steady_ns()
        # Small produces are what a broker does most often: they do not go through the codec.
        produce = native_produce.read(frame)
        if produce is not None:
            response = self._handle_ordinary(produce, frame, self._services)
            if isinstance(response, bytearray):
                self._produces.observe((self._steady_ns() - started_ns) / 1e9)
                return [response]
            return self._produced(response, produce, started_ns)
        self._check_size(frame)
        try:
            header, api, request = decode_request(frame)
        except UnsupportedVersion as error:
            return self._offer_versions(error)
        if api.key not in self._served:
            raise PeerError(ErrorCode.UNSUPPORTED_VERSION, f"{api.name} is not served")
        call = Call(api, header.request_api_version, header.client_id, connection, self._services)
        try:
            response = self._handle_of(api)(request, call)
        except PeerError as error:
            response = self._refuse(request, call, error)
        if isinstance(response, Awaitable):
            return self._later(response, request, call, header.correlation_id, started_ns)
        return self._reply(response, call, header.correlation_id, started_ns)

    def _check_size(self, frame: memoryview) -> None:
        """What is small takes no long time, whatever it asks: nobody holds up all others."""
        size_max = self._services.settings[REQUEST_BESIDES_PRODUCE_MAX_BYTES]
        if len(frame) > size_max and int.from_bytes(frame[:2], "big") != PRODUCE:
            raise PeerError(
                ErrorCode.INVALID_REQUEST,
                f"a request of {len(frame)} bytes; {size_max} are taken unless it is a produce",
            )

    def _first_ordinary(
        self, request: native_produce.Request, frame: memoryview, services: "Services"
    ) -> Any:
        """Imports the handler, as with every other one when it is first called."""
        from ottla.broker.handlers.produce import handle_ordinary

        self._handle_ordinary = handle_ordinary
        return handle_ordinary(request, frame, services)

    def _produced(
        self, response: object, request: native_produce.Request, started_ns: int
    ) -> Reply | Awaitable[Reply]:
        """Something was out of the ordinary after all, or has to be waited for."""
        if isinstance(response, Awaitable):
            return self._produced_later(response, request, started_ns)
        return self._encoded(response, request, started_ns)

    async def _produced_later(
        self, coming: Awaitable[object], request: native_produce.Request, started_ns: int
    ) -> Reply:
        return self._encoded(await coming, request, started_ns)

    def _encoded(self, response: object, request: native_produce.Request, started_ns: int) -> Reply:
        self._produces.observe((self._steady_ns() - started_ns) / 1e9)
        if response is None:
            return None
        version, correlation_id = request[:2]
        return encode_response(correlation_id, APIS[PRODUCE], version, response)

    def failed(self, error: Exception) -> None:
        self._on_fault(error)

    async def _later(
        self,
        coming: Awaitable[Any],
        request: object,
        call: Call,
        correlation_id: int,
        started_ns: int,
    ) -> Reply:
        try:
            response = await coming
        except PeerError as error:
            response = self._refuse(request, call, error)
        return self._reply(response, call, correlation_id, started_ns)

    def _reply(self, response: object, call: Call, correlation_id: int, started_ns: int) -> Reply:
        elapsed_ns = self._steady_ns() - started_ns
        self._services.metrics.request_done(call.api.name, elapsed_ns / 1e9)
        if response is None:
            return None
        return encode_response(correlation_id, call.api, call.version, response)

    def _refuse(self, request: object, call: Call, error: PeerError) -> object:
        self._services.metrics.request_refused(call.api.name, error.code.name)
        return call.refuse(request, error.code, str(error))

    def _offer_versions(self, error: UnsupportedVersion) -> Reply:
        """Only this API answers a version that nobody knows: in v0, with the range it has."""
        if error.header.request_api_key != API_VERSIONS:
            raise error
        api = APIS[API_VERSIONS]
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
        return handle
