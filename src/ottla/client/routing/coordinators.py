"""Which broker coordinates a group or a transactional id. Does no I/O."""

from collections.abc import Iterable
from typing import NamedTuple

from ottla.address import Address
from ottla.client.errors import ClientError, Refused, error_code, raise_if_refused
from ottla.client.routing.retries import is_passing
from ottla.errors import ErrorCode
from ottla.protocol.coordinator_type import CoordinatorType
from ottla.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

# Later versions ask for many keys at once, in another form.
ONE_KEY_MAX = 3
# Whose coordinators are remembered; beyond that the one that was found first is forgotten.
COORDINATORS_MAX = 10_000

# Codes by which a broker says that it is not the coordinator.
_ELSEWHERE = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
# Codes after which the same is asked again: of another broker, or of this one once it has loaded.
_ASKED_AGAIN = _ELSEWHERE | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


class CoordinatorKey(NamedTuple):
    """What has a coordinator: a group or a transaction, by its id."""

    id: str
    type: CoordinatorType = CoordinatorType.GROUP

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.id}"


class Coordinators:
    """The coordinators that were found, until one turns out not to be it any more."""

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
        """Forgets a coordinator that is another one by now, or did not answer.

        One that is still loading stays the coordinator.
        """
        if error.code in _ELSEWHERE if isinstance(error, Refused) else is_passing(error):
            self.forget(key)


def coordinator_request(key: CoordinatorKey) -> FindCoordinatorRequest:
    """What to ask any broker, in ONE_KEY_MAX at most."""
    return FindCoordinatorRequest(key=key.id, key_type=key.type)


def coordinator_address(answer: FindCoordinatorResponse, key: CoordinatorKey) -> Address:
    """Where the coordinator is now. Refused."""
    raise_if_refused(answer.error_code, f"coordinator of {key}", answer.error_message)
    return Address(answer.host, answer.port)


def raise_if_elsewhere(codes: Iterable[int], key: CoordinatorKey) -> None:
    """Refused, to be asked again, if a code says that the coordinator is elsewhere or loading."""
    for code in codes:
        if error_code(code) in _ASKED_AGAIN:
            raise_if_refused(code, str(key))
