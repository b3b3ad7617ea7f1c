"""Who is to be asked: finds brokers, controller and leaders, and asks again after they changed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from ottla.address import Address
from ottla.client.connection.connection import Connection, connect
from ottla.client.errors import ClientError, Refused, TimedOut, Unreachable
from ottla.client.options import ClientOptions
from ottla.client.routing.cluster_view import ClusterView
from ottla.client.routing.coordinators import (
    ONE_KEY_MAX,
    CoordinatorKey,
    coordinator_address,
    coordinator_request,
    raise_if_elsewhere,
)
from ottla.client.routing.outcomes import Outcomes, Questions, answered
from ottla.client.routing.retries import Backoff
from ottla.client.routing.topic_lookup import FoundTopics, TopicLookup
from ottla.client.routing.topology import Broker, Topic, Topology, metadata_request
from ottla.errors import ErrorCode
from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.entropy import Entropy
from ottla.seams.net import Net

T = TypeVar("T")

# Asks one leader about partitions that it leads.
AskLeader = Callable[[Connection, Sequence[TopicPartition]], Awaitable[Outcomes[T]]]


class Router(ClusterView[Connection]):
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
        super().__init__(bootstrap, options)
        self._net = net
        self._entropy = entropy
        self._dialling: dict[Address, asyncio.Lock] = {}

    async def __aenter__(self) -> "Router":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    # Connections

    async def connection_to(self, address: Address) -> Connection:
        """The connection to this address, made if there is none. Unreachable."""
        async with self._dialling.setdefault(address, asyncio.Lock()):
            connection = self.open_connection(address)
            if connection is None:
                connection = await connect(self._net, address, self.options)
                self._connections[address] = connection
            return connection

    async def any_broker(self) -> Connection:
        """Some broker: one that is connected, one that is known, one of the bootstrap list."""
        if connected := self.any_open_connection():
            return connected
        failures = []
        for address in self.addresses:
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
            raise broker.why_away(error) from None

    # What is known of the cluster

    async def refresh(
        self, topics: Collection[str] | None, *, may_create: bool = False
    ) -> Topology:
        """Asks a broker about the cluster and these topics (None: all of them)."""
        connection = await self.any_broker()
        answer = await connection.ask(metadata_request(topics, may_create=may_create))
        return self.learn(topics, answer)

    async def topic(self, name: str, *, may_create: bool = False) -> Topic:
        """A topic of which every partition is led. Refused if it does not turn up."""
        return answered((await self.topics([name], may_create=may_create))[name])

    async def topics(self, names: Iterable[str], *, may_create: bool = False) -> FoundTopics:
        """Topics of which every partition is led; Refused for each that does not turn up."""
        lookup = TopicLookup(names)

        async def look() -> None:
            topology = await self.refresh(lookup.left, may_create=may_create)
            if passing := lookup.take(topology, self.options):
                raise passing

        try:
            await self.retrying(look)
        except Refused as refused:
            if not lookup.is_outcome(refused):
                raise
        return lookup.outcomes

    # Asking

    async def retrying(
        self, attempt: Callable[[], Awaitable[T]], *, timeout_ms: int | None = None
    ) -> T:
        """Tries again while the failure is one that may pass; then it is raised.

        `timeout_ms` is for what may have to wait for others: all attempts together end then, and
        else after `default_api_timeout_ms`.
        """
        loop = asyncio.get_running_loop()
        started = loop.time()
        backoff = Backoff(self.options, self._entropy)
        if timeout_ms is None:
            timeout_ms = self.options.default_api_timeout_ms
        while True:
            try:
                async with asyncio.timeout_at(started + timeout_ms / 1e3):
                    return await attempt()
            except TimeoutError:
                raise TimedOut(f"no answer within {timeout_ms} ms") from None
            except ClientError as error:
                pause_ms = backoff.pause_after(error, int((loop.time() - started) * 1e3))
                if pause_ms is None or not self.was_reached:
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

    @asynccontextmanager
    async def coordinator(self, key: CoordinatorKey) -> AsyncIterator[Connection]:
        """The coordinator of a group or a transaction, looked for if it is not known.

        It is forgotten if what is done with it fails in a way that says that it is another one.
        """
        try:
            yield await self.find_coordinator(key)
        except ClientError as error:
            self.coordinators.failed(key, error)
            raise

    async def find_coordinator(self, key: CoordinatorKey) -> Connection:
        """A connection to the coordinator: the one found before if it is still open, else asked
        for. Refused, Unreachable."""
        if known := self.known_coordinator(key):
            return known
        asked = await self.any_broker()
        answer = await asked.ask(coordinator_request(key), version_max=ONE_KEY_MAX)
        address = coordinator_address(answer, key)
        connection = await self.connection_to(address)
        self.coordinators.found(key, address)
        return connection

    async def ask_coordinator(
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

        async def ask() -> Any:
            async with self.coordinator(key) as connection:
                answer = await connection.ask(request, version_max=version_max)
                raise_if_elsewhere(codes_of(answer), key)
                return answer

        return await self.retrying(ask)

    async def ask_leaders(
        self, partitions: Iterable[TopicPartition], ask: AskLeader[T]
    ) -> Outcomes[T]:
        """Asks the leader of each partition, and again where that has changed.

        There is an outcome for each partition; raises only if for some nothing could be asked.
        """
        questions = Questions[T](partitions)

        async def ask_one(leader: Broker, asked: Sequence[TopicPartition]) -> None:
            try:
                questions.answer(asked, await ask(await self._reach(leader), asked))
            except ClientError as error:
                questions.fail(asked, error)

        async def ask_those_left() -> None:
            if unknown := self.topology.unknown(questions.topics):
                await self.refresh(unknown)
            async with asyncio.TaskGroup() as tasks:
                for leader, asked in questions.by_leader(self.topology).items():
                    tasks.create_task(ask_one(leader, asked), name=f"ask-{leader.node_id}")
            if passing := questions.end_round():
                self.distrust(questions.topics)
                raise passing

        try:
            await self.retrying(ask_those_left)
        except ClientError:
            if not questions.has_every_outcome:
                raise
        return questions.outcomes
