"""The context of a request, which each handler gets with it."""

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
    """A request's API and version, the client's session, and the services of the node."""

    api: Api
    version: int
    session: "Session"
    services: "Services"

    def may(self, resource: Resource) -> bool:
        """Whether the client is authorized for this API's operation on a resource."""
        if self.services.authorizer is None:
            return True
        operation = OPERATIONS[self.api.name][resource.kind]
        return may(self.services, self.session, operation, resource)

    def require(self, resource: Resource) -> None:
        """Raises Unauthorized, a PeerError, unless `may`."""
        if not self.may(resource):
            raise Unauthorized(resource.kind)

    def authorized_operations(self, resource: Resource) -> int:
        """The bit field of the operations that the client is authorized for."""
        return authorized_operations(self.services, self.session, resource)

    def refuse(self, request: object, code: ErrorCode, message: str | None = None) -> object:
        """The response that has this error for every part of the request."""
        return self.api.refuse(request, self.version, code, message)

    def count_refusal(self, code: ErrorCode) -> None:
        """Counts an error in one part of a response.

        A PeerError that a handler raises is counted by `Dispatch`.
        """
        self.services.metrics.request_refused(self.api.name, code.name)


make_call = maker(Call)
