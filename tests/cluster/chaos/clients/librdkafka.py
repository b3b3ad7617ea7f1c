"""Settings, errors and records of librdkafka, as several clients need them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from tests.cluster.chaos.history import NO_OFFSET, Acknowledged, HistoryWriter, Record

COMMON: dict[str, Any] = {
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1_000,
    "socket.timeout.ms": 10_000,
    # Else it forgets a broker that is away, and with it whatever waits for that broker: calls never
    # return (librdkafka's issues 5456 and 5511).
    "metadata.recovery.strategy": "none",
    "log_level": 0,
}
# The record never left the client.
DEFINITE = {
    KafkaError._PURGE_QUEUE,
    KafkaError._QUEUE_FULL,
    KafkaError.MSG_SIZE_TOO_LARGE,
}


def error_of(failure: KafkaException) -> KafkaError:
    found: KafkaError = failure.args[0]
    return found


def is_fatal(error: KafkaError) -> bool:
    return bool(error.fatal()) or error.code() == KafkaError._FATAL


@contextmanager
def serving() -> Iterator[None]:
    """Around a call that calls back: KafkaException if the client has failed for good.

    The binding raises a fatal error from such a call, and does not pass it to `error_cb`. If
    another callback runs after that, Python makes a SystemError of it, with the error as its cause.
    """
    try:
        yield
    except SystemError as failure:
        if isinstance(failure.__cause__, KafkaException):
            raise failure.__cause__ from None
        raise


def record_of(message: Message) -> Record:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    return Record(
        topic,
        partition,
        NO_OFFSET if offset is None or offset < 0 else offset,
        (message.key() or b"").decode(errors="replace"),
        (message.value() or b"").decode(errors="replace"),
    )


def write_acknowledgement(history: HistoryWriter, message: Message) -> None:
    record = record_of(message)
    history.write(Acknowledged, partition=record.where, offset=record.offset, value=record.value)
