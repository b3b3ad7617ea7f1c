"""Who keeps a group: finds its coordinator, and asks again where that has moved."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ottla.address import Address
from ottla.client.errors import error_code, raise_if_refused
from ottla.errors import ErrorCode
from ottla.protocol.coordinator_type import CoordinatorType
from ottla.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

# Named and not used: who asks by other means does without asyncio.
if TYPE_CHECKING:
    from ottla.client.connection.connection import Connection
    from ottla.client.routing.router import Router

# Later versions ask for many keys at once, in another form.
ONE_KEY_MAX = 3
# Codes by which a broker says that it is not, or not yet, the one to ask.
_ELSEWHERE = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def coordinator_request(
    key: str, kept: CoordinatorType = CoordinatorType.GROUP
) -> FindCoordinatorRequest:
    """What to ask any broker, in ONE_KEY_MAX at most."""
    return FindCoordinatorRequest(key=key, key_type=kept)


def coordinator_address(
    answer: FindCoordinatorResponse, key: str, kept: CoordinatorType = CoordinatorType.GROUP
) -> Address:
    """Where the one is that keeps it now. Refused."""
    what = f"coordinator of {kept.name.lower()} {key}"
    raise_if_refused(answer.error_code, what, answer.error_message)
    return Address(answer.host, answer.port)


def raise_if_elsewhere(codes: Iterable[int], group_id: str) -> None:
    """Refused, to be asked again, if a code says that the group is kept elsewhere or not yet."""
    for code in codes:
        if error_code(code) in _ELSEWHERE:
            raise_if_refused(code, f"group {group_id}")


async def coordinator_of(
    router: "Router", key: str, kept: CoordinatorType = CoordinatorType.GROUP
) -> "Connection":
    """A connection to the broker that keeps it now. Refused, Unreachable."""
    asked = await router.any_broker()
    answer = await asked.ask(coordinator_request(key, kept), version_max=ONE_KEY_MAX)
    return await router.connection_to(coordinator_address(answer, key, kept))


async def ask_coordinator(
    router: "Router",
    key: str,
    request: object,
    codes_of: Callable[[Any], Iterable[int]],
    *,
    version_max: int | None = None,
) -> Any:
    """The answer of a group's coordinator; `codes_of` are the error codes in it.

    If one says that the group is kept elsewhere, or is being loaded, it is asked for again.
    """

    async def ask() -> Any:
        connection = await coordinator_of(router, key)
        answer = await connection.ask(request, version_max=version_max)
        raise_if_elsewhere(codes_of(answer), key)
        return answer

    return await router.retrying(ask)
