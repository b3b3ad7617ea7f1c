"""What a handler is called with besides the request."""

from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.requests.authorization import (
    OPERATIONS,
    Resource,
    Unauthorized,
    authorized_operations,
    may,
)
from ottla.errors import ErrorCode
from ottla.protocol.messages import Api
from ottla.tuples import maker

if TYPE_CHECKING:
    from ottla.broker.net.session import Session
    from ottla.broker.requests.services import Services


class Call(NamedTuple):
    """One request's circumstances: who asks, in which version, and what can be asked in turn."""

    api: Api
    version: int
    session: "Session"
    services: "Services"

    def may(self, resource: Resource) -> bool:
        """Whether the client may do to a resource what this API does to it."""
        if self.services.authorizer is None:
            return True
        operation = OPERATIONS[self.api.name][resource.kind]
        return may(self.services, self.session, operation, resource)

    def require(self, resource: Resource) -> None:
        """Unauthorized (a PeerError) unless it may."""
        if not self.may(resource):
            raise Unauthorized(resource.kind)

    def authorized_operations(self, resource: Resource) -> int:
        """The bits of all that the client may do to a resource."""
        return authorized_operations(self.services, self.session, resource)

    def refuse(self, request: object, code: ErrorCode, message: str | None = None) -> object:
        """The reply that says this error of all that was asked."""
        return self.api.refuse(request, self.version, code, message)

    def count_refusal(self, code: ErrorCode) -> None:
        """To be called for each part of a reply that says an error. The refusal of the whole, which
        a handler raises, is counted where it is met."""
        self.services.metrics.request_refused(self.api.name, code.name)


make_call = maker(Call)
