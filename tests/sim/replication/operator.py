"""An operator that changes partitions while clients use them.

It sets `min.insync.replicas`, moves partitions to other brokers, elects preferred leaders, deletes
records, and cancels what it began.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ottla.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from ottla.protocol.messages.alter_partition_reassignments import Partition as Reassigned
from ottla.protocol.messages.alter_partition_reassignments import Topic as ReassignedTopic
from ottla.protocol.messages.delete_records import DeleteRecordsRequest
from ottla.protocol.messages.delete_records import Partition as Deleted
from ottla.protocol.messages.delete_records import Topic as DeletedTopic
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.incremental_alter_configs import (
    Config,
    IncrementalAlterConfigsRequest,
    Resource,
)
from tests.sim.cluster.admin import PASSING
from tests.sim.cluster.routing import Routing, TryAgain
from tests.sim.replication.world import BROKERS, ReplicationWorld, Target

TIMEOUT_MS = 3_000
ALTER_VERSION, REASSIGN_VERSION, ELECT_VERSION, DELETE_VERSION = 1, 0, 2, 2
TOPIC_RESOURCE, SET, PREFERRED = 2, 0, 0
# A broker may be gone, or a partition as it is to be.
REFUSED = (
    *PASSING,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    ErrorCode.ELECTION_NOT_NEEDED,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ErrorCode.OFFSET_OUT_OF_RANGE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


class Operator:
    """Does one change after another until the world is calm; then what is under way completes."""

    name = "operator"

    def __init__(self, world: ReplicationWorld) -> None:
        self.changes = 0
        self._world = world
        self._entropy = world.entropy.fork(self.name)
        self._routing = Routing(world, self.name, self._entropy.fork("routing"))

    def __repr__(self) -> str:
        return f"{self.name}, {self.changes} changes"

    async def run(self) -> None:
        changes: tuple[Callable[[Target], Awaitable[int]], ...] = (
            self._set_min_isr,
            self._reassign,
            self._reassign,
            self._cancel,
            self._elect_preferred,
            self._delete_records,
        )
        while not self._world.is_calm:
            await asyncio.sleep(self._entropy.between(1, 2_000) / 1e3)
            targets = [*self._world.targets, *self._world.churned]
            change, target = self._entropy.pick(changes), self._entropy.pick(targets)
            try:
                code = await change(target)
            except (OSError, TimeoutError, TryAgain):
                self._routing.close()
                continue
            assert code in (ErrorCode.NONE, *REFUSED), f"{change.__name__} {target}: {code}"
            self._routing.forget(*target.key)
            if code == ErrorCode.NONE:
                self.changes += 1
        self._routing.close()

    async def _set_min_isr(self, target: Target) -> int:
        value = str(self._entropy.between(1, 2))
        config = Config(name="min.insync.replicas", config_operation=SET, value=value)
        resource = Resource(
            resource_type=TOPIC_RESOURCE, resource_name=target.topic, configs=(config,)
        )
        request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
        (result,) = (await self._ask(request, ALTER_VERSION)).responses
        return int(result.error_code)

    async def _reassign(self, target: Target) -> int:
        """To as many brokers as before, in any order."""
        broker_ids = list(self._world.cluster.machines)
        replicas: list[int] = []
        for _ in range(self._factor_of(target)):
            replicas.append(broker_ids.pop(self._entropy.below(len(broker_ids))))
        return await self._alter(target, tuple(replicas))

    def _factor_of(self, target: Target) -> int:
        """Of a partition that is not being reassigned."""
        record = self._world.oracle.losses.newest.get(target.key)
        return BROKERS if record is None else len(record.replicas) - len(record.adding)

    async def _cancel(self, target: Target) -> int:
        return await self._alter(target, None)

    async def _alter(self, target: Target, replicas: tuple[int, ...] | None) -> int:
        partition = Reassigned(partition_index=target.index, replicas=replicas)
        topic = ReassignedTopic(name=target.topic, partitions=(partition,))
        request = AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=(topic,))
        response = await self._ask(request, REASSIGN_VERSION)
        if response.error_code:
            return int(response.error_code)
        return int(response.responses[0].partitions[0].error_code)

    async def _elect_preferred(self, target: Target) -> int:
        asked = TopicPartitions(topic=target.topic, partitions=(target.index,))
        request = ElectLeadersRequest(
            election_type=PREFERRED, topic_partitions=(asked,), timeout_ms=TIMEOUT_MS
        )
        response = await self._ask(request, ELECT_VERSION)
        if response.error_code:
            return int(response.error_code)
        results = response.replica_election_results
        return int(results[0].partition_result[0].error_code) if results else int(ErrorCode.NONE)

    async def _delete_records(self, target: Target) -> int:
        """Up to the end of a batch that somebody has read."""
        offset = self._world.next_deletion(target, self._entropy)
        partition = Deleted(partition_index=target.index, offset=offset)
        topic = DeletedTopic(name=target.topic, partitions=(partition,))
        request = DeleteRecordsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS)
        _, line = await self._routing.leader(target.topic, target.topic_id, target.index)
        response = await line.line.ask(request, DELETE_VERSION)
        return int(response.topics[0].partitions[0].error_code)

    async def _ask(self, request: object, version: int) -> Any:
        line = await self._routing.any_broker()
        return await line.line.ask(request, version)
