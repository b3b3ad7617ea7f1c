"""A connection to one broker for a thread that may block: a socket around `client.wire`."""

from typing import Any, cast

from ottla.address import Address
from ottla.client.errors import ConnectionLost, TimedOut, reason_of, why_unreachable
from ottla.client.options import ClientOptions
from ottla.client.wire.in_flight import wire_of
from ottla.client.wire.versions import API_VERSIONS, versions_request
from ottla.errors import PeerError
from ottla.seams.blocking import Blocking, Stream
from ottla.seams.clock import Clock

# What is asked of the kernel at once: a fetched megabyte takes a few calls.
_RECEIVE_BYTES = 256 * 1024


class BlockingConnection:
    """Made by `dial`; of one thread. The next question may be sent before an answer is taken.

    After a question that was not answered in time nothing more is asked here: whatever came later
    would have waited behind it.
    """

    def __init__(
        self, stream: Stream, address: Address, options: ClientOptions, clock: Clock
    ) -> None:
        self.address = address
        self._stream = stream
        self._options = options
        self._clock = clock
        self._wire = wire_of(options)
        # Answers that came before they were asked for, and questions whose answers nobody wants.
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
        """Sends a question; the number under which its answer is taken, or forgotten.

        Where too many wait for their answers, one of these comes first. TimedOut, ConnectionLost
        or UnsupportedByBroker.
        """
        timeout_ms = self._options.request_timeout_ms
        while self._wire.in_flight >= self._options.max_in_flight_requests_per_connection:
            self._check_open()
            self._receive(timeout_ms, timeout_ms)
        return self._send(request, None, version_max, timeout_ms)

    def answer(self, number: int) -> Any:
        """The answer to what was sent, once. TimedOut, ConnectionLost."""
        return self._answer(number, self._options.request_timeout_ms)

    def forget(self, number: int) -> None:
        """Lets go of an answer that nobody waits for any more, whether it is there or to come."""
        if self._answers.pop(number, None) is None and self.is_open:
            self._forgotten.add(number)

    def negotiate(self, timeout_ms: int) -> None:
        """Asks the broker what it speaks: the first thing on a connection."""
        version: int | None = API_VERSIONS.versions[1]
        while version is not None:
            number = self._send(versions_request(), version, None, timeout_ms)
            version = self._wire.negotiate(self._answer(number, timeout_ms), version)

    def close(self) -> None:
        """Idempotent. What was not answered will not be."""
        self._finish(ConnectionLost(f"the connection to {self.address} was closed"))

    def _send(
        self, request: object, version: int | None, version_max: int | None, timeout_ms: int
    ) -> int:
        self._check_open()
        sent = self._wire.send(request, version=version, version_max=version_max)
        try:
            # What a client sends lies in memory; a slice of a file is a broker's alone.
            self._stream.send(cast("list[bytes]", sent.parts), timeout_ms)
        except OSError as error:
            raise self._finish(ConnectionLost(f"{self.address}: {reason_of(error)}")) from None
        return sent.correlation_id

    def _answer(self, number: int, timeout_ms: int) -> Any:
        """Reads on until the answer is there; others that come before it are kept."""
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
            for correlation_id, response in self._wire.receive(chunk):
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
        """Ends the connection, for the first reason that there was."""
        if self._end is None:
            self._end = error
            self._stream.close()
            self._answers.clear()
            self._forgotten.clear()
        return error


def dial(
    blocking: Blocking, clock: Clock, address: Address, options: ClientOptions
) -> BlockingConnection:
    """A connection on which it is known what the broker speaks.

    Unreachable if nobody is there or no broker answers; UnsupportedByBroker.
    """
    timeout_ms = options.socket_connection_setup_timeout_ms
    try:
        stream = blocking.dial(*address, timeout_ms)
    except OSError as error:
        raise why_unreachable(address, error, timeout_ms) from None
    connection = BlockingConnection(stream, address, options, clock)
    try:
        connection.negotiate(timeout_ms)
    except (TimedOut, ConnectionLost) as error:
        raise why_unreachable(address, error, timeout_ms) from None
    except BaseException:
        connection.close()
        raise
    return connection
