"""The router for a thread that may block: `client.routing.router` without an event loop."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from ottla.address import Address
from ottla.client.blocking.connection import BlockingConnection, dial
from ottla.client.errors import ClientError, Refused, Unreachable
from ottla.client.options import ClientOptions
from ottla.client.routing.cluster_view import ClusterView
from ottla.client.routing.coordinators import (
    ONE_KEY_MAX,
    CoordinatorKey,
    coordinator_address,
    coordinator_request,
    raise_if_elsewhere,
)
from ottla.client.routing.outcomes import Outcomes, Questions
from ottla.client.routing.retries import Backoff
from ottla.client.routing.topic_lookup import FoundTopics, TopicLookup
from ottla.client.routing.topology import Broker, Topology, metadata_request
from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.blocking import Blocking
from ottla.seams.clock import Clock
from ottla.seams.entropy import Entropy

T = TypeVar("T")

# Asks one leader about partitions that it leads.
AskLeader = Callable[[BlockingConnection, Sequence[TopicPartition]], Outcomes[T]]


class BlockingRouter(ClusterView[BlockingConnection]):
    """A thread's view of one cluster, and its connections to it.

    Nothing is asked before it is needed. While no broker was ever reached a failure is final;
    later ones that may pass are retried, for `default_api_timeout_ms` at most.
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
        """The connection to this address, made if there is none. Unreachable."""
        connection = self.open_connection(address)
        if connection is None:
            connection = dial(self._blocking, self._clock, address, self.options)
            self._connections[address] = connection
        return connection

    def any_broker(self) -> BlockingConnection:
        """Some broker: one that is connected, one that is known, one of the bootstrap list."""
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
        """The leader of a partition, as far as is known. Refused if none is, Unreachable."""
        self._know([partition.topic])
        leader = self.topology.leader_of(partition)
        if leader is None:
            raise self.topology.why_not_led(partition)
        return self._reach(leader)

    def _reach(self, broker: Broker) -> BlockingConnection:
        try:
            return self.connection_to(broker.address)
        except Unreachable as error:
            raise broker.why_away(error) from None

    # What is known of the cluster

    def refresh(self, topics: Collection[str] | None) -> Topology:
        """Asks a broker about the cluster and these topics (None: all of them)."""
        return self.learn(topics, self.any_broker().ask(metadata_request(topics)))

    def topics(self, names: Iterable[str]) -> FoundTopics:
        """Topics of which every partition is led; Refused for each that does not turn up."""
        lookup = TopicLookup(names)

        def look() -> None:
            if passing := lookup.take(self.refresh(lookup.left), self.options):
                raise passing

        try:
            self.retrying(look)
        except Refused as refused:
            if not lookup.is_outcome(refused):
                raise
        return lookup.outcomes

    def _know(self, topics: Collection[str]) -> None:
        if unknown := self.topology.unknown(topics):
            self.refresh(unknown)

    # Asking

    def retrying(self, attempt: Callable[[], T]) -> T:
        """Tries again while the failure is one that may pass; then it is raised."""
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
        """The coordinator of a group or a transaction, looked for if it is not known.

        It is forgotten if what is done with it fails in a way that says that it is another one.
        """
        try:
            yield self.find_coordinator(key)
        except ClientError as error:
            self.coordinators.failed(key, error)
            raise

    def find_coordinator(self, key: CoordinatorKey) -> BlockingConnection:
        """A connection to the coordinator: the one found before if it is still open, else asked
        for. Refused, Unreachable."""
        if known := self.known_coordinator(key):
            return known
        answer = self.any_broker().ask(coordinator_request(key), version_max=ONE_KEY_MAX)
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
        """The coordinator's answer; `codes_of` are the error codes in it.

        If one says that the coordinator is elsewhere, or is loading, it is asked for again.
        """

        def ask() -> Any:
            with self.coordinator(key) as connection:
                answer = connection.ask(request, version_max=version_max)
                raise_if_elsewhere(codes_of(answer), key)
                return answer

        return self.retrying(ask)

    def ask_leaders(self, partitions: Iterable[TopicPartition], ask: AskLeader[T]) -> Outcomes[T]:
        """Asks the leader of each partition, and again where that has changed.

        There is an outcome for each partition; raises only if for some nothing could be asked.
        """
        questions = Questions[T](partitions)

        def ask_those_left() -> None:
            self._know(questions.topics)
            for leader, asked in questions.by_leader(self.topology).items():
                try:
                    questions.answer(asked, ask(self._reach(leader), asked))
                except ClientError as error:
                    questions.fail(asked, error)
            if passing := questions.end_round():
                self.distrust(questions.topics)
                raise passing

        try:
            self.retrying(ask_those_left)
        except ClientError:
            if not questions.has_every_outcome:
                raise
        return questions.outcomes
