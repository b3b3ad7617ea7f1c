"""A client's session: its principal, listener, client id and quota.

All decisions that depend on the client read the session: the advertised address, authorization,
throttling. A connection has one session from its first byte to its last.
"""

import itertools
import sys
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.settings.listeners import SecurityProtocol

if TYPE_CHECKING:
    from ottla.broker.net.connection import FrameHandler


class Principal(NamedTuple):
    """An identity as Kafka prints it: `User:alice`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")


class QuotaBucket(Protocol):
    """A client's use of its quota. Connections of one client may share it."""

    @property
    def throttle_time_ms(self) -> int:
        """The throttle time of the response that is being made."""
        ...

    @property
    def response_bytes_max(self) -> int:
        """A larger response would throttle the client for too long."""
        ...

    def charge_response(self, size_bytes: int) -> bool:
        """Counts an encoded response; whether the throttle time has changed by it."""
        ...


class Unlimited:
    """No quota: the client is never throttled."""

    __slots__ = ()
    throttle_time_ms = 0
    response_bytes_max = sys.maxsize

    def charge_response(self, size_bytes: int) -> bool:  # noqa: ARG002 - nothing is counted
        return False


UNLIMITED = Unlimited()

_numbers = itertools.count(1)


class Session:
    """Only the connection and the handler of its frames change it."""

    __slots__ = (
        "client_id",
        "handler",
        "is_forwarded",
        "listener",
        "local_address",
        "number",
        "peer_host",
        "principal",
        "quota",
        "security_protocol",
    )

    def __init__(
        self, handler: "FrameHandler", listener: str, security_protocol: SecurityProtocol
    ) -> None:
        # Increases with each connection.
        self.number = next(_numbers)
        # Handles every frame of the connection. May be replaced between frames: before
        # authentication, for example, by a handler that refuses most requests.
        self.handler = handler
        self.listener = listener
        self.security_protocol = security_protocol
        self.principal = ANONYMOUS
        self.quota: QuotaBucket = UNLIMITED
        # The client id of the last request.
        self.client_id: str | None = None
        # Whether another broker forwards the client's requests.
        self.is_forwarded = False
        # Known once the connection is made.
        self.peer_host = ""
        self.local_address: tuple[str, int] = ("", 0)
