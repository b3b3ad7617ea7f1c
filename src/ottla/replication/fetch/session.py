"""One fetch session (KIP-227): a client names its partitions once, then only what changes.

A session marks the partitions that may have news: those that grew, moved or were named in a
request. A read that finds nothing removes the mark. So a request of an idle session costs the same
for one partition and for a thousand.
"""

from collections.abc import Iterable, Iterator

from ottla.errors import PeerError
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.messages.fetch import ForgottenTopic, Topic
from ottla.protocol.primitives import NO_BROKER
from ottla.replication.fetch.fetch import (
    Answer,
    AskedPartition,
    FetchItem,
    ItemRead,
    Reading,
    waiting_room,
)
from ottla.replication.lookup import TopicKey
from ottla.replication.purgatory import WaitingRoom, Watcher
from ottla.replication.replica import Replica

# The epoch of a request for a new session. Its first incremental request has the next epoch.
INITIAL_EPOCH = 0
EPOCH_MAX = 2**31 - 1
NOTHING_TOLD = -1


class SessionItem(FetchItem):
    """One partition of a session, with the offsets that its client was last sent."""

    __slots__ = ("_session", "_told_high_watermark", "_told_start_offset")

    def __init__(self, session: "Session", topic: TopicKey, asked: AskedPartition) -> None:
        super().__init__(topic, asked)
        self._session = session
        self._told_high_watermark = self._told_start_offset = NOTHING_TOLD

    def attach(self, replica: Replica | None) -> None:
        if self.replica is not None:
            waiting_room(self.replica, is_follower=self._session.is_follower).leave(self)
        self.replica = replica
        self.watch()

    def watch(self) -> None:
        """Watches the replica for bytes that the session's isolation level may read."""
        if self.replica is not None:
            is_committed_only = self._session.isolation is Isolation.READ_COMMITTED
            room = waiting_room(self.replica, is_follower=self._session.is_follower)
            room.enter(self, is_committed_only=is_committed_only)

    def count(self, amount: int) -> None:
        """The partition has more bytes to read, or another high watermark."""
        session = self._session
        session.dirty[self] = None
        for watcher in session.waiting.watchers:
            watcher.count(amount)

    def wake(self) -> None:
        """The partition changed."""
        self._session.dirty[self] = None
        self._session.waiting.wake_all()

    def has_news(self, read: ItemRead) -> bool:
        """Whether the result differs from the client's last answer."""
        result = read.outcome
        return (
            isinstance(result, PeerError)
            or result.records is not None  # mostly
            or result.diverging is not None
            or result.preferred_read_replica != NO_BROKER
            or result.high_watermark != self._told_high_watermark
            or result.start_offset != self._told_start_offset
        )

    def told(self, read: ItemRead) -> None:
        """Notes a result that is sent to the client."""
        result = read.outcome
        if isinstance(result, PeerError):
            self._told_high_watermark = self._told_start_offset = NOTHING_TOLD
        else:
            self._told_high_watermark = result.high_watermark
            self._told_start_offset = result.start_offset


class Session:
    """The partitions of one client. `dirty` holds those to be read next, in the order of turns."""

    __slots__ = (
        "created_ns",
        "dirty",
        "epoch",
        "id",
        "is_follower",
        "isolation",
        "items",
        "used_ns",
        "uses_ids",
        "waiting",
    )

    def __init__(
        self,
        session_id: int,
        isolation: Isolation,
        *,
        uses_ids: bool,
        now_ns: int,
        is_follower: bool = False,
    ) -> None:
        self.id = session_id
        self.epoch = INITIAL_EPOCH
        self.isolation = isolation
        self.uses_ids = uses_ids
        self.is_follower = is_follower
        self.created_ns = self.used_ns = now_ns
        # Dicts, because a set has no order.
        self.dirty: dict[SessionItem, None] = {}
        self.waiting = WaitingRoom()
        self.items: dict[tuple[TopicKey, int], SessionItem] = {}

    def __len__(self) -> int:
        return len(self.items)

    def begin(self, reads: Iterable[ItemRead]) -> None:
        """Takes the partitions of a full fetch and its answers."""
        for read in reads:
            item = self._ask(read.item.topic, read.item.asked)
            item.attach(read.item.replica)
            item.told(read)
            _unmark_if_caught_up(self, item, read)
        self.epoch = _next_epoch(self.epoch)

    def update(
        self,
        asked: Iterable[tuple[TopicKey, AskedPartition]],
        forgotten: Iterable[tuple[TopicKey, int]],
        isolation: Isolation,
    ) -> None:
        """Takes the changes of an incremental request."""
        if isolation is not self.isolation:
            self.isolation = isolation
            for item in self.items.values():
                self.dirty[item] = None
                item.watch()
        for topic, partition in asked:
            self._ask(topic, partition)
        for topic, index in forgotten:
            self._forget(topic, index)
        self.epoch = _next_epoch(self.epoch)

    def close(self) -> None:
        """Leaves all partitions, which then wake it no more."""
        for item in self.items.values():
            item.attach(None)
        self.items.clear()
        self.dirty.clear()
        self.waiting.wake_all()

    def _ask(self, topic: TopicKey, asked: AskedPartition) -> SessionItem:
        key = topic, asked.partition
        item = self.items.get(key)
        if item is None:
            item = self.items[key] = SessionItem(self, topic, asked)
        item.asked = asked
        self.dirty[item] = None
        return item

    def _forget(self, topic: TopicKey, index: int) -> None:
        item = self.items.pop((topic, index), None)
        if item is not None:
            item.attach(None)
            self.dirty.pop(item, None)


class IncrementalFetch:
    """An incremental fetch: reads marked partitions of a session, answers those with news."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def is_empty(self) -> bool:
        return not self._session.items

    def items(self) -> Iterable[FetchItem]:
        return tuple(self._session.dirty)

    def enter(self, waiter: Watcher) -> None:
        self._session.waiting.enter(waiter)

    def leave(self, waiter: Watcher) -> None:
        self._session.waiting.leave(waiter)

    def settle(self, reading: Reading) -> None:
        for read in reading.reads:
            item = read.item
            if isinstance(item, SessionItem) and not item.has_news(read):
                _unmark_if_caught_up(self._session, item, read)

    def answer(self, reading: Reading) -> Answer:
        news = []
        dirty = self._session.dirty
        for read in reading.reads:
            item, outcome = read.item, read.outcome
            if not isinstance(item, SessionItem):
                continue
            if item.has_news(read):
                item.told(read)
                news.append(read)
            _unmark_if_caught_up(self._session, item, read)
            if not isinstance(outcome, PeerError) and outcome.records is not None and item in dirty:
                # Behind the partitions that gave no records, which come first next time.
                del dirty[item]
                dirty[item] = None
        return Answer(self._session.id, news)


def topic_key(topic: Topic | ForgottenTopic, *, uses_ids: bool) -> TopicKey:
    return topic.topic_id if uses_ids else topic.topic


def asked_partitions(
    topics: Iterable[Topic], *, uses_ids: bool
) -> Iterator[tuple[TopicKey, AskedPartition]]:
    for topic in topics:
        key = topic_key(topic, uses_ids=uses_ids)
        for asked in topic.partitions:
            yield key, asked


def forgotten_partitions(
    topics: Iterable[ForgottenTopic], *, uses_ids: bool
) -> Iterator[tuple[TopicKey, int]]:
    for topic in topics:
        key = topic_key(topic, uses_ids=uses_ids)
        for index in topic.partitions:
            yield key, index


def _unmark_if_caught_up(session: Session, item: SessionItem, read: ItemRead) -> None:
    """Removes the mark of a partition without more records. Errors and remainders keep it."""
    result = read.outcome
    if isinstance(result, PeerError) or not result.is_caught_up or result.diverging is not None:
        return
    session.dirty.pop(item, None)


def _next_epoch(epoch: int) -> int:
    return epoch + 1 if epoch < EPOCH_MAX else INITIAL_EPOCH + 1
