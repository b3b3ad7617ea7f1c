"""The cache of fetch sessions: creation, look-up and eviction."""

from collections import OrderedDict
from collections.abc import Iterable

from ottla.errors import ErrorCode, PeerError
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.messages.fetch import FetchRequest
from ottla.replication.fetch.fetch import (
    NO_SESSION,
    AskedPartition,
    Begin,
    Context,
    FetchItem,
    FullFetch,
    ItemRead,
)
from ottla.replication.fetch.session import (
    INITIAL_EPOCH,
    IncrementalFetch,
    Session,
    asked_partitions,
    forgotten_partitions,
)
from ottla.replication.lookup import TopicKey
from ottla.seams.clock import Clock
from ottla.seams.entropy import Entropy

# The epoch of a request that closes its session, or wants none.
FINAL_EPOCH = -1
SESSION_ID_MAX = 2**31 - 1
# A session that was idle for longer is evicted first. A younger one is not evicted by size.
EVICTION_NS = 120 * 10**9
# In all sessions together.
PARTITIONS_MAX = 500_000


class FetchSessions:
    """At most `slots_max` sessions. A client without a session is served by full fetches."""

    def __init__(
        self,
        slots_max: int,
        clock: Clock,
        entropy: Entropy,
        *,
        partitions_max: int = PARTITIONS_MAX,
        is_follower: bool = False,
    ) -> None:
        """`is_follower` if they are the sessions of a follower, which reads to the log end."""
        self._slots_max = slots_max
        self._clock = clock
        self._entropy = entropy
        self._partitions_max = partitions_max
        self._is_follower = is_follower
        # Least recently used first.
        self._sessions: OrderedDict[int, Session] = OrderedDict()
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """The number of partitions in all sessions."""
        return self._partitions

    def open(self, request: FetchRequest, isolation: Isolation, *, uses_ids: bool) -> Context:
        """The partitions of a request. PeerError if its session is unknown or does not match."""
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._close(self._sessions.get(request.session_id))
            items = [
                FetchItem(topic, asked)
                for topic, asked in asked_partitions(request.topics, uses_ids=uses_ids)
            ]
            if request.session_epoch == FINAL_EPOCH:
                return self._full(items, None, isolation)

            def begin(reads: list[ItemRead]) -> int:
                return self._begin(reads, isolation, uses_ids=uses_ids)

            return self._full(items, begin, isolation)
        session = self._checked(request, uses_ids=uses_ids)
        asked = asked_partitions(request.topics, uses_ids=uses_ids)
        forgotten = forgotten_partitions(request.forgotten_topics_data, uses_ids=uses_ids)
        return self._continued(session, asked, forgotten, isolation)

    def resume(
        self,
        session_id: int,
        session_epoch: int,
        asked: Iterable[tuple[TopicKey, AskedPartition]],
        isolation: Isolation,
    ) -> Context | None:
        """The partitions of a request that continues a session with topic ids.

        None, and nothing is changed, if there is no such session or its epoch is another.
        PeerError if there are too many partitions.
        """
        session = self._sessions.get(session_id)
        if session is None or session_epoch != session.epoch or not session.uses_ids:
            return None
        return self._continued(session, asked, (), isolation)

    def _continued(
        self,
        session: Session,
        asked: Iterable[tuple[TopicKey, AskedPartition]],
        forgotten: Iterable[tuple[TopicKey, int]],
        isolation: Isolation,
    ) -> Context:
        items = session.items
        before = len(items)
        session.update(asked, forgotten, isolation)
        self._partitions += len(items) - before
        if self._partitions > self._partitions_max:
            self._close(session)
            raise PeerError(
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "too many partitions in all sessions"
            )
        session.used_ns = self._clock.steady_ns()
        self._sessions.move_to_end(session.id)
        if not items:
            self._close(session)
            return self._full([], None, isolation)
        return IncrementalFetch(session)

    def close_all(self) -> None:
        for session in list(self._sessions.values()):
            self._close(session)

    def _full(self, items: list[FetchItem], begin: Begin | None, isolation: Isolation) -> FullFetch:
        return FullFetch(items, begin, isolation, is_follower=self._is_follower)

    def _begin(self, reads: list[ItemRead], isolation: Isolation, *, uses_ids: bool) -> int:
        """Creates a session of these partitions. Returns its id, or NO_SESSION without room."""
        now_ns = self._clock.steady_ns()
        if not reads or not self._make_room(len(reads), now_ns):
            return NO_SESSION
        session = Session(
            self._new_id(),
            isolation,
            uses_ids=uses_ids,
            now_ns=now_ns,
            is_follower=self._is_follower,
        )
        session.begin(reads)
        self._sessions[session.id] = session
        self._partitions += len(session)
        return session.id

    def _checked(self, request: FetchRequest, *, uses_ids: bool) -> Session:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise PeerError(
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"no session {request.session_id}"
            )
        if request.session_epoch != session.epoch:
            raise PeerError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"session epoch {request.session_epoch} where {session.epoch} is due",
            )
        if uses_ids != session.uses_ids:
            raise PeerError(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, "the session names topics the other way"
            )
        return session

    def _make_room(self, size: int, now_ns: int) -> bool:
        """Makes room for a session of so many partitions, and says whether there is room.

        Evicts an idle session first, else the smallest old one if it is smaller than the new one:
        the larger a session is, the more it saves.
        """
        if self._partitions + size > self._partitions_max or not self._slots_max:
            return False
        if len(self._sessions) < self._slots_max:
            return True
        idlest = next(iter(self._sessions.values()))
        if now_ns - idlest.used_ns > EVICTION_NS:
            self._close(idlest)
            return True
        settled = [
            session
            for session in self._sessions.values()
            if now_ns - session.created_ns > EVICTION_NS
        ]
        smallest = min(settled, key=len, default=None)
        if smallest is None or len(smallest) >= size:
            return False
        self._close(smallest)
        return True

    def _close(self, session: Session | None) -> None:
        if session is not None:
            del self._sessions[session.id]
            self._partitions -= len(session)
            session.close()

    def _new_id(self) -> int:
        while True:
            session_id = 1 + self._entropy.below(SESSION_ID_MAX)
            if session_id not in self._sessions:
                return session_id
