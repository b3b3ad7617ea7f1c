"""Sends requests to leaders, coordinators and the controller, and retries after they change."""

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
    ONE_KEY_VERSION_MAX,
    CoordinatorKey,
    coordinator_address,
    coordinator_request,
    raise_if_not_coordinator,
)
from ottla.client.routing.outcomes import Outcomes, PendingPartitions, unwrap
from ottla.client.routing.retries import Backoff
from ottla.client.routing.topic_lookup import FoundTopics, TopicLookup
from ottla.client.routing.topology import Broker, Topic, Topology, metadata_request
from ottla.errors import ErrorCode
from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.entropy import Entropy
from ottla.seams.net import Net

T = TypeVar("T")

# Sends one leader a request about partitions that it leads.
AskLeader = Callable[[Connection, Sequence[TopicPartition]], Awaitable[Outcomes[T]]]


class Router(ClusterView[Connection]):
    """A client's view of one cluster, and its connections to it.

    Connects on demand. Before the first connection every error is final. Later, retriable errors
    are retried for `default_api_timeout_ms` at most.
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
        """The connection to this address, opened if there is none. Unreachable."""
        async with self._dialling.setdefault(address, asyncio.Lock()):
            connection = self.open_connection(address)
            if connection is None:
                connection = await connect(self._net, address, self.options)
                self._connections[address] = connection
            return connection

    async def any_broker(self) -> Connection:
        """Any broker: a connected one, else a known one, else one of the bootstrap list."""
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
        """The broker with this id. Refused if the cluster has none, Unreachable."""
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
            raise broker.unreachable(error) from None

    # Metadata

    async def refresh(
        self, topics: Collection[str] | None, *, may_create: bool = False
    ) -> Topology:
        """Requests the metadata of the cluster and these topics (None: all topics)."""
        connection = await self.any_broker()
        answer = await connection.ask(metadata_request(topics, may_create=may_create))
        return self.learn(topics, answer)

    async def topic(self, name: str, *, may_create: bool = False) -> Topic:
        """A topic, when each of its partitions has a leader. Refused."""
        return unwrap((await self.topics([name], may_create=may_create))[name])

    async def topics(self, names: Iterable[str], *, may_create: bool = False) -> FoundTopics:
        """Topics, when each of their partitions has a leader; Refused for each that failed."""
        lookup = TopicLookup(names)

        async def look() -> None:
            topology = await self.refresh(lookup.left, may_create=may_create)
            if retriable := lookup.take(topology, self.options):
                raise retriable

        try:
            await self.retrying(look)
        except Refused as refused:
            if not lookup.is_outcome(refused):
                raise
        return lookup.outcomes

    # Requests

    async def retrying(
        self, attempt: Callable[[], Awaitable[T]], *, timeout_ms: int | None = None
    ) -> T:
        """Repeats the attempt while its error is retriable; then raises it.

        `timeout_ms` limits all attempts together (`default_api_timeout_ms` if None). A join needs a
        longer one, since it waits for other members.
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
        """The response of any broker."""

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
        """The controller's response; `codes_of` returns its error codes.

        Retries if a code says that the controller has moved.
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
        """The coordinator of a group or a transactional id.

        Forgets the coordinator if the body raises an error that says that it has moved.
        """
        try:
            yield await self.find_coordinator(key)
        except ClientError as error:
            self.coordinators.failed(key, error)
            raise

    async def find_coordinator(self, key: CoordinatorKey) -> Connection:
        """A connection to the coordinator, which is looked up unless it is known and connected.

        Refused, Unreachable.
        """
        if known := self.known_coordinator(key):
            return known
        asked = await self.any_broker()
        answer = await asked.ask(coordinator_request(key), version_max=ONE_KEY_VERSION_MAX)
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
        """The coordinator's response; `codes_of` returns its error codes.

        Retries if a code says that the coordinator has moved or is loading.
        """

        async def ask() -> Any:
            async with self.coordinator(key) as connection:
                answer = await connection.ask(request, version_max=version_max)
                raise_if_not_coordinator(codes_of(answer), key)
                return answer

        return await self.retrying(ask)

    async def ask_leaders(
        self, partitions: Iterable[TopicPartition], ask: AskLeader[T]
    ) -> Outcomes[T]:
        """Sends requests to the leaders of the partitions, and retries where leaders have moved.

        Each partition has an outcome. Raises only if some partition could not be requested at all.
        """
        pending = PendingPartitions[T](partitions)

        async def ask_one(leader: Broker, asked: Sequence[TopicPartition]) -> None:
            try:
                pending.answer(asked, await ask(await self._reach(leader), asked))
            except ClientError as error:
                pending.fail(asked, error)

        async def ask_remaining() -> None:
            if unknown := self.topology.unknown(pending.topics):
                await self.refresh(unknown)
            async with asyncio.TaskGroup() as tasks:
                for leader, asked in pending.by_leader(self.topology).items():
                    tasks.create_task(ask_one(leader, asked), name=f"ask-{leader.node_id}")
            if retriable := pending.end_round():
                self.invalidate_topics(pending.topics)
                raise retriable

        try:
            await self.retrying(ask_remaining)
        except ClientError:
            if not pending.has_every_outcome:
                raise
        return pending.outcomes
