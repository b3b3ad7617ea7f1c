"""Who is at the other end of a connection, and by which listener it came.

Whatever depends on the client is read from here: the address that it is told, later its rights and
its quotas. A connection has one session, from its first byte to its last.
"""

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
    """What a client has used of its quota. Connections of one client may share it."""

    @property
    def throttle_time_ms(self) -> int:
        """For how long the client should send nothing after the reply that is made now."""
        ...


class Unlimited:
    """No quota: nobody is throttled."""

    __slots__ = ()
    throttle_time_ms = 0


UNLIMITED = Unlimited()


class Session:
    """Changed by its own connection alone, and by the handler of its frames."""

    __slots__ = (
        "client_id",
        "handler",
        "listener",
        "local_address",
        "peer_host",
        "principal",
        "quota",
        "security_protocol",
    )

    def __init__(
        self, handler: "FrameHandler", listener: str, security_protocol: SecurityProtocol
    ) -> None:
        # Handles every frame of the connection. Whoever replaces it decides about the next frame:
        # a client that has not authenticated yet has one that refuses most requests.
        self.handler = handler
        self.listener = listener
        self.security_protocol = security_protocol
        self.principal = ANONYMOUS
        self.quota: QuotaBucket = UNLIMITED
        # As the latest request named it.
        self.client_id: str | None = None
        # Known once the connection is made.
        self.peer_host = ""
        self.local_address: tuple[str, int] = ("", 0)
