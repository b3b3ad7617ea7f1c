"""An idempotent producer of kafka-python. It opens another one after any failed delivery.

Its order after a failed delivery is not promised, and a careful application does not rely on it.
"""

import threading
from typing import Any

from tests.cluster.chaos.clients.process import Client, run
from tests.cluster.chaos.history import NO_OFFSET, Acknowledged, Failed, Partition, Sent
from tests.support.clients.kafka_python import KafkaError, KafkaProducer

IN_FLIGHT_MAX = 200
CLOSE_S = 5.0


class KafkaPython:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._opened = 0
        self._in_flight = 0
        # Deliveries are reported by the producer's thread.
        self._lock = threading.Lock()
        self._is_broken = True
        self._producer: KafkaProducer | None = None

    def _open(self) -> KafkaProducer | None:
        options = self._client.options
        idempotence: dict[str, Any] = {"enable_idempotence": options.acks == "all"}
        try:
            return KafkaProducer(
                bootstrap_servers=options.servers.split(","),
                client_id=options.name,
                acks="all" if options.acks == "all" else int(options.acks),
                **idempotence,
                delivery_timeout_ms=int(options.delivery_s * 1000),
                request_timeout_ms=5_000,
                max_block_ms=5_000,
                linger_ms=10,
                reconnect_backoff_ms=50,
                reconnect_backoff_max_ms=1_000,
            )
        except KafkaError:
            return None

    def run(self) -> None:
        interval_s = 1 / self._client.options.per_second
        while not self._client.is_stopping:
            if self._is_broken:
                self._reopen()
            elif self._in_flight < IN_FLIGHT_MAX:
                self._send()
            self._client.wait(interval_s)
        while self._producer is not None and self._in_flight and not self._client.is_late:
            try:
                self._producer.flush(1.0)
            except KafkaError:
                continue

    def _reopen(self) -> None:
        if self._producer is not None:
            self._producer.close(timeout=CLOSE_S)
        with self._lock:
            self._in_flight = 0
            self._opened += 1
        self._producer = self._open()
        self._is_broken = self._producer is None

    def _send(self) -> None:
        options, value = self._client.options, self._client.next_value()
        topic = self._client.random.choice(options.topics)
        partition = Partition(topic, self._client.random.randrange(options.partitions))
        opened = self._opened
        self._client.history.write(Sent, producer=opened, partition=partition, value=value)
        assert self._producer is not None
        try:
            coming = self._producer.send(
                topic,
                key=value.encode(),
                value=self._client.payload().encode(),
                partition=partition.number,
            )
        except KafkaError as failure:
            # It may have been queued before.
            self._fail(value, repr(failure))
            self._is_broken = True
            return
        with self._lock:
            self._in_flight += 1
        coming.add_callback(self._delivered, opened, partition, value)
        coming.add_errback(self._undelivered, opened, value)

    def _delivered(self, opened: int, partition: Partition, value: str, found: Any) -> None:
        offset = found.offset
        self._client.history.write(
            Acknowledged,
            partition=partition,
            offset=NO_OFFSET if offset is None or offset < 0 else offset,
            value=value,
        )
        self._land(opened)

    def _undelivered(self, opened: int, value: str, failure: BaseException) -> None:
        self._fail(value, repr(failure))
        if opened == self._opened:
            self._is_broken = True
        self._land(opened)

    def _land(self, opened: int) -> None:
        with self._lock:
            if opened == self._opened:
                self._in_flight -= 1

    def _fail(self, value: str, reason: str) -> None:
        self._client.history.write(Failed, value=value, is_definite=False, reason=reason)


if __name__ == "__main__":
    run(lambda client: KafkaPython(client).run())
