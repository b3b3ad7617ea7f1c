"""The errors of requests: no connection, no response in time, an error code in the response."""

import os

from ottla.address import Address
from ottla.errors import RETRIABLE, ErrorCode, OttlaError


class ClientError(OttlaError):
    """A request that failed."""


class BadAddress(ClientError):
    """A text that is not an address."""


class Unreachable(ClientError):
    """No broker answers at an address."""


class TimedOut(ClientError):
    """No response within the timeout."""


class ConnectionLost(ClientError):
    """The connection ended before the response arrived, or its bytes were no response."""


class UnsupportedByBroker(ClientError):
    """The broker does not serve this API in any version that the client supports."""


class Refused(ClientError):
    """The response has an error code."""

    def __init__(self, code: ErrorCode, what: str, message: str | None = None) -> None:
        reason = f"{code.name}: {message}" if message else code.name
        super().__init__(f"{what}: {reason}")
        self.code = code
        self.what = what
        self.message = message

    @property
    def is_retriable(self) -> bool:
        return self.code in RETRIABLE


def reason_of(error: OSError) -> str:
    """The operating system's message for a socket error."""
    if isinstance(error, ConnectionError) and error.errno is not None:
        return os.strerror(error.errno)
    return error.strerror or str(error)


def unreachable_error(address: Address, error: Exception, timeout_ms: int) -> Unreachable:
    """The error for an address to which the connection, or its ApiVersions request, failed."""
    match error:
        case TimeoutError() | TimedOut():
            return Unreachable(f"{address} did not answer within {timeout_ms} ms")
        case OSError():
            return Unreachable(f"{address}: {reason_of(error)}")
        case _:
            return Unreachable(f"no Kafka broker answers there: {error}")


def error_code(number: int) -> ErrorCode:
    """The error code of a response; UNKNOWN_SERVER_ERROR for the code of a later version."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def refusal(number: int, what: str, message: str | None = None) -> Refused | None:
    """The error for a code in the response to a request about `what`; None for NONE."""
    if number == ErrorCode.NONE:
        return None
    return Refused(error_code(number), what, message)


def raise_if_refused(number: int, what: str, message: str | None = None) -> None:
    if refused := refusal(number, what, message):
        raise refused
