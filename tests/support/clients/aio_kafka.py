"""aiokafka."""

import asyncio
from collections.abc import Sequence

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

from tests.support.clients.client import WAIT_S, Sent, Stored, Unsayable


class AioKafka:
    name = "aiokafka"
    cannot_say = frozenset({Unsayable.NULL_KEY_AND_VALUE})

    def write(self, servers: str, topic: str, sent: Sequence[Sent], codec: str = "none") -> None:
        asyncio.run(self._write(servers, topic, sent, None if codec == "none" else codec))

    def read(self, servers: str, topic: str, amount: int, *, first: int = 0) -> list[Stored]:
        return asyncio.run(self._read(servers, topic, amount, first))

    def offset_at(self, servers: str, topic: str, timestamp_ms: int) -> int | None:
        return asyncio.run(self._offset_at(servers, topic, timestamp_ms))

    async def _write(
        self, servers: str, topic: str, sent: Sequence[Sent], codec: str | None
    ) -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=servers, compression_type=codec, linger_ms=100
        ) as producer:
            coming = [
                await producer.send(
                    topic,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    partition=0,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in sent
            ]
            await asyncio.gather(*coming)

    async def _read(self, servers: str, topic: str, amount: int, first: int) -> list[Stored]:
        async with open_consumer(servers) as consumer:
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, first)
            async with asyncio.timeout(WAIT_S):
                return [stored(await consumer.getone()) for _ in range(amount)]

    async def _offset_at(self, servers: str, topic: str, timestamp_ms: int) -> int | None:
        async with open_consumer(servers) as consumer:
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            found = (await consumer.offsets_for_times({partition: timestamp_ms}))[partition]
            return None if found is None else found.offset


def open_consumer(servers: str, **settings: object) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False, **settings)


def stored(record: ConsumerRecord) -> Stored:
    return Stored(record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
