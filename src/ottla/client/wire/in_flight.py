"""One connection's conversation: requests in, bytes out; bytes in, responses out. Does no I/O."""

from collections import deque
from collections.abc import Iterator
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
# Behind the header of every answer to ApiVersions, which has but a correlation id.
_API_VERSIONS_ERROR = slice(4, 6)


class UnexpectedAnswer(PeerError):
    """An answer to a question that was not the next one: the conversation is lost."""

    def __init__(self, correlation_id: int) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, f"an answer to request {correlation_id}")


class Sent(NamedTuple):
    """A request as bytes. `is_answered` is False for the one kind that no broker answers."""

    correlation_id: int
    parts: list[Part]
    is_answered: bool


class Answer(NamedTuple):
    """What was answered to a request. Records in it are views that nobody else will change."""

    correlation_id: int
    response: Any


class _Awaited(NamedTuple):
    correlation_id: int
    api: Api
    version: int


class Wire:
    """Numbers requests and matches answers, which come in the order of their requests.

    `versions` is what the broker speaks: set once it is known; before that a request names its own
    version.
    """

    def __init__(self, *, client_id: str, answer_bytes_max: int, in_flight_max: int) -> None:
        self.versions: Versions | None = None
        self._client_id = client_id
        self._in_flight_max = in_flight_max
        self._frames = FrameReader(answer_bytes_max)
        self._awaited: deque[_Awaited] = deque()
        self._next_id = 0

    def negotiate(self, response: ApiVersionsResponse, asked: int) -> int | None:
        """Takes the answer to an ApiVersions in version `asked`; the version to ask in next.

        None if what the broker speaks is known now. UnsupportedByBroker.
        """
        agreed = agree(response, asked)
        if isinstance(agreed, Versions):
            self.versions = agreed
            return None
        return agreed

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answer."""
        return len(self._awaited)

    def send(
        self, request: Any, *, version: int | None = None, version_max: int | None = None
    ) -> Sent:
        """The bytes of a request, in `version` or the highest that both speak.

        UnsupportedByBroker if there is none. RuntimeError if too many wait for their answer.
        """
        api = api_of(request)
        if version is None:
            if self.versions is None:
                raise RuntimeError("what the broker speaks is not known yet")
            version = self.versions.highest(api, version_max)
        if self.in_flight >= self._in_flight_max:
            raise RuntimeError(f"{self.in_flight} requests wait for their answer already")
        correlation_id = self._next_id
        parts = encode_request(correlation_id, api, version, request, self._client_id)
        self._next_id = 0 if correlation_id == _CORRELATION_ID_MAX else correlation_id + 1
        is_answered = api.key != PRODUCE_KEY or request.acks != 0
        if is_answered:
            self._awaited.append(_Awaited(correlation_id, api, version))
        return Sent(correlation_id, parts, is_answered)

    def receive(self, chunk: Buffer) -> Iterator[Answer]:
        """The answers that these bytes complete; `chunk` must not change afterwards.

        PeerError for what is no answer: nothing that follows on the connection has a meaning.
        """
        self._frames.feed(chunk)
        while (frame := self._frames.next_frame()) is not None:
            correlation_id = decode_correlation_id(frame)
            if not self._awaited or self._awaited[0].correlation_id != correlation_id:
                raise UnexpectedAnswer(correlation_id)
            _, api, version = self._awaited.popleft()
            yield Answer(
                correlation_id, decode_response(frame, api, _version_of(frame, api, version))
            )


def wire_of(options: ClientOptions) -> Wire:
    """A conversation within the limits of a client."""
    return Wire(
        client_id=options.client_id,
        answer_bytes_max=options.receive_message_max_bytes,
        in_flight_max=options.max_in_flight_requests_per_connection,
    )


def api_of(request: object) -> Api:
    """Of which API this is a request. TypeError if it is none."""
    # A response has the key of its request.
    key = schema_of(type(request)).key
    if key is None or APIS[key].request is not type(request):
        raise TypeError(f"{type(request).__name__} is no request")
    return APIS[key]


def _version_of(frame: memoryview, api: Api, asked: int) -> int:
    """The version an answer is in: the one asked in, but for a broker that does not know that."""
    if api is API_VERSIONS:
        error = int.from_bytes(frame[_API_VERSIONS_ERROR], "big", signed=True)
        if error == ErrorCode.UNSUPPORTED_VERSION:
            return API_VERSIONS.versions[0]
    return asked
