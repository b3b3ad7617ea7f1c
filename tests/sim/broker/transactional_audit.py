"""After all that went wrong: nothing hangs, and every transaction is whole or absent."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ottla.errors import ErrorCode
from ottla.metadata.topic_names import CONSUMER_OFFSETS
from ottla.protocol.messages import list_offsets
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.list_offsets import ListOffsetsRequest
from ottla.protocol.topic_partition import TopicPartition, by_topic
from tests.sim.broker.transactional_committers import OffsetReader
from tests.sim.broker.transactional_readers import READ_COMMITTED, READ_UNCOMMITTED, Reader
from tests.sim.broker.transactional_route import Route
from tests.sim.broker.transactional_world import OneBrokerWorld, TransactionalWorld

# Longer than every timeout of a transaction, and its check.
SETTLED_WITHIN_S = 30.0
POLL_S = 0.25
LATEST = -1
LIST_OFFSETS_VERSION = 6
NAME = "auditor"
AT_REST = ("Empty", "CompleteCommit", "CompleteAbort")
RETRIED = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
# The id was never used, or the fleeting topic is not there now.
ABSENT = (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def end_offsets_request(places: Iterable[TopicPartition], isolation: int) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=tuple(
            list_offsets.Topic(
                name=topic,
                partitions=tuple(
                    list_offsets.Partition(partition_index=each.partition, timestamp=LATEST)
                    for each in members
                ),
            )
            for topic, members in by_topic(places).items()
        ),
    )


class Audit(ABC):
    """Looks at brokers to which nothing happens any more."""

    def __init__(
        self, world: TransactionalWorld, transactional_ids: Sequence[str], group_partitions: int
    ) -> None:
        self._world = world
        self._transactional_ids = tuple(transactional_ids)
        self._places = (
            *world.places,
            *((world.fleeting_place,) if world.fleeting_place is not None else ()),
            *(TopicPartition(CONSUMER_OFFSETS, index) for index in range(group_partitions)),
        )
        self._offsets = OffsetReader(world)
        self._rounds = 0

    async def check(self) -> None:
        self._rounds += 1
        route = self._world.route(NAME)
        await self._until_settled(route)
        shown = await self._read(READ_COMMITTED)
        stored = await self._read(READ_UNCOMMITTED)
        for place in self._world.places:
            partition = self._world.view(place).partition
            self._world.history.check(place, stored[place], shown[place], partition)
        self._world.history.check_atomicity(
            {place: values.values() for place, values in shown.items()}
        )
        # Again: transactions whose outcome was unknown are known now.
        await self._until_settled(route)
        route.close()

    async def _until_settled(self, route: Route) -> None:
        deadline = asyncio.get_running_loop().time() + SETTLED_WITHIN_S
        while unsettled := await self._unsettled(route):
            assert asyncio.get_running_loop().time() < deadline, f"hangs: {unsettled}"
            await asyncio.sleep(POLL_S)

    async def _unsettled(self, route: Route) -> list[str]:
        """What is open, in words."""
        unsettled = [
            f"{each.transactional_id}: {each}"
            for each in await self._states(route)
            if each.error_code not in ABSENT and each.transaction_state not in AT_REST
        ]
        ends = await self._ends(route, READ_UNCOMMITTED)
        stable = await self._ends(route, READ_COMMITTED)
        unsettled += [
            f"{place}: stable up to {stable[place]} of {end}"
            for place, end in ends.items()
            if stable[place] != end
        ]
        if not await self._offsets.read(route, is_stable=True):
            unsettled.append("an offset of the group")
        return unsettled

    @abstractmethod
    async def _read(self, isolation: int) -> Mapping[TopicPartition, dict[int, bytes]]:
        """All that a consumer is shown, by partition and offset."""

    @abstractmethod
    async def _states(self, route: Route) -> Sequence[Any]:
        """As DescribeTransactions has them."""

    @abstractmethod
    async def _ends(self, route: Route, isolation: int) -> Mapping[TopicPartition, int]:
        """The offset up to which each partition may be read."""


class BrokerAudit(Audit):
    """Of a single broker."""

    def __init__(
        self, world: OneBrokerWorld, transactional_ids: Sequence[str], group_partitions: int
    ) -> None:
        super().__init__(world, transactional_ids, group_partitions)
        self._base = world

    async def _read(self, isolation: int) -> Mapping[TopicPartition, dict[int, bytes]]:
        name = f"audit-{self._rounds}-{isolation}"
        return await Reader(self._base, name, isolation=isolation).read_all()

    async def _states(self, route: Route) -> Sequence[Any]:
        request = DescribeTransactionsRequest(transactional_ids=self._transactional_ids)
        states: Sequence[Any] = (await self._ask(route, request, 0)).transaction_states
        return states

    async def _ends(self, route: Route, isolation: int) -> Mapping[TopicPartition, int]:
        request = end_offsets_request(self._places, isolation)
        ends = {}
        for topic in (await self._ask(route, request, LIST_OFFSETS_VERSION)).topics:
            for each in topic.partitions:
                place = TopicPartition(topic.name, each.partition_index)
                if place == self._world.fleeting_place and each.error_code in ABSENT:
                    continue
                assert each.error_code == ErrorCode.NONE, f"{place}: {each}"
                ends[place] = each.offset
        return ends

    @staticmethod
    async def _ask(route: Route, request: object, version: int) -> Any:
        return await (await route.way(request)).line.ask(request, version)
