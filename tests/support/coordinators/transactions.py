"""A transaction coordinator's state machine, driven by hand as a shard drives it."""

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from ottla.coordinators.runtime.decision import Answered
from ottla.coordinators.txn.decision import Decision, WriteMarkers
from ottla.coordinators.txn.machine import (
    AddRequest,
    EndRequest,
    InitRequest,
    TransactionMachine,
    TransactionRules,
)
from ottla.coordinators.txn.records import Record, decode, encode
from ottla.coordinators.txn.transaction import Transaction
from ottla.errors import ErrorCode, PeerError
from ottla.metrics.meters import TransactionMeter
from ottla.protocol.batch import MarkerKind
from ottla.protocol.producer_epoch import ProducerIdAndEpoch
from ottla.protocol.topic_partition import TopicPartition

T0, T1, T2 = (TopicPartition("t", index) for index in range(3))
COMMIT, ABORT = MarkerKind.COMMIT, MarkerKind.ABORT
RULES = TransactionRules(
    timeout_ms_max=900_000,
    timeout_check_interval_ms=10,
    id_expiration_ms=1_000_000,
    expiry_check_interval_ms=100_000,
    ids_max=100,
    partitions_max=1_000,
)


class Stage:
    """One machine with a clock. Its records are also encoded, as they would be in the log."""

    def __init__(self, rules: TransactionRules = RULES, transaction_version: int = 2) -> None:
        self.rules = rules
        self.transaction_version = transaction_version
        self.now_ms = 1_000_000
        self.log: list[tuple[bytes, bytes | None]] = []
        self.effects: list[WriteMarkers] = []
        self.timers: dict[str, int] = {}
        self._ids = itertools.count(1000)
        # Whether there are producer ids left.
        self.has_producer_ids = True
        self.meter = TransactionMeter()
        self._tickets = itertools.count()
        self.machine = self.new_machine()

    def new_machine(self) -> TransactionMachine:
        return TransactionMachine(
            lambda: self.rules,
            self._new_producer_id,
            lambda: self.transaction_version,
            self.meter,
        )

    def _new_producer_id(self) -> int:
        if not self.has_producer_ids:
            raise PeerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer ids")
        return next(self._ids)

    def carry_out(self, decision: Decision) -> list[Answered]:
        for record in decision.records:
            self.log.append(encode(record))
            self.machine.replay(record)
        for key, due_ms in decision.timers:
            if due_ms is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = due_ms
        self.effects += decision.effects
        return list(decision.answers)

    def ask(self, decide: Callable[[int, int], Decision]) -> Any:
        """The answer to a request; the PeerError if the answer is one."""
        ticket = next(self._tickets)
        for answered_ticket, response in self.carry_out(decide(ticket, self.now_ms)):
            if answered_ticket == ticket:
                if isinstance(response, PeerError):
                    raise response
                return response
        raise AssertionError("no answer")

    # Requests

    def init(
        self, name: str = "id", expected: ProducerIdAndEpoch | None = None, timeout_ms: int = 60_000
    ) -> ProducerIdAndEpoch:
        asked = InitRequest(name, timeout_ms, expected)
        return self.ask(lambda ticket, now_ms: self.machine.init(asked, ticket, now_ms))

    def add(
        self,
        producer: ProducerIdAndEpoch,
        *partitions: TopicPartition,
        name: str = "id",
        client_version: int = 0,
    ) -> None:
        asked = AddRequest(name, producer, frozenset(partitions), client_version)
        self.ask(lambda ticket, now_ms: self.machine.add_partitions(asked, ticket, now_ms))

    def end(
        self,
        producer: ProducerIdAndEpoch,
        kind: MarkerKind = COMMIT,
        name: str = "id",
        client_version: int = 0,
    ) -> ProducerIdAndEpoch:
        asked = EndRequest(name, producer, kind, client_version)
        return self.ask(lambda ticket, now_ms: self.machine.end(asked, ticket, now_ms))

    def write_markers(self) -> list[WriteMarkers]:
        """All markers that were asked for are written."""
        effects, self.effects = self.effects, []
        for effect in effects:
            self.carry_out(self.machine.markers_written(effect, self.now_ms))
        return effects

    def of(self, name: str = "id") -> Transaction:
        return self.machine.transactions[name]

    # Time and restarts

    def wait(self, ms: int) -> None:
        """Time passes, and due timers expire, also those that are set meanwhile."""
        until_ms = self.now_ms + ms
        while due := [(due_ms, key) for key, due_ms in self.timers.items() if due_ms <= until_ms]:
            due_ms, key = min(due)
            self.now_ms = max(self.now_ms, due_ms)
            del self.timers[key]
            self.carry_out(self.machine.timer_expired(key, self.now_ms))
        self.now_ms = until_ms

    def restart(self) -> None:
        """A new machine is loaded from the log; what was not durable is gone."""
        self.machine, self.effects, self.timers = self.new_machine(), [], {}
        self.replay_into(self.machine, self.log)
        for decision in self.machine.loaded(self.now_ms):
            self.carry_out(decision)

    @staticmethod
    def replay_into(machine: TransactionMachine, log: Iterable[tuple[bytes, bytes | None]]) -> None:
        for key, value in log:
            record: Record | None = decode(key, value)
            assert record is not None
            machine.replay(record)


def refusal(ask: Callable[[], object]) -> ErrorCode:
    """The error code with which this is refused."""
    try:
        ask()
    except PeerError as error:
        return error.code
    raise AssertionError("not refused")
