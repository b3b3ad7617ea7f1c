"""The blocking router: `client.routing.router` without an event loop."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from ottla.address import Address
from ottla.client.blocking.connection import BlockingConnection, dial
from ottla.client.errors import ClientError, Refused, Unreachable
from ottla.client.options import ClientOptions
from ottla.client.routing.cluster_view import ClusterView
from ottla.client.routing.coordinators import (
    ONE_KEY_VERSION_MAX,
    CoordinatorKey,
    coordinator_address,
    coordinator_request,
    raise_if_not_coordinator,
)
from ottla.client.routing.outcomes import Outcomes, PendingPartitions
from ottla.client.routing.retries import Backoff
from ottla.client.routing.topic_lookup import FoundTopics, TopicLookup
from ottla.client.routing.topology import Broker, Topology, metadata_request
from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.blocking import Blocking
from ottla.seams.clock import Clock
from ottla.seams.entropy import Entropy

T = TypeVar("T")

# Sends one leader a request about partitions that it leads.
BlockingAskLeader = Callable[[BlockingConnection, Sequence[TopicPartition]], Outcomes[T]]


class BlockingRouter(ClusterView[BlockingConnection]):
    """A thread's view of one cluster, and its connections to it.

    Connects on demand. Before the first connection every error is final. Later, retriable errors
    are retried for `default_api_timeout_ms` at most.
    """

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        blocking: Blocking,
        clock: Clock,
        entropy: Entropy,
        options: ClientOptions | None = None,
    ) -> None:
        super().__init__(bootstrap, options)
        self._blocking = blocking
        self._clock = clock
        self._entropy = entropy

    # Connections

    def connection_to(self, address: Address) -> BlockingConnection:
        """The connection to this address, opened if there is none. Unreachable."""
        connection = self.open_connection(address)
        if connection is None:
            connection = dial(self._blocking, self._clock, address, self.options)
            self._connections[address] = connection
        return connection

    def any_broker(self) -> BlockingConnection:
        """Any broker: a connected one, else a known one, else one of the bootstrap list."""
        if connected := self.any_open_connection():
            return connected
        failures = []
        for address in self.addresses:
            try:
                return self.connection_to(address)
            except Unreachable as error:
                failures.append(str(error))
        raise Unreachable("; ".join(failures))

    def leader(self, partition: TopicPartition) -> BlockingConnection:
        """The known leader of a partition. Refused if there is none, Unreachable."""
        self._know([partition.topic])
        leader = self.topology.leader_of(partition)
        if leader is None:
            raise self.topology.why_not_led(partition)
        return self._reach(leader)

    def _reach(self, broker: Broker) -> BlockingConnection:
        try:
            return self.connection_to(broker.address)
        except Unreachable as error:
            raise broker.unreachable(error) from None

    # Metadata

    def refresh(self, topics: Collection[str] | None) -> Topology:
        """Requests the metadata of the cluster and these topics (None: all topics)."""
        return self.learn(topics, self.any_broker().ask(metadata_request(topics)))

    def topics(self, names: Iterable[str]) -> FoundTopics:
        """Topics, when each of their partitions has a leader; Refused for each that failed."""
        lookup = TopicLookup(names)

        def look() -> None:
            if retriable := lookup.take(self.refresh(lookup.left), self.options):
                raise retriable

        try:
            self.retrying(look)
        except Refused as refused:
            if not lookup.is_outcome(refused):
                raise
        return lookup.outcomes

    def _know(self, topics: Collection[str]) -> None:
        if unknown := self.topology.unknown(topics):
            self.refresh(unknown)

    # Requests

    def retrying(self, attempt: Callable[[], T]) -> T:
        """Repeats the attempt while its error is retriable; then raises it."""
        started_ns = self._clock.steady_ns()
        backoff = Backoff(self.options, self._entropy)
        while True:
            try:
                return attempt()
            except ClientError as error:
                waited_ms = (self._clock.steady_ns() - started_ns) // 1_000_000
                pause_ms = backoff.pause_after(error, waited_ms)
                if pause_ms is None or not self.was_reached:
                    raise
                self._blocking.pause(pause_ms)

    @contextmanager
    def coordinator(self, key: CoordinatorKey) -> Iterator[BlockingConnection]:
        """The coordinator of a group or a transactional id.

        Forgets the coordinator if the body raises an error that says that it has moved.
        """
        try:
            yield self.find_coordinator(key)
        except ClientError as error:
            self.coordinators.failed(key, error)
            raise

    def find_coordinator(self, key: CoordinatorKey) -> BlockingConnection:
        """A connection to the coordinator, which is looked up unless it is known and connected.

        Refused, Unreachable.
        """
        if known := self.known_coordinator(key):
            return known
        answer = self.any_broker().ask(coordinator_request(key), version_max=ONE_KEY_VERSION_MAX)
        address = coordinator_address(answer, key)
        connection = self.connection_to(address)
        self.coordinators.found(key, address)
        return connection

    def ask_coordinator(
        self,
        key: CoordinatorKey,
        request: object,
        codes_of: Callable[[Any], Iterable[int]],
        *,
        version_max: int | None = None,
    ) -> Any:
        """The coordinator's response; `codes_of` returns its error codes.

        Retries if a code says that the coordinator has moved or is loading.
        """

        def ask() -> Any:
            with self.coordinator(key) as connection:
                answer = connection.ask(request, version_max=version_max)
                raise_if_not_coordinator(codes_of(answer), key)
                return answer

        return self.retrying(ask)

    def ask_leaders(
        self, partitions: Iterable[TopicPartition], ask: BlockingAskLeader[T]
    ) -> Outcomes[T]:
        """Sends requests to the leaders of the partitions, and retries where leaders have moved.

        Each partition has an outcome. Raises only if some partition could not be requested at all.
        """
        pending = PendingPartitions[T](partitions)

        def ask_remaining() -> None:
            self._know(pending.topics)
            for leader, asked in pending.by_leader(self.topology).items():
                try:
                    pending.answer(asked, ask(self._reach(leader), asked))
                except ClientError as error:
                    pending.fail(asked, error)
            if retriable := pending.end_round():
                self.invalidate_topics(pending.topics)
                raise retriable

        try:
            self.retrying(ask_remaining)
        except ClientError:
            if not pending.has_every_outcome:
                raise
        return pending.outcomes
