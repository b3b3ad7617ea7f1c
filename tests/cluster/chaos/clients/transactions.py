"""Transactions of librdkafka, written to a history step by step."""

import os
import threading
import time
from collections.abc import Callable
from queue import Empty, Queue

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.cluster.chaos.clients.librdkafka import (
    COMMON,
    error_of,
    record_of,
    serving,
    write_acknowledgement,
)
from tests.cluster.chaos.clients.process import Client
from tests.cluster.chaos.history import (
    Failed,
    Partition,
    Sent,
    Step,
    Transaction,
)

TRANSACTION_TIMEOUT_MS = 15_000
CALL_S = 5.0
FLUSH_S = 5.0
# A step that takes longer than this cannot succeed: the coordinator has aborted the transaction.
STEP_S = 3 * TRANSACTION_TIMEOUT_MS / 1000
# librdkafka's `send_offsets_to_transaction` may never return, whatever its timeout is.
RETURN_S = 4 * CALL_S
NO_RETURN = f"a call with a timeout of {CALL_S:g} s did not return within {RETURN_S:g} s"
# librdkafka's debug contexts, for whoever looks why a client waits: written to its `.err` file.
DEBUG = os.environ.get("CHAOS_DEBUG", "")
_ABANDONED: list[Producer] = []


class AbortNeeded(Exception):
    """The transaction has to be aborted; then the producer can go on."""


class ProducerLost(Exception):
    """The producer is fenced, or cannot go on. Another one has to be opened."""


class TransactionLine:
    """One transactional id: a producer at a time, a transaction at a time."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._opened = 0
        self._begun = 0
        self._transaction = ""
        self._producer: Producer | None = None
        # Of the producer that is open.
        self._has_undelivered = False

    def open(self) -> None:
        """Another producer of the transactional id: it ends what an earlier one has left open."""
        self._opened += 1
        self._has_undelivered = False
        options = self._client.options
        self._producer = Producer(
            COMMON
            | {
                "bootstrap.servers": options.servers,
                "client.id": options.name,
                "transactional.id": options.name,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "message.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "request.timeout.ms": 5_000,
                "linger.ms": 5,
            }
            | ({"debug": DEBUG, "log_level": 7} if DEBUG else {})
        )
        self._call(self._producer.init_transactions)

    @property
    def producer(self) -> Producer:
        assert self._producer is not None
        return self._producer

    def begin(self) -> None:
        self._begun += 1
        self._transaction = f"{self._client.options.name}/{self._begun}"
        self._note(Step.BEGUN)
        self._call(lambda _: self.producer.begin_transaction())

    def send(self, partition: Partition, payload: str) -> None:
        value = self._client.next_value()
        self._client.history.write(
            Sent,
            producer=self._opened,
            partition=partition,
            value=value,
            transaction=self._transaction,
        )
        try:
            self.producer.produce(
                partition.topic,
                key=value,
                value=payload,
                partition=partition.number,
                on_delivery=self._delivered,
            )
        except (BufferError, KafkaException) as failure:
            self._fail(value, repr(failure), is_definite=True)
            raise AbortNeeded from failure

    def call(self, act: Callable[[float], object]) -> None:
        """A step of the transaction, which is given the time that it may take."""
        self._call(act)

    def commit(self) -> None:
        """AbortNeeded, or ProducerLost with the outcome noted as unknown."""
        self._note(Step.COMMITTING)
        try:
            self._call(self.producer.commit_transaction)
        except ProducerLost:
            self._note(Step.UNKNOWN)
            raise
        self._note(Step.COMMITTED)

    def abort(self) -> None:
        """A lost producer leaves the abort to the coordinator, or to the next producer.

        ProducerLost also if records are not delivered, which may be in the log. librdkafka drops
        them, here or before, and gives their sequence numbers to records of the next transaction,
        with the same epoch: the broker has to take those for copies, and they would be lost.
        """
        if self._flush() or self._has_undelivered:
            raise ProducerLost
        self._call(self.producer.abort_transaction)
        self._note(Step.ABORTED)

    def _flush(self) -> int:
        """The number of records that are not reported yet. ProducerLost."""
        try:
            with serving():
                return self.producer.flush(FLUSH_S)
        except KafkaException as failure:
            raise ProducerLost from failure

    def _call(self, act: Callable[[float], object]) -> None:
        deadline = time.monotonic() + STEP_S
        while True:
            try:
                self._call_within_bound(act)
            except KafkaException as failure:
                error = error_of(failure)
                if error.retriable() and time.monotonic() < deadline and not self._client.is_late:
                    self._client.wait(0.05)
                    continue
                # For whoever looks why a client was slow.
                print(f"{time.monotonic():.3f} {self._transaction}: {error!r}", flush=True)
                if error.txn_requires_abort():
                    raise AbortNeeded from failure
                raise ProducerLost from failure
            return

    def _call_within_bound(self, act: Callable[[float], object]) -> None:
        """ProducerLost if the call does not return, though it was given a timeout."""
        outcome: Queue[KafkaException | None] = Queue()

        def run() -> None:
            try:
                with serving():
                    act(CALL_S)
            except KafkaException as failure:
                outcome.put(failure)
            else:
                outcome.put(None)

        threading.Thread(target=run, daemon=True).start()
        try:
            failure = outcome.get(timeout=RETURN_S)
        except Empty:
            print(f"{time.monotonic():.3f} {self._transaction}: {NO_RETURN}", flush=True)
            # Never freed: that would wait for the call. The next producer fences it.
            _ABANDONED.append(self.producer)
            raise ProducerLost from None
        if failure is not None:
            raise failure

    def _note(self, step: Step) -> None:
        self._client.history.write(Transaction, transaction=self._transaction, step=step)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            write_acknowledgement(self._client.history, message)
        else:
            self._has_undelivered = True
            self._fail(record_of(message).value, str(error), is_definite=False)

    def _fail(self, value: str, reason: str, *, is_definite: bool) -> None:
        self._client.history.write(Failed, value=value, is_definite=is_definite, reason=reason)


def run_transaction(line: TransactionLine, fill: Callable[[], bool]) -> Step:
    """One transaction. `fill` sends its records and says whether they are to be committed.

    The step that was reached: committed, aborted, or unknown if another producer has to be opened.
    """
    try:
        line.begin()
        try:
            if fill():
                line.commit()
                return Step.COMMITTED
        except AbortNeeded:
            pass
        line.abort()
    except (AbortNeeded, ProducerLost):
        return Step.UNKNOWN
    return Step.ABORTED


def open_line(client: Client) -> TransactionLine | None:
    """A line that is ready for its first transaction; None if the client is to end before."""
    line = TransactionLine(client)
    return line if reopen(client, line) else None


def reopen(client: Client, line: TransactionLine) -> bool:
    while not client.is_stopping:
        try:
            line.open()
        except (AbortNeeded, ProducerLost):
            client.wait(0.5)
        else:
            return True
    return False
