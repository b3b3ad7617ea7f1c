"""Who is to be asked, for a thread that may block: `client.routing` without an event loop."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from ottla.client.addresses import Address
from ottla.client.blocking_connection import BlockingConnection, dial
from ottla.client.errors import ClientError, Refused, Unreachable, raise_if_refused
from ottla.client.options import ClientOptions
from ottla.client.retries import Backoff, is_passing, patience_ms
from ottla.client.routing import Outcomes, lacking
from ottla.client.topology import Broker, Topic, TopicPartition, Topology
from ottla.errors import ErrorCode
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse, RequestedTopic
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.seams.blocking import Blocking
from ottla.seams.clock import Clock
from ottla.seams.entropy import Entropy

T = TypeVar("T")

# Asks one leader about partitions that it leads.
AskLeader = Callable[[BlockingConnection, Sequence[TopicPartition]], Outcomes[T]]


class BlockingRouter:
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
        self.options = options or ClientOptions()
        self.topology = Topology()
        self._bootstrap = tuple(bootstrap)
        self._blocking = blocking
        self._clock = clock
        self._entropy = entropy
        self._connections: dict[Address, BlockingConnection] = {}

    def close(self) -> None:
        """Idempotent; what is asked afterwards dials anew."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # Connections

    def connection_to(self, address: Address) -> BlockingConnection:
        """The connection to this address, made if there is none. Unreachable."""
        connection = self._connections.get(address)
        if connection is None or not connection.is_open:
            connection = dial(self._blocking, self._clock, address, self.options)
            self._connections[address] = connection
        return connection

    def any_broker(self) -> BlockingConnection:
        """Some broker: one that is connected, one that is known, one of the bootstrap list."""
        for connection in self._connections.values():
            if connection.is_open:
                return connection
        known = [broker.address for broker in self.topology.brokers.values()]
        failures = []
        for address in dict.fromkeys((*known, *self._bootstrap)):
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
            raise Unreachable(
                f"broker {broker.node_id} says that it is at {broker.address}: {error}"
            ) from None

    # What is known of the cluster

    def refresh(self, topics: Collection[str] | None) -> Topology:
        """Asks a broker about the cluster and these topics (None: all of them)."""
        asked = None if topics is None else tuple(RequestedTopic(name=name) for name in topics)
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        answer: MetadataResponse = self.any_broker().ask(request)
        raise_if_refused(answer.error_code, "the cluster's metadata")
        before = Topology() if topics is None else self.topology
        self.topology = before.updated(answer)
        return self.topology

    def topic(self, name: str) -> Topic:
        """A topic of which every partition is led. Refused if it does not turn up."""

        def look() -> Topic:
            topology = self.refresh([name])
            topic = topology.topics.get(name)
            if topic is None:
                raise topology.why_missing(name)
            for partition in topic.partitions:
                if partition.leader not in topology.brokers:
                    raise Refused(ErrorCode.LEADER_NOT_AVAILABLE, f"{name}-{partition.number}")
            return topic

        return self.retrying(look)

    def topic_id(self, name: str) -> Uuid:
        """The id by which later versions name a topic; zero if it is not known."""
        topic = self.topology.topics.get(name)
        return ZERO_UUID if topic is None else topic.topic_id

    def distrust(self, topics: Collection[str]) -> None:
        """What is known of these topics is not believed any more: it is asked for again."""
        self.topology = self.topology.without(topics)

    def _know(self, topics: Collection[str]) -> None:
        known = self.topology.topics.keys() | self.topology.missing.keys()
        if unknown := [topic for topic in topics if topic not in known]:
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
                was_reached = bool(self._connections)
                pause_ms = backoff.next_pause_ms()
                waited_ms = (self._clock.steady_ns() - started_ns) // 1_000_000 + pause_ms
                may_wait = waited_ms <= patience_ms(error, self.options)
                if not (was_reached and is_passing(error) and may_wait):
                    raise
            self._blocking.pause(pause_ms)

    def ask_leaders(self, partitions: Iterable[TopicPartition], ask: AskLeader[T]) -> Outcomes[T]:
        """Asks the leader of each partition, and again where that has changed.

        There is an outcome for each partition; raises only if for some nothing could be asked.
        """
        left = list(dict.fromkeys(partitions))
        wanted = len(left)
        outcomes: Outcomes[T] = {}

        def ask_those_left() -> None:
            self._know({each.topic for each in left})
            outcomes.update(self._ask_by_leader(left, ask))
            passing = _passing(outcomes, left)
            left[:] = passing
            if passing:
                self.distrust({each.topic for each in passing})
                raise next(iter(passing.values()))

        try:
            self.retrying(ask_those_left)
        except ClientError:
            if len(outcomes) < wanted:
                raise
        return outcomes

    def _ask_by_leader(
        self, partitions: Iterable[TopicPartition], ask: AskLeader[T]
    ) -> Outcomes[T]:
        """One round: each leader about what it leads."""
        outcomes: Outcomes[T] = {}
        led: dict[Broker, list[TopicPartition]] = {}
        for partition in partitions:
            leader = self.topology.leader_of(partition)
            if leader is None:
                outcomes[partition] = self.topology.why_not_led(partition)
            else:
                led.setdefault(leader, []).append(partition)
        for leader, asked in led.items():
            try:
                answers = ask(self._reach(leader), asked)
            except ClientError as error:
                outcomes.update(dict.fromkeys(asked, error))
            else:
                outcomes.update({each: answers.get(each, lacking(each)) for each in asked})
        return outcomes


def _passing(
    outcomes: Mapping[TopicPartition, object], partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ClientError]:
    """The failures that may pass."""
    return {
        each: outcome
        for each in partitions
        if isinstance(outcome := outcomes[each], ClientError) and is_passing(outcome)
    }
