"""The fetch sessions of followers: one per broker. Clients' sessions do not evict them."""

from ottla.metadata.image import Image
from ottla.metadata.records import Broker
from ottla.metadata.store import Entry
from ottla.metadata.values import Incarnation
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.messages.fetch import FetchRequest
from ottla.replication.fetch.fetch import Context
from ottla.replication.fetch.session import INITIAL_EPOCH
from ottla.replication.fetch.sessions import FetchSessions
from ottla.seams.clock import Clock
from ottla.seams.entropy import Entropy


class FollowerSessions:
    """A new session of a broker closes its last one, and so does the end of the broker."""

    def __init__(self, clock: Clock, entropy: Entropy) -> None:
        self._clock = clock
        self._entropy = entropy
        self._by_broker: dict[int, FetchSessions] = {}

    def open(self, request: FetchRequest, follower: Incarnation, *, uses_ids: bool) -> Context:
        """The partitions of a request. PeerError as `FetchSessions.open`."""
        if request.session_epoch == INITIAL_EPOCH:
            self._close(follower.broker_id)
        sessions = self._by_broker.get(follower.broker_id)
        if sessions is None:
            sessions = self._by_broker[follower.broker_id] = FetchSessions(
                1, self._clock, self._entropy, is_follower=True
            )
        return sessions.open(request, Isolation.READ_UNCOMMITTED, uses_ids=uses_ids)

    def follow(self, image: Image, entry: Entry) -> None:  # noqa: ARG002 - a subscriber's signature
        """Closes the sessions of brokers that are gone."""
        for record in entry.records:
            if isinstance(record, Broker) and not record.is_live:
                self._close(record.broker_id)

    def _close(self, broker_id: int) -> None:
        sessions = self._by_broker.pop(broker_id, None)
        if sessions is not None:
            sessions.close_all()
