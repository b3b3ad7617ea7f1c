"""Who is to be asked: finds brokers, controller and leaders, and asks again after they changed."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

from ottla.client.addresses import Address
from ottla.client.connection import Connection, connect
from ottla.client.errors import ClientError, Refused, TimedOut, Unreachable, raise_if_refused
from ottla.client.options import ClientOptions
from ottla.client.retries import Backoff, is_passing, patience_ms
from ottla.client.topology import Broker, Topic, TopicPartition, Topology
from ottla.errors import ErrorCode
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse, RequestedTopic
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.seams.entropy import Entropy
from ottla.seams.net import Net

T = TypeVar("T")

# What became of each partition: an answer, or the last error after which it was given up.
Outcomes = dict[TopicPartition, T | ClientError]
# Asks one leader about partitions that it leads.
AskLeader = Callable[[Connection, Sequence[TopicPartition]], Awaitable[Outcomes[T]]]


def answered(outcome: T | ClientError) -> T:
    """The answer, for those who cannot go on without it. ClientError."""
    if isinstance(outcome, ClientError):
        raise outcome
    return outcome


class Router:
    """A client's view of one cluster, and its connections to it.

    Nothing is asked before it is needed. While no broker was ever reached a failure is final;
    later ones that may pass are retried, for `default_api_timeout_ms` at most.
    """

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        net: Net,
        entropy: Entropy,
        options: ClientOptions | None = None,
    ) -> None:
        self.options = options or ClientOptions()
        self.topology = Topology()
        self._bootstrap = tuple(bootstrap)
        self._net = net
        self._entropy = entropy
        self._connections: dict[Address, Connection] = {}
        self._dialling: dict[Address, asyncio.Lock] = {}

    async def __aenter__(self) -> "Router":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # Connections

    async def connection_to(self, address: Address) -> Connection:
        """The connection to this address, made if there is none. Unreachable."""
        async with self._dialling.setdefault(address, asyncio.Lock()):
            connection = self._connections.get(address)
            if connection is None or not connection.is_open:
                connection = await connect(self._net, address, self.options)
                self._connections[address] = connection
            return connection

    async def any_broker(self) -> Connection:
        """Some broker: one that is connected, one that is known, one of the bootstrap list."""
        for connection in self._connections.values():
            if connection.is_open:
                return connection
        known = [broker.address for broker in self.topology.brokers.values()]
        failures = []
        for address in dict.fromkeys((*known, *self._bootstrap)):
            try:
                return await self.connection_to(address)
            except Unreachable as error:
                failures.append(str(error))
        raise Unreachable("; ".join(failures))

    async def broker(self, node_id: int) -> Connection:
        """The broker with this id. Refused if the cluster has none, Unreachable if it is away."""
        if node_id not in self.topology.brokers:
            await self.refresh(())
        broker = self.topology.brokers.get(node_id)
        if broker is None:
            raise Refused(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node_id}", "there is none")
        return await self._reach(broker)

    async def _reach(self, broker: Broker) -> Connection:
        try:
            return await self.connection_to(broker.address)
        except Unreachable as error:
            raise Unreachable(
                f"broker {broker.node_id} says that it is at {broker.address}: {error}"
            ) from None

    # What is known of the cluster

    async def refresh(
        self, topics: Collection[str] | None, *, may_create: bool = False
    ) -> Topology:
        """Asks a broker about the cluster and these topics (None: all of them)."""
        connection = await self.any_broker()
        asked = None if topics is None else tuple(RequestedTopic(name=name) for name in topics)
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=may_create)
        answer: MetadataResponse = await connection.ask(request)
        raise_if_refused(answer.error_code, "the cluster's metadata")
        before = Topology() if topics is None else self.topology
        self.topology = before.updated(answer)
        return self.topology

    async def topic(self, name: str, *, may_create: bool = False) -> Topic:
        """A topic of which every partition is led. Refused if it does not turn up."""

        async def look() -> Topic:
            topology = await self.refresh([name], may_create=may_create)
            topic = topology.topics.get(name)
            if topic is None:
                raise topology.why_missing(name)
            for partition in topic.partitions:
                if partition.leader not in topology.brokers:
                    raise Refused(ErrorCode.LEADER_NOT_AVAILABLE, f"{name}-{partition.number}")
            return topic

        return await self.retrying(look)

    def topic_id(self, name: str) -> Uuid:
        """The id by which later versions name a topic; zero if it is not known."""
        topic = self.topology.topics.get(name)
        return ZERO_UUID if topic is None else topic.topic_id

    # Asking

    async def retrying(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Tries again while the failure is one that may pass; then it is raised."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        backoff = Backoff(self.options, self._entropy)
        timeout_ms = self.options.default_api_timeout_ms
        while True:
            try:
                async with asyncio.timeout_at(started + timeout_ms / 1e3):
                    return await attempt()
            except TimeoutError:
                raise TimedOut(f"no answer within {timeout_ms} ms") from None
            except ClientError as error:
                was_reached = bool(self._connections)
                pause_ms = backoff.next_pause_ms()
                waited_ms = (loop.time() - started) * 1e3 + pause_ms
                may_wait = waited_ms <= patience_ms(error, self.options)
                if not (was_reached and is_passing(error) and may_wait):
                    raise
                await asyncio.sleep(pause_ms / 1e3)

    async def ask_any(self, request: object) -> Any:
        """The answer of whichever broker is there."""

        async def ask() -> Any:
            return await (await self.any_broker()).ask(request)

        return await self.retrying(ask)

    async def ask_controller(
        self,
        request: object,
        codes_of: Callable[[Any], Iterable[int]],
        *,
        version_max: int | None = None,
    ) -> Any:
        """The controller's answer; `codes_of` are the error codes in it.

        If one says that another broker is the controller by now, that one is asked.
        """

        async def ask() -> Any:
            topology = await self.refresh(())
            controller = topology.brokers.get(topology.controller)
            if controller is None:
                raise Refused(ErrorCode.NOT_CONTROLLER, "the cluster has no controller now")
            connection = await self._reach(controller)
            answer = await connection.ask(request, version_max=version_max)
            if ErrorCode.NOT_CONTROLLER in codes_of(answer):
                raise Refused(ErrorCode.NOT_CONTROLLER, f"broker {controller.node_id}")
            return answer

        return await self.retrying(ask)

    async def ask_leaders(
        self, partitions: Iterable[TopicPartition], ask: AskLeader[T]
    ) -> Outcomes[T]:
        """Asks the leader of each partition, and again where that has changed.

        There is an outcome for each partition; raises only if for some nothing could be asked.
        """
        left = list(dict.fromkeys(partitions))
        wanted = len(left)
        outcomes: Outcomes[T] = {}

        async def ask_those_left() -> None:
            await self._know({each.topic for each in left})
            outcomes.update(await self._ask_by_leader(left, ask))
            passing = {
                each: outcome
                for each in left
                if isinstance(outcome := outcomes[each], ClientError) and is_passing(outcome)
            }
            left[:] = passing
            if passing:
                self.topology = self.topology.without({each.topic for each in passing})
                raise next(iter(passing.values()))

        try:
            await self.retrying(ask_those_left)
        except ClientError:
            if len(outcomes) < wanted:
                raise
        return outcomes

    async def _know(self, topics: Collection[str]) -> None:
        """Asks about topics of which nothing is known, or nothing any more."""
        known = self.topology.topics.keys() | self.topology.missing.keys()
        if unknown := [topic for topic in topics if topic not in known]:
            await self.refresh(unknown)

    async def _ask_by_leader(
        self, partitions: Iterable[TopicPartition], ask: AskLeader[T]
    ) -> Outcomes[T]:
        """One round: all leaders at once, each about what it leads."""
        outcomes: Outcomes[T] = {}
        led: dict[Broker, list[TopicPartition]] = {}
        for partition in partitions:
            leader = self.topology.leader_of(partition)
            if leader is None:
                outcomes[partition] = self.topology.why_not_led(partition)
            else:
                led.setdefault(leader, []).append(partition)

        async def ask_one(leader: Broker, asked: Sequence[TopicPartition]) -> None:
            try:
                answers = await ask(await self._reach(leader), asked)
            except ClientError as error:
                outcomes.update(dict.fromkeys(asked, error))
            else:
                outcomes.update({each: answers.get(each, lacking(each)) for each in asked})

        async with asyncio.TaskGroup() as questions:
            for leader, asked in led.items():
                questions.create_task(ask_one(leader, asked), name=f"ask-{leader.node_id}")
        return outcomes


def lacking(partition: TopicPartition) -> Refused:
    """The error for a partition that was asked about and that the answer does not have."""
    return Refused(ErrorCode.UNKNOWN_SERVER_ERROR, f"{partition}", "the answer lacks it")
