"""An idempotent producer of librdkafka. It opens another one after a fatal error."""

from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.cluster.chaos.clients.librdkafka import (
    COMMON,
    DEFINITE,
    error_of,
    is_fatal,
    record_of,
    serving,
    write_acknowledgement,
)
from tests.cluster.chaos.clients.process import Client, run
from tests.cluster.chaos.history import Failed, Partition, Sent

IN_FLIGHT_MAX = 200


class Idempotent:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._opened = 0
        self._in_flight = 0
        self._is_broken = False
        self._producer = self._open()

    def _open(self) -> Producer:
        self._opened += 1
        self._is_broken = False
        options = self._client.options
        settings: dict[str, Any] = {
            "bootstrap.servers": options.servers,
            "client.id": options.name,
            "acks": options.acks,
            "enable.idempotence": options.acks == "all",
            "message.timeout.ms": int(options.delivery_s * 1000),
            "request.timeout.ms": 5_000,
            "linger.ms": 10,
        }
        return Producer(COMMON | settings)

    def run(self) -> None:
        interval_s = 1 / self._client.options.per_second
        while not self._client.is_stopping:
            if self._in_flight < IN_FLIGHT_MAX:
                self._send()
            self._serve(interval_s)
            if self._is_broken:
                self._reopen()
        while self._in_flight and not self._client.is_late and not self._is_broken:
            self._flush(1.0)

    def _serve(self, seconds: float) -> None:
        """`poll` returns with the first delivery; the rate is kept nevertheless."""
        try:
            with serving():
                self._producer.poll(0)
        except KafkaException:
            self._is_broken = True
        self._client.wait(seconds)

    def _flush(self, seconds: float) -> None:
        try:
            with serving():
                self._producer.flush(seconds)
        except KafkaException:
            self._is_broken = True

    def _send(self) -> None:
        options, value = self._client.options, self._client.next_value()
        topic = self._client.random.choice(options.topics)
        partition = Partition(topic, self._client.random.randrange(options.partitions))
        self._client.history.write(Sent, producer=self._opened, partition=partition, value=value)
        try:
            self._producer.produce(
                topic,
                key=value,
                value=self._client.payload(),
                partition=partition.number,
                on_delivery=self._delivered,
            )
        except (BufferError, KafkaException) as failure:
            # Nothing was queued.
            self._fail(value, True, repr(failure))
            if isinstance(failure, KafkaException) and is_fatal(error_of(failure)):
                self._is_broken = True
        else:
            self._in_flight += 1

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self._in_flight -= 1
        if error is None:
            write_acknowledgement(self._client.history, message)
        else:
            self._fail(record_of(message).value, error.code() in DEFINITE, str(error))

    def _fail(self, value: str, is_definite: bool, reason: str) -> None:
        self._client.history.write(Failed, value=value, is_definite=is_definite, reason=reason)

    def _reopen(self) -> None:
        # Each record in flight is reported as failed.
        self._flush(5.0)
        self._in_flight = 0
        self._producer = self._open()


if __name__ == "__main__":
    run(lambda client: Idempotent(client).run())
