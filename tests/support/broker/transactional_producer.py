"""A transactional producer that can forge batches, and a coordinator that answers as told."""

import asyncio
from collections.abc import Mapping
from typing import Any

from ottla.coordinators.txn.verification import Verification
from ottla.errors import ErrorCode
from ottla.protocol.exchange import decode_response
from ottla.protocol.messages import APIS
from ottla.protocol.topic_partition import TopicPartition
from tests.support.broker.produce_and_fetch import batch, only, produce
from tests.support.broker.sessions import by_codec
from tests.support.broker.simulated_broker import Client, encoded
from tests.support.broker.transactional_requests import Producer


class ForgingProducer(Producer):
    """Sends any batch in any version of Produce. Each batch has one record of `events`."""

    def __init__(self, client: Client, transactional_id: str = "t", *, version: int = 11) -> None:
        """`version` is that of Produce; from 12 on the leader adds partitions."""
        super().__init__(client, transactional_id, version=2 if version >= 12 else 1)
        self.produce_version = version

    def batch(self, value: bytes, sequence: int, **fields: Any) -> bytearray:
        producer: dict[str, Any] = {
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "base_sequence": sequence,
            "transactional": True,
        }
        return batch(value, **producer | fields)

    async def produce(
        self,
        value: bytes,
        partition: int = 0,
        topic: str = "events",
        *,
        sequence: int | None = None,
        is_native: bool = True,
        **fields: Any,
    ) -> Any:
        """Produces the next batch of a partition, or the one that is described; its result."""
        if sequence is None:
            sequence = self._sequences.get((topic, partition), 0)
        sent = self.batch(value, sequence, **fields)
        request = produce(topic, sent, partition=partition, transactional_id=self.transactional_id)
        result = await ask_produce(self.client, request, self.produce_version, is_native=is_native)
        if result.error_code == ErrorCode.NONE:
            self._sequences[topic, partition] = sequence + 1
        return result


async def ask_produce(client: Client, request: Any, version: int, *, is_native: bool) -> Any:
    """The only partition of the response, on either path of the broker."""
    if is_native:
        return only(await client.ask(request, version))
    frame = await client.exchange(by_codec(encoded(request, version)))
    return only(decode_response(frame, APIS[0], version))


class ScriptedCoordinator:
    """A `TransactionVerifier` whose answers are given beforehand; the last one is repeated."""

    def __init__(self, *codes: ErrorCode) -> None:
        self.asked: list[Verification] = []
        # Cleared to hold answers back.
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self._codes = list(codes) or [ErrorCode.NONE]

    async def verify(self, verification: Verification) -> Mapping[TopicPartition, ErrorCode]:
        self.asked.append(verification)
        code = self._codes.pop(0) if len(self._codes) > 1 else self._codes[0]
        await self.may_answer.wait()
        return dict.fromkeys(verification.partitions, code)
