"""After all that went wrong: nothing hangs, and every transaction is whole or absent."""

import asyncio

from ottla.errors import ErrorCode
from ottla.metadata.topic_names import CONSUMER_OFFSETS
from ottla.protocol.messages import list_offsets
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.list_offsets import ListOffsetsRequest
from ottla.protocol.topic_partition import TopicPartition, by_topic
from tests.sim.broker.line import Line
from tests.sim.broker.transactional_committers import OffsetReader
from tests.sim.broker.transactional_readers import READ_COMMITTED, READ_UNCOMMITTED, Reader
from tests.sim.broker.transactional_world import (
    FLEETING_PLACE,
    LASTING_PLACES,
    TransactionalWorld,
)

# Longer than every timeout of a transaction, and its check.
SETTLED_WITHIN_S = 30.0
POLL_S = 0.25
LATEST = -1
AT_REST = ("Empty", "CompleteCommit", "CompleteAbort")
RETRIED = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
# The id was never used, or the fleeting topic is not there now.
ABSENT = (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class Audit:
    """Looks at a broker to which nothing happens any more."""

    def __init__(
        self, world: TransactionalWorld, transactional_ids: tuple[str, ...], group_partitions: int
    ) -> None:
        self._world = world
        self._transactional_ids = transactional_ids
        self._places = (
            *LASTING_PLACES,
            FLEETING_PLACE,
            *(TopicPartition(CONSUMER_OFFSETS, index) for index in range(group_partitions)),
        )
        self._offsets = OffsetReader(world)
        self._rounds = 0

    async def check(self) -> None:
        self._rounds += 1
        line = await Line.open(self._world.base.machine, "auditor")
        await self._until_settled(line)
        assert await self._offsets.read(line, is_stable=True)
        shown = await self._read(READ_COMMITTED)
        stored = await self._read(READ_UNCOMMITTED)
        for place in LASTING_PLACES:
            partition = self._world.view(place).partition
            self._world.history.check(place, stored[place], shown[place], partition)
        self._world.history.check_atomicity(
            {place: values.values() for place, values in shown.items()}
        )
        # Again: transactions whose outcome was unknown are known now.
        assert await self._offsets.read(line, is_stable=True)
        line.close()

    async def _read(self, isolation: int) -> dict[TopicPartition, dict[int, bytes]]:
        name = f"audit-{self._rounds}-{isolation}"
        return await Reader(self._world, name, isolation=isolation).read_all()

    async def _until_settled(self, line: Line) -> None:
        deadline = asyncio.get_running_loop().time() + SETTLED_WITHIN_S
        while unsettled := await self._unsettled(line):
            assert asyncio.get_running_loop().time() < deadline, f"hangs: {unsettled}"
            await asyncio.sleep(POLL_S)

    async def _unsettled(self, line: Line) -> list[str]:
        """What is open, in words."""
        unsettled = []
        request = DescribeTransactionsRequest(transactional_ids=self._transactional_ids)
        for each in (await line.ask(request, 0)).transaction_states:
            if each.error_code not in ABSENT and each.transaction_state not in AT_REST:
                unsettled.append(f"{each.transactional_id}: {each}")
        ends = await self._ends(line, READ_UNCOMMITTED)
        stable = await self._ends(line, READ_COMMITTED)
        unsettled += [
            f"{place}: stable up to {stable[place]} of {end}"
            for place, end in ends.items()
            if stable[place] != end
        ]
        if not await self._offsets.read(line, is_stable=True):
            unsettled.append("an offset of the group")
        return unsettled

    async def _ends(self, line: Line, isolation: int) -> dict[TopicPartition, int]:
        request = ListOffsetsRequest(
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
                for topic, members in by_topic(self._places).items()
            ),
        )
        ends = {}
        for topic in (await line.ask(request, 6)).topics:
            for each in topic.partitions:
                place = TopicPartition(topic.name, each.partition_index)
                if place == FLEETING_PLACE and each.error_code in ABSENT:
                    continue
                assert each.error_code == ErrorCode.NONE, f"{place}: {each}"
                ends[place] = each.offset
        return ends
