"""A transactional producer as plain requests, of transaction version 1 or 2, step by step."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ottla.client.reading.fetch import Aborted
from ottla.client.reading.visible_records import visible
from ottla.errors import ErrorCode
from ottla.protocol.coordinator_type import CoordinatorType
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import Topic as AddedTopic
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.txn_offset_commit import Partition as CommittedPartition
from ottla.protocol.messages.txn_offset_commit import Topic as CommittedTopic
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ottla.protocol.producer_epoch import ProducerIdAndEpoch
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, wanted
from tests.support.broker.simulated_broker import Client

READ_COMMITTED = 1
RETRIABLE = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
}


class Producer:
    """One transactional producer. Its methods return error codes, and retry nothing.

    `client` is a connection to its coordinator.
    """

    def __init__(
        self,
        client: Client,
        transactional_id: str = "id",
        *,
        version: int = 2,
        timeout_ms: int = 60_000,
    ) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.version = version
        self.timeout_ms = timeout_ms
        self.producer_id = -1
        self.epoch = -1
        self._sequences: dict[tuple[str, int], int] = {}

    @property
    def identity(self) -> ProducerIdAndEpoch:
        return ProducerIdAndEpoch(self.producer_id, self.epoch)

    def leader_of(self, topic: str, partition: int) -> Client:
        return self.client

    def group_coordinator_of(self, group_id: str) -> Client:
        return self.client

    async def find(self) -> None:
        """Finds the coordinator, which creates its topic."""
        found = await self.client.ask(
            FindCoordinatorRequest(
                key_type=CoordinatorType.TRANSACTION, coordinator_keys=(self.transactional_id,)
            )
        )
        assert [each.error_code for each in found.coordinators] == [ErrorCode.NONE]

    async def init(self, *, renews: bool = False) -> int:
        """Gets an id and an epoch, or renews the epoch (KIP-360)."""
        expected = self.identity if renews else (-1, -1)
        response = await self.client.ask(
            InitProducerIdRequest(
                transactional_id=self.transactional_id,
                transaction_timeout_ms=self.timeout_ms,
                producer_id=expected[0],
                producer_epoch=expected[1],
            ),
            5 if self.version == 2 else 4,
        )
        if response.error_code == ErrorCode.NONE:
            self._take(response.producer_id, response.producer_epoch)
        return response.error_code

    async def begin(self) -> None:
        """Finds the coordinator and gets an id, after retries."""
        await self.find()
        assert await retried(self.init) == ErrorCode.NONE

    async def add(self, topic: str, *indexes: int) -> int:
        """Adds partitions, as producers of version 1 do."""
        response = await self.client.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=(AddedTopic(name=topic, partitions=indexes),),
            ),
            3,
        )
        (result,) = response.results_by_topic_v3_and_below
        codes = {each.partition_error_code for each in result.results_by_partition}
        return max(codes)

    async def send(self, topic: str, *sent: bytes, partition: int = 0, version: int = 0) -> int:
        """Produces one batch in the transaction."""
        sequence = self._sequences.get((topic, partition), 0)
        records = batch(
            *sent,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        request = produce(
            topic, records, partition=partition, transactional_id=self.transactional_id
        )
        version = version or (12 if self.version == 2 else 9)
        leader = self.leader_of(topic, partition)
        code = only(await leader.ask(request, version)).error_code
        if code == ErrorCode.NONE:
            self._sequences[topic, partition] = sequence + len(sent)
        return code

    async def write(self, topic: str, *sent: bytes, partition: int = 0) -> None:
        """Adds the partition if this version has to, and sends; all of it must succeed."""
        if self.version < 2:
            assert await self.add(topic, partition) == ErrorCode.NONE
        assert await self.send(topic, *sent, partition=partition) == ErrorCode.NONE

    async def add_offsets(self, group_id: str) -> int:
        response = await self.client.ask(
            AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                group_id=group_id,
            )
        )
        return response.error_code

    async def commit_offsets(
        self, group_id: str, topic: str, offsets: dict[int, int], **member: Any
    ) -> list[int]:
        """Commits offsets in the transaction; the code of each partition."""
        if self.version < 2:
            assert await self.add_offsets(group_id) == ErrorCode.NONE
        response = await self.group_coordinator_of(group_id).ask(
            TxnOffsetCommitRequest(
                transactional_id=self.transactional_id,
                group_id=group_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                topics=(
                    CommittedTopic(
                        name=topic,
                        partitions=tuple(
                            CommittedPartition(
                                partition_index=index,
                                committed_offset=offset,
                                committed_metadata="",
                            )
                            for index, offset in offsets.items()
                        ),
                    ),
                ),
                **member,
            ),
            5 if self.version == 2 else 4,
        )
        return [each.error_code for each in response.topics[0].partitions]

    async def end(self, committed: bool = True) -> int:
        """Commits or aborts the transaction."""
        response = await self.client.ask(
            EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                committed=committed,
            ),
            5 if self.version == 2 else 4,
        )
        if response.error_code == ErrorCode.NONE and self.version == 2:
            self._take(response.producer_id, response.producer_epoch)
        return response.error_code

    def _take(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != self.identity:
            self._sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch


async def retried(act: Callable[[], Awaitable[int]], tries: int = 100) -> int:
    """The code of the first attempt that is not to be repeated."""
    code = await act()
    for _ in range(tries):
        if code not in RETRIABLE:
            break
        await asyncio.sleep(0.1)
        code = await act()
    return code


async def seen(
    client: Client, topic: str, *, partition: int = 0, isolation: int = READ_COMMITTED
) -> list[bytes | None]:
    """The values that a consumer of this isolation level sees, from the start of the log."""
    answer = only(await client.ask(fetch(topic, wanted(partition), isolation=isolation), 12))
    assert answer.error_code == ErrorCode.NONE
    aborted = [
        Aborted(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()
    ]
    records = visible(memoryview(bytes(answer.records)), aborted, 0).records
    return [record.value for record in records]
