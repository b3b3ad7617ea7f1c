"""The fetch sessions of followers: one per broker. Clients' sessions do not evict them."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.metadata.image import Image
from ottla.metadata.records import Broker
from ottla.metadata.store import Entry
from ottla.metadata.values import Incarnation
from ottla.native import replica_fetch
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.messages.fetch import FetchRequest
from ottla.replication.fetch.fetch import AskedPartition, Context
from ottla.replication.fetch.session import INITIAL_EPOCH
from ottla.replication.fetch.sessions import FetchSessions
from ottla.replication.lookup import TopicKey
from ottla.seams.clock import Clock
from ottla.seams.entropy import Entropy
from ottla.tuples import maker


class FollowerPosition(NamedTuple):
    """A position of `replica_fetch`, with the names of the declared message."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_max_bytes: int


_make_position = maker(FollowerPosition)


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

    def resume(
        self,
        follower: Incarnation,
        session_id: int,
        session_epoch: int,
        topics: Iterable[replica_fetch.Topic],
    ) -> Context | None:
        """The partitions of an ordinary replica fetch. As `FetchSessions.resume`."""
        sessions = self._by_broker.get(follower.broker_id)
        if sessions is None:
            return None
        asked = _positions(topics)
        return sessions.resume(session_id, session_epoch, asked, Isolation.READ_UNCOMMITTED)

    def follow(self, image: Image, entry: Entry) -> None:  # noqa: ARG002 - a subscriber's signature
        """Closes the sessions of brokers that are gone."""
        for record in entry.records:
            if isinstance(record, Broker) and not record.is_live:
                self._close(record.broker_id)

    def _close(self, broker_id: int) -> None:
        sessions = self._by_broker.pop(broker_id, None)
        if sessions is not None:
            sessions.close_all()


def _positions(
    topics: Iterable[replica_fetch.Topic],
) -> Iterator[tuple[TopicKey, AskedPartition]]:
    for topic_id, positions in topics:
        for position in positions:
            yield topic_id, _make_position(position)
