"""The transactional clients of the chaos runs, on a producer that a test makes fail."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.cluster.chaos.clients import transactions
from tests.cluster.chaos.clients.process import Client, Options
from tests.cluster.chaos.clients.transactions import TransactionLine, run_transaction
from tests.cluster.chaos.history import Partition, Step

FENCED = KafkaException(KafkaError(KafkaError._FENCED, "fenced", True))


PURGED = KafkaError(KafkaError._PURGE_QUEUE)


class FakeMessage:
    def topic(self) -> str:
        return "topic"

    def partition(self) -> int:
        return 0

    def offset(self) -> int | None:
        return None

    def key(self) -> bytes:
        return b"transactional-1"

    def value(self) -> bytes:
        return b""


class FakeProducer:
    """`left` records are never reported; a flush raises `failure`, and reports `undelivered`."""

    def __init__(
        self,
        left: int = 0,
        failure: Exception | None = None,
        undelivered: KafkaError | None = None,
    ) -> None:
        self._left = left
        self._failure = failure
        self._undelivered = undelivered
        self._reports: list[Any] = []
        self.aborts = 0

    def produce(self, *_: Any, on_delivery: Any, **__: Any) -> None:
        self._reports.append(on_delivery)

    def init_transactions(self, _: float) -> None: ...

    def begin_transaction(self) -> None: ...

    def flush(self, _: float) -> int:
        if self._failure is not None:
            raise self._failure
        while self._reports:
            self._reports.pop()(self._undelivered, FakeMessage())
        return self._left

    def abort_transaction(self, _: float) -> None:
        self.aborts += 1


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    handler = signal.getsignal(signal.SIGTERM)
    path = str(tmp_path / "history.jsonl")
    client = Client(Options("servers", "transactional", path, 1, ("topic",), 1))
    yield client
    client.history.close()
    signal.signal(signal.SIGTERM, handler)


def line_on(
    producer: FakeProducer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> TransactionLine:
    def opened(_: dict[str, Any]) -> FakeProducer:
        return producer

    monkeypatch.setattr(transactions, "Producer", opened)
    line = TransactionLine(client)
    line.open()
    return line


def wrapped() -> SystemError:
    """As Python makes it of an error that a callback finds already set."""
    error = SystemError("returned a result with an exception set")
    error.__cause__ = FENCED
    return error


def send_and_abort(line: TransactionLine) -> Step:
    def fill() -> bool:
        line.send(Partition("topic", 0), "")
        return False

    return run_transaction(line, fill)


def test_a_transaction_whose_records_are_delivered_is_aborted(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = FakeProducer()
    line = line_on(producer, client, monkeypatch)
    assert send_and_abort(line) is Step.ABORTED
    assert producer.aborts == 1


@pytest.mark.parametrize(
    "producer",
    [
        FakeProducer(left=1),
        FakeProducer(failure=FENCED),
        FakeProducer(failure=wrapped()),
        # Purged as soon as the transaction had failed, before it was aborted.
        FakeProducer(undelivered=PURGED),
    ],
)
def test_a_producer_with_records_that_may_be_in_the_log_is_given_up_and_not_asked_to_abort(
    producer: FakeProducer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = line_on(producer, client, monkeypatch)
    assert send_and_abort(line) is Step.UNKNOWN
    assert producer.aborts == 0


def test_a_producer_that_was_opened_after_another_one_had_lost_records_aborts_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = line_on(FakeProducer(undelivered=PURGED), client, monkeypatch)
    assert send_and_abort(line) is Step.UNKNOWN
    successor = FakeProducer()
    monkeypatch.setattr(transactions, "Producer", lambda _: successor)
    line.open()
    assert send_and_abort(line) is Step.ABORTED
    assert successor.aborts == 1
