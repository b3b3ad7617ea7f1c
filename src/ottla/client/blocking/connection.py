"""A blocking connection to one broker: a socket around `client.wire`."""

from typing import Any, cast

from ottla.address import Address
from ottla.client.errors import ConnectionLost, TimedOut, reason_of, unreachable_error
from ottla.client.options import ClientOptions
from ottla.client.wire.in_flight import new_in_flight_requests
from ottla.client.wire.versions import API_VERSIONS, versions_request
from ottla.errors import PeerError
from ottla.seams.blocking import Blocking, Stream
from ottla.seams.clock import Clock

# The bytes per read from the socket.
_RECEIVE_BYTES = 256 * 1024


class BlockingConnection:
    """A connection of one thread, made by `dial`. Several requests may be in flight.

    A request that times out ends the connection, since later responses would wait behind it.
    """

    def __init__(
        self, stream: Stream, address: Address, options: ClientOptions, clock: Clock
    ) -> None:
        self.address = address
        self._stream = stream
        self._options = options
        self._clock = clock
        self._in_flight = new_in_flight_requests(options)
        # Responses that `answer` has not returned yet, and requests whose response is not needed.
        self._answers: dict[int, Any] = {}
        self._forgotten: set[int] = set()
        self._end: ConnectionLost | None = None

    @property
    def is_open(self) -> bool:
        return self._end is None

    def ask(self, request: object, *, version_max: int | None = None) -> Any:
        """The response to a request. TimedOut, ConnectionLost or UnsupportedByBroker."""
        return self.answer(self.send(request, version_max=version_max))

    def send(self, request: object, *, version_max: int | None = None) -> int:
        """Sends a request; the number for `answer` or `forget`.

        If too many requests are in flight, waits for a response first. TimedOut, ConnectionLost
        or UnsupportedByBroker.
        """
        timeout_ms = self._options.request_timeout_ms
        while self._in_flight.in_flight >= self._options.max_in_flight_requests_per_connection:
            self._check_open()
            self._receive(timeout_ms, timeout_ms)
        return self._send(request, None, version_max, timeout_ms)

    def answer(self, number: int) -> Any:
        """Returns the response to a sent request, once. TimedOut, ConnectionLost."""
        return self._answer(number, self._options.request_timeout_ms)

    def forget(self, number: int) -> None:
        """Discards the response to a request, now or when it arrives."""
        if self._answers.pop(number, None) is None and self.is_open:
            self._forgotten.add(number)

    def negotiate(self, timeout_ms: int) -> None:
        """Asks for the broker's versions. The first request on a connection."""
        version: int | None = API_VERSIONS.versions[1]
        while version is not None:
            number = self._send(versions_request(), version, None, timeout_ms)
            version = self._in_flight.negotiate(self._answer(number, timeout_ms), version)

    def close(self) -> None:
        """Closes the connection. Idempotent."""
        self._finish(ConnectionLost(f"the connection to {self.address} was closed"))

    def _send(
        self, request: object, version: int | None, version_max: int | None, timeout_ms: int
    ) -> int:
        self._check_open()
        sent = self._in_flight.send(request, version=version, version_max=version_max)
        try:
            # Clients send bytes. Only brokers send file slices.
            self._stream.send(cast("list[bytes]", sent.parts), timeout_ms)
        except OSError as error:
            raise self._finish(ConnectionLost(f"{self.address}: {reason_of(error)}")) from None
        return sent.correlation_id

    def _answer(self, number: int, timeout_ms: int) -> Any:
        """Receives until the response is there; keeps the responses that arrive before it."""
        deadline_ns = self._clock.steady_ns() + timeout_ms * 1_000_000
        while number not in self._answers:
            self._check_open()
            left_ms = (deadline_ns - self._clock.steady_ns()) // 1_000_000
            self._receive(left_ms, timeout_ms)
        return self._answers.pop(number)

    def _receive(self, left_ms: int, timeout_ms: int) -> None:
        try:
            if left_ms <= 0:
                raise TimeoutError
            chunk = self._stream.receive(_RECEIVE_BYTES, left_ms)
            if not chunk:
                raise self._finish(ConnectionLost(f"{self.address} closed the connection"))
            for correlation_id, response in self._in_flight.receive(chunk):
                if correlation_id in self._forgotten:
                    self._forgotten.discard(correlation_id)
                else:
                    self._answers[correlation_id] = response
        except TimeoutError:
            error = TimedOut(f"{self.address} did not answer within {timeout_ms} ms")
            self._finish(ConnectionLost(f"given up, since {error}"))
            raise error from None
        except OSError as error:
            raise self._finish(ConnectionLost(f"{self.address}: {reason_of(error)}")) from None
        except PeerError as error:
            raise self._finish(
                ConnectionLost(f"{self.address} sent what is no answer: {error}")
            ) from None

    def _check_open(self) -> None:
        if self._end is not None:
            raise ConnectionLost(str(self._end))

    def _finish(self, error: ConnectionLost) -> ConnectionLost:
        """Ends the connection. Keeps the first reason."""
        if self._end is None:
            self._end = error
            self._stream.close()
            self._answers.clear()
            self._forgotten.clear()
        return error


def dial(
    blocking: Blocking, clock: Clock, address: Address, options: ClientOptions
) -> BlockingConnection:
    """Connects to a broker and negotiates versions.

    Unreachable if there is no connection or no broker answers; UnsupportedByBroker.
    """
    timeout_ms = options.socket_connection_setup_timeout_ms
    try:
        stream = blocking.dial(*address, timeout_ms)
    except OSError as error:
        raise unreachable_error(address, error, timeout_ms) from None
    connection = BlockingConnection(stream, address, options, clock)
    try:
        connection.negotiate(timeout_ms)
    except (TimedOut, ConnectionLost) as error:
        raise unreachable_error(address, error, timeout_ms) from None
    except BaseException:
        connection.close()
        raise
    return connection
