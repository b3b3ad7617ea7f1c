"""After the faults: every transaction in the cluster is settled, and whole or absent."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.errors import ErrorCode
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.broker.transactional_audit import (
    LIST_OFFSETS_VERSION,
    NAME,
    POLL_S,
    Audit,
    end_offsets_request,
)
from tests.sim.broker.transactional_route import Route
from tests.sim.cluster.consumers import PASSING
from tests.sim.replication.transactions.readers import TransactionalReader
from tests.sim.replication.transactions.route import ClusterRoute
from tests.sim.replication.transactions.world import OFFSETS_PARTITIONS, ClusterTransactions
from tests.support.broker.produce_and_fetch import only


class ClusterAudit(Audit):
    """Asks the leader of each partition, and the coordinator of each id.

    Preferred leaders come back in peace, too: what is refused is asked again.
    """

    def __init__(self, world: ClusterTransactions, transactional_ids: Sequence[str]) -> None:
        super().__init__(world, transactional_ids, OFFSETS_PARTITIONS)
        self._cluster = world
        self._route: ClusterRoute = world.cluster_route(NAME)

    async def _read(self, isolation: int) -> Mapping[TopicPartition, dict[int, bytes]]:
        name = f"audit-{isolation}"
        return await TransactionalReader(self._cluster, name, Isolation(isolation)).read_all()

    async def _states(self, route: Route) -> Sequence[Any]:
        states = []
        for each in self._transactional_ids:
            request = DescribeTransactionsRequest(transactional_ids=(each,))
            way = await self._route.way_to_id(each)
            (state,) = (await way.line.ask(request, 0)).transaction_states
            if state.error_code in self._world.retried:
                self._route.refused(request)
            states.append(state)
        return states

    async def _ends(self, route: Route, isolation: int) -> Mapping[TopicPartition, int]:
        return {place: await self._end(place, isolation) for place in self._places}

    async def _end(self, place: TopicPartition, isolation: int) -> int:
        request = end_offsets_request((place,), isolation)
        while True:
            way = await self._route.way_to_leader(place)
            result = only(await way.line.ask(request, LIST_OFFSETS_VERSION))
            if result.error_code == ErrorCode.NONE:
                return int(result.offset)
            assert result.error_code in PASSING, f"{place}: {result}"
            self._route.forget(place)
            await asyncio.sleep(POLL_S)
