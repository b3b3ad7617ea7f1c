"""Observes this broker as a member of its cluster once a second: its session, its metadata, and
its replicas. `broker.http.cluster_health` decides whether it is ready.
"""

from collections.abc import Callable

from ottla.broker.http.cluster_health import ClusterHealth, ObservedBroker, is_catching_up
from ottla.metadata.publisher import Publisher
from ottla.metadata.store import MetadataStore
from ottla.metrics.meters import SessionState
from ottla.metrics.node import NodeMetrics
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.local_broker import LocalBroker
from ottla.replication.replica import Replica


class ClusterReadiness:
    """`examine` is called for each replica, then `show` once."""

    def __init__(
        self,
        *,
        health: ClusterHealth,
        store: MetadataStore,
        publisher: Publisher,
        me: LocalBroker,
        metrics: NodeMetrics,
        steady_ns: Callable[[], int],
    ) -> None:
        self._health = health
        self._store = store
        self._publisher = publisher
        self._me = me
        self._metrics = metrics
        self._steady_ns = steady_ns
        # The time at which the servers were first found silent; None while they answer.
        self._silent_since_ns: int | None = None
        # The head of the metadata log at the last look: an entry that is just being applied is no
        # delay. At the first look there is no earlier one.
        self._earlier_head: int | None = store.known_head
        self._replica_count = 0
        self._catching_up: list[TopicPartition] = []
        self._offline: list[TopicPartition] = []

    def examine(self, replica: Replica, *, is_offline: bool) -> None:
        self._replica_count += 1
        if is_offline:
            self._offline.append(replica.name)
        elif is_catching_up(replica.partition, self._me.incarnation, self._publisher.image):
            self._catching_up.append(replica.name)

    def show(self) -> None:
        silent_ms = self._silent_ms()
        is_registered = self._me.incarnation is not None
        behind = (self._earlier_head or 0) - self._publisher.image.offset
        self._earlier_head = self._store.known_head
        self._health.show(
            ObservedBroker(
                is_registered=is_registered,
                silent_ms=silent_ms,
                session_timeout_ms=self._store.session_timeout_ms,
                entries_behind=max(0, behind),
                replica_count=self._replica_count,
                catching_up=self._catching_up,
                offline=self._offline,
            )
        )
        self._replica_count, self._catching_up, self._offline = 0, [], []
        if not is_registered:
            self._metrics.session_state = SessionState.LOST
        elif silent_ms is not None:
            self._metrics.session_state = SessionState.DISCONNECTED
        else:
            self._metrics.session_state = SessionState.CONNECTED

    def _silent_ms(self) -> int | None:
        if self._store.is_connected:
            self._silent_since_ns = None
            return None
        now_ns = self._steady_ns()
        if self._silent_since_ns is None:
            self._silent_since_ns = now_ns
        return (now_ns - self._silent_since_ns) // 1_000_000
