"""How a question to a broker fails: nobody there, no answer in time, an answer that says no."""

import os

from ottla.address import Address
from ottla.errors import RETRIABLE, ErrorCode, OttlaError


class ClientError(OttlaError):
    """A question to a broker that brought nothing."""


class BadAddress(ClientError):
    """Text that names no host and port."""


class Unreachable(ClientError):
    """Nobody answers at an address that was given or learned."""


class TimedOut(ClientError):
    """No answer within the time that was given for it."""


class ConnectionLost(ClientError):
    """The connection ended, or what came on it was no answer, before the answer was there."""


class UnsupportedByBroker(ClientError):
    """The broker does not speak this API, or in none of the versions that are spoken here."""


class Refused(ClientError):
    """The broker answered, with an error."""

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
    """Why a socket failed, in the system's words alone."""
    if isinstance(error, ConnectionError) and error.errno is not None:
        return os.strerror(error.errno)
    return error.strerror or str(error)


def why_unreachable(address: Address, error: Exception, timeout_ms: int) -> Unreachable:
    """What a failure to connect, or to learn what the broker speaks, means for an address."""
    match error:
        case TimeoutError() | TimedOut():
            return Unreachable(f"{address} did not answer within {timeout_ms} ms")
        case OSError():
            return Unreachable(f"{address}: {reason_of(error)}")
        case _:
            return Unreachable(f"no Kafka broker answers there: {error}")


def error_code(number: int) -> ErrorCode:
    """The code in an answer; one that a later broker made up is an error like any unknown one."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def refusal(number: int, what: str, message: str | None = None) -> Refused | None:
    """What an answer's error code means for `what` was asked; None if it is none."""
    if number == ErrorCode.NONE:
        return None
    return Refused(error_code(number), what, message)


def raise_if_refused(number: int, what: str, message: str | None = None) -> None:
    if refused := refusal(number, what, message):
        raise refused
