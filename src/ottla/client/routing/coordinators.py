"""The coordinators of groups and transactional ids. Does no I/O."""

from collections.abc import Iterable
from typing import NamedTuple

from ottla.address import Address
from ottla.client.errors import ClientError, Refused, error_code, raise_if_refused
from ottla.client.routing.retries import is_retriable
from ottla.errors import ErrorCode
from ottla.protocol.coordinator_type import CoordinatorType
from ottla.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

# The last version of FindCoordinator with one key per request.
ONE_KEY_VERSION_MAX = 3
# The limit of known coordinators; the oldest is dropped first.
COORDINATORS_MAX = 10_000

# The broker is not the coordinator.
_NOT_COORDINATOR = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
# The request is retried: at another broker, or at this one when it has loaded.
_RETRIED = _NOT_COORDINATOR | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


class CoordinatorKey(NamedTuple):
    """A group or a transactional id."""

    id: str
    type: CoordinatorType = CoordinatorType.GROUP

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.id}"


class Coordinators:
    """The known coordinators."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[CoordinatorKey, Address] = {}

    def get(self, key: CoordinatorKey) -> Address | None:
        return self._found.get(key)

    def found(self, key: CoordinatorKey, address: Address) -> None:
        if len(self._found) >= COORDINATORS_MAX and key not in self._found:
            del self._found[next(iter(self._found))]
        self._found[key] = address

    def forget(self, key: CoordinatorKey) -> None:
        self._found.pop(key, None)

    def failed(self, key: CoordinatorKey, error: ClientError) -> None:
        """Forgets the coordinator after an error, unless it is only loading."""
        if error.code in _NOT_COORDINATOR if isinstance(error, Refused) else is_retriable(error):
            self.forget(key)


def coordinator_request(key: CoordinatorKey) -> FindCoordinatorRequest:
    """The request to any broker, in version ONE_KEY_VERSION_MAX at most."""
    return FindCoordinatorRequest(key=key.id, key_type=key.type)


def coordinator_address(answer: FindCoordinatorResponse, key: CoordinatorKey) -> Address:
    """The coordinator's address in the response. Refused."""
    raise_if_refused(answer.error_code, f"coordinator of {key}", answer.error_message)
    return Address(answer.host, answer.port)


def raise_if_not_coordinator(codes: Iterable[int], key: CoordinatorKey) -> None:
    """Raises Refused, to be retried, if a code says that the coordinator has moved or loads."""
    for code in codes:
        if error_code(code) in _RETRIED:
            raise_if_refused(code, str(key))
