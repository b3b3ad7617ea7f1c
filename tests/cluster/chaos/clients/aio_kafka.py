"""An idempotent producer of aiokafka. It opens another one after any failed delivery."""

import asyncio
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from tests.cluster.chaos.clients.process import Client, run
from tests.cluster.chaos.history import NO_OFFSET, Acknowledged, Failed, Partition, Sent

IN_FLIGHT_MAX = 200
CLOSE_S = 5.0


class AioKafka:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._opened = 0
        self._producer: AIOKafkaProducer | None = None
        self._is_broken = True
        self._in_flight: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        interval_s = 1 / self._client.options.per_second
        while not self._client.is_stopping:
            if self._is_broken:
                await self._reopen()
            elif len(self._in_flight) < IN_FLIGHT_MAX:
                await self._send()
            await asyncio.sleep(interval_s)
        while self._in_flight and not self._client.is_late:
            await asyncio.wait(self._in_flight, timeout=1.0)

    async def _reopen(self) -> None:
        if self._producer is not None:
            with suppress(KafkaError, TimeoutError):
                await asyncio.wait_for(self._producer.stop(), CLOSE_S)
            self._producer = None
        self._opened += 1
        options = self._client.options
        producer = AIOKafkaProducer(
            bootstrap_servers=options.servers.split(","),
            client_id=options.name,
            acks="all" if options.acks == "all" else int(options.acks),
            enable_idempotence=options.acks == "all",
            # Also the time after which it gives up a record.
            request_timeout_ms=int(options.delivery_s * 1000),
            retry_backoff_ms=50,
            linger_ms=10,
        )
        try:
            await asyncio.wait_for(producer.start(), options.delivery_s)
        except (KafkaError, TimeoutError):
            with suppress(KafkaError, TimeoutError):
                await asyncio.wait_for(producer.stop(), CLOSE_S)
            return
        self._producer, self._is_broken = producer, False

    async def _send(self) -> None:
        options, value = self._client.options, self._client.next_value()
        topic = self._client.random.choice(options.topics)
        partition = Partition(topic, self._client.random.randrange(options.partitions))
        opened = self._opened
        self._client.history.write(Sent, producer=opened, partition=partition, value=value)
        assert self._producer is not None
        try:
            coming = await self._producer.send(
                topic,
                key=value.encode(),
                value=self._client.payload().encode(),
                partition=partition.number,
            )
        except KafkaError as failure:
            self._fail(opened, value, failure)
            return
        task = asyncio.create_task(self._deliver(opened, partition, value, coming))
        self._in_flight.add(task)
        task.add_done_callback(self._in_flight.discard)

    async def _deliver(self, opened: int, partition: Partition, value: str, coming: Any) -> None:
        try:
            found = await coming
        except KafkaError as failure:
            self._fail(opened, value, failure)
            return
        offset = found.offset
        self._client.history.write(
            Acknowledged,
            partition=partition,
            offset=NO_OFFSET if offset is None or offset < 0 else offset,
            value=value,
        )

    def _fail(self, opened: int, value: str, failure: KafkaError) -> None:
        if opened == self._opened:
            self._is_broken = True
        reason = repr(failure)
        self._client.history.write(Failed, value=value, is_definite=False, reason=reason)


if __name__ == "__main__":
    run(lambda client: asyncio.run(AioKafka(client).run()))
