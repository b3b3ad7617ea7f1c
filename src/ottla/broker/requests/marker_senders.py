"""Refuses transaction markers that arrive on a former connection of their coordinator.

A coordinator that gets no answer ends the connection and sends its markers again on another one. If
the first request arrives after the second one was answered, its markers may be late: before
transaction.version 2 the next transaction has the same producer epoch, and they would end it. The
coordinator epoch does not tell them apart.
"""

from ottla.broker.net.session import Session
from ottla.errors import ErrorCode, PeerError


class MarkerSenders:
    """The newest connection of each broker that sends markers."""

    def __init__(self) -> None:
        # Session numbers by the client ids of brokers, of which there are few.
        self._newest: dict[str, int] = {}

    def check(self, session: Session, broker_client_ids: frozenset[str]) -> None:
        """PeerError if the sender has sent markers on a later connection.

        Administrators, who are no brokers, may use as many connections as they like.
        """
        client_id = session.client_id
        if client_id is None or client_id not in broker_client_ids:
            return
        if session.number < self._newest.get(client_id, 0):
            raise PeerError(
                ErrorCode.REQUEST_TIMED_OUT, f"{client_id} has a later connection for markers"
            )
        self._newest[client_id] = session.number
