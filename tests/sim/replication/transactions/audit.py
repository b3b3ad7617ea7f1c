"""After the faults: every transaction in the cluster is settled, and whole or absent."""

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.errors import ErrorCode
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.broker.transactional_audit import (
    LIST_OFFSETS_VERSION,
    NAME,
    Audit,
    end_offsets_request,
)
from tests.sim.broker.transactional_route import Route
from tests.sim.replication.transactions.readers import TransactionalReader
from tests.sim.replication.transactions.route import ClusterRoute
from tests.sim.replication.transactions.world import OFFSETS_PARTITIONS, ClusterTransactions
from tests.support.broker.produce_and_fetch import only


class ClusterAudit(Audit):
    """Asks the leader of each partition, and the coordinator of each id."""

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
            states += (await way.line.ask(request, 0)).transaction_states
        return states

    async def _ends(self, route: Route, isolation: int) -> Mapping[TopicPartition, int]:
        ends = {}
        for place in self._places:
            request = end_offsets_request((place,), isolation)
            way = await self._route.way_to_leader(place)
            result = only(await way.line.ask(request, LIST_OFFSETS_VERSION))
            assert result.error_code == ErrorCode.NONE, f"{place}: {result}"
            ends[place] = result.offset
        return ends
