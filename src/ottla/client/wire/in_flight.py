"""Encodes a connection's requests, and matches its responses to them. Does no I/O."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ottla.client.options import ClientOptions
from ottla.client.wire.versions import API_VERSIONS, Versions, agree
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.codec import schema_of
from ottla.protocol.exchange import decode_correlation_id, decode_response, encode_request
from ottla.protocol.framing import FrameReader
from ottla.protocol.messages import APIS, Api
from ottla.protocol.messages.api_versions import ApiVersionsResponse
from ottla.protocol.primitives import Buffer, Part

PRODUCE_KEY = 0
_CORRELATION_ID_MAX = 2**31 - 1
# Follows the response header of ApiVersions, which is only a correlation id in every version.
_API_VERSIONS_ERROR = slice(4, 6)


class UnexpectedResponse(PeerError):
    """A response that does not belong to the oldest request in flight: the connection is broken."""

    def __init__(self, correlation_id: int) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, f"an answer to request {correlation_id}")


class SentRequest(NamedTuple):
    """An encoded request. `expects_response` is False for a produce with acks=0."""

    correlation_id: int
    parts: list[Part]
    expects_response: bool


class ReceivedResponse(NamedTuple):
    """A decoded response. Records in it are views of memory that nothing changes.

    The response to an encoded request is its frame, without the length.
    """

    correlation_id: int
    response: Any


class _InFlightRequest(NamedTuple):
    correlation_id: int
    api: Api
    version: int
    # Whether the caller decodes the response.
    is_raw: bool = False


# The frame of a request with this correlation id.
EncodeRequest = Callable[[int], bytearray]


class InFlightRequests:
    """Numbers requests and matches responses, which arrive in the order of the requests.

    `versions` are the broker's, known after `negotiate`. Earlier requests give their own version.
    """

    def __init__(self, *, client_id: str, response_bytes_max: int, in_flight_max: int) -> None:
        self.versions: Versions | None = None
        self._client_id = client_id
        self._in_flight_max = in_flight_max
        self._frames = FrameReader(response_bytes_max)
        self._oldest_first: deque[_InFlightRequest] = deque()
        self._next_id = 0

    def negotiate(self, response: ApiVersionsResponse, asked: int) -> int | None:
        """Takes the response to an ApiVersions of version `asked`; the version of the next attempt.

        None if the broker's versions are known now. UnsupportedByBroker.
        """
        agreed = agree(response, asked)
        if isinstance(agreed, Versions):
            self.versions = agreed
            return None
        return agreed

    @property
    def in_flight(self) -> int:
        """The number of requests without a response."""
        return len(self._oldest_first)

    def send(
        self, request: Any, *, version: int | None = None, version_max: int | None = None
    ) -> SentRequest:
        """Encodes a request, in `version` or the highest common version.

        UnsupportedByBroker if there is none. RuntimeError if too many requests are in flight.
        """
        api = api_of(request)
        if version is None:
            if self.versions is None:
                raise RuntimeError("what the broker speaks is not known yet")
            version = self.versions.highest(api, version_max)
        correlation_id = self._take_id()
        parts = encode_request(correlation_id, api, version, request, self._client_id)
        expects_response = api.key != PRODUCE_KEY or request.acks != 0
        if expects_response:
            self._oldest_first.append(_InFlightRequest(correlation_id, api, version))
        return SentRequest(correlation_id, parts, expects_response)

    def send_encoded(self, api: Api, version: int, encode: EncodeRequest) -> tuple[int, bytearray]:
        """The correlation id and the frame of a request whose response the caller decodes.

        RuntimeError as `send`.
        """
        correlation_id = self._take_id()
        self._oldest_first.append(_InFlightRequest(correlation_id, api, version, is_raw=True))
        return correlation_id, encode(correlation_id)

    def _take_id(self) -> int:
        if self.in_flight >= self._in_flight_max:
            raise RuntimeError(f"{self.in_flight} requests wait for their answer already")
        correlation_id = self._next_id
        self._next_id = 0 if correlation_id == _CORRELATION_ID_MAX else correlation_id + 1
        return correlation_id

    def receive(self, chunk: Buffer) -> Iterator[ReceivedResponse]:
        """The responses that these bytes complete. `chunk` must not change afterwards.

        PeerError for bytes that are no response: the connection cannot be used any more.
        """
        self._frames.feed(chunk)
        while (frame := self._frames.next_frame()) is not None:
            correlation_id = decode_correlation_id(frame)
            if not self._oldest_first or self._oldest_first[0].correlation_id != correlation_id:
                raise UnexpectedResponse(correlation_id)
            _, api, version, is_raw = self._oldest_first.popleft()
            if is_raw:
                yield ReceivedResponse(correlation_id, frame)
                continue
            yield ReceivedResponse(
                correlation_id, decode_response(frame, api, _version_of(frame, api, version))
            )


def new_in_flight_requests(options: ClientOptions) -> InFlightRequests:
    """The protocol state of a new connection, with the limits of the options."""
    return InFlightRequests(
        client_id=options.client_id,
        response_bytes_max=options.receive_message_max_bytes,
        in_flight_max=options.max_in_flight_requests_per_connection,
    )


def api_of(request: object) -> Api:
    """The API of a request. TypeError if the message is no request."""
    # Responses have the key of their request.
    key = schema_of(type(request)).key
    if key is None or APIS[key].request is not type(request):
        raise TypeError(f"{type(request).__name__} is no request")
    return APIS[key]


def _version_of(frame: memoryview, api: Api, asked: int) -> int:
    """The version of a response: the request's, or v0 if the broker does not know that version."""
    if api is API_VERSIONS:
        error = int.from_bytes(frame[_API_VERSIONS_ERROR], "big", signed=True)
        if error == ErrorCode.UNSUPPORTED_VERSION:
            return API_VERSIONS.versions[0]
    return asked
