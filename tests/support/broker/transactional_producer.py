"""A transactional producer on the simulated network, and a coordinator that answers as told."""

import asyncio
from collections.abc import Mapping
from typing import Any

from ottla.coordinators.txn.verification import Verification
from ottla.errors import ErrorCode
from ottla.protocol.batch import read_header, records
from ottla.protocol.exchange import decode_response
from ottla.protocol.messages import APIS
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, Topic
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.topic_partition import TopicPartition
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, wanted
from tests.support.broker.sessions import by_codec
from tests.support.broker.simulated_broker import Client, encoded

# Producers without and with KIP-890: the versions of Produce and EndTxn.
BY_CLIENT, BY_LEADER = (11, 4), (12, 5)
IN_PROGRESS = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


class TransactionalProducer:
    """Keeps the producer id, the epoch and the sequences. Each batch has one record."""

    def __init__(
        self, client: Client, transactional_id: str = "t", versions: tuple[int, int] = BY_CLIENT
    ) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.produce_version, self.end_version = versions
        self.producer_id, self.epoch = -1, -1
        self.sequences: dict[tuple[str, int], int] = {}

    async def init(self) -> None:
        find = FindCoordinatorRequest(coordinator_keys=(self.transactional_id,), key_type=1)
        await self.client.ask(find)
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=60_000
        )
        while (answer := await self.client.ask(request)).error_code in IN_PROGRESS:
            await asyncio.sleep(0.1)
        assert answer.error_code == ErrorCode.NONE
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences.clear()

    async def add(self, *partitions: int, topic: str = "events") -> ErrorCode:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=(Topic(name=topic, partitions=partitions),),
        )
        (result,) = (await self.client.ask(request, 3)).results_by_topic_v3_and_below
        (code,) = {each.partition_error_code for each in result.results_by_partition}
        return ErrorCode(code)

    def batch(self, value: bytes, sequence: int, **fields: Any) -> bytearray:
        producer: dict[str, Any] = {
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "base_sequence": sequence,
            "transactional": True,
        }
        return batch(value, **producer | fields)

    async def send(
        self,
        value: bytes,
        partition: int = 0,
        topic: Any = "events",
        *,
        sequence: int | None = None,
        is_native: bool = True,
        **fields: Any,
    ) -> Any:
        """Produces the next batch of a partition; its result."""
        if sequence is None:
            sequence = self.sequences.get((topic, partition), 0)
        sent = self.batch(value, sequence, **fields)
        request = produce(topic, sent, partition=partition, transactional_id=self.transactional_id)
        result = await ask_produce(self.client, request, self.produce_version, is_native=is_native)
        if result.error_code == ErrorCode.NONE:
            self.sequences[topic, partition] = sequence + 1
        return result

    async def end(self, *, committed: bool = True) -> ErrorCode:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )
        answer = await self.client.ask(request, self.end_version)
        if self.end_version >= BY_LEADER[1] and answer.error_code == ErrorCode.NONE:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return ErrorCode(answer.error_code)


async def ask_produce(client: Client, request: Any, version: int, *, is_native: bool) -> Any:
    """The only partition of the response, on either path of the broker."""
    if is_native:
        return only(await client.ask(request, version))
    frame = await client.exchange(by_codec(encoded(request, version)))
    return only(decode_response(frame, APIS[0], version))


async def committed_values(
    client: Client, topic: str = "events", partition: int = 0
) -> list[bytes | None]:
    """The values that a read_committed consumer returns."""
    fetched = only(await client.ask(fetch(topic, wanted(partition), isolation=1), 12))
    unseen = sorted(fetched.aborted_transactions, key=lambda each: each.first_offset)
    aborting: set[int] = set()
    found: list[bytes | None] = []
    view, position = memoryview(fetched.records or b""), 0
    while position < len(view):
        header = read_header(view, position)
        one = view[position : position + header.size]
        position += header.size
        while unseen and unseen[0].first_offset <= header.last_offset:
            aborting.add(unseen.pop(0).producer_id)
        if header.is_control:
            aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            found += [record.value for record in records(one)]
    return found


class ScriptedCoordinator:
    """A `TransactionVerifier` whose answers are given beforehand; the last one is repeated."""

    def __init__(self, *codes: ErrorCode) -> None:
        self.asked: list[Verification] = []
        # Set to hold back an answer.
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self._codes = list(codes) or [ErrorCode.NONE]

    async def verify(self, verification: Verification) -> Mapping[TopicPartition, ErrorCode]:
        self.asked.append(verification)
        code = self._codes.pop(0) if len(self._codes) > 1 else self._codes[0]
        await self.may_answer.wait()
        return dict.fromkeys(verification.partitions, code)
