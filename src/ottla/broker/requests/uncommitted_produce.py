"""Produce requests that wait for other replicas only: their batches are appended or refused."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.broker.requests.produce_outcomes import ProduceOutcome, TopicOutcomes, every, refused
from ottla.native.produce import Outcome
from ottla.protocol.primitives import NO_TIMESTAMP
from ottla.replication.append.acknowledgement import CommitWait, Unacknowledged
from ottla.replication.lookup import TopicKey

if TYPE_CHECKING:
    from ottla.broker.requests.services import Services

# The memory of a batch that waits: its outcome, its part of the request, its place in a queue.
WAITING_BATCH_BYTES = 2_000


class UncommittedProduce(ABC):
    """Waits for `wait.future`, with `size_bytes` of memory."""

    __slots__ = ("size_bytes", "wait")

    wait: CommitWait
    size_bytes: int

    @property
    @abstractmethod
    def committed_outcomes(self) -> list[Outcome] | None:
        """The offsets of all batches once the wait is over, if the native encoder can answer."""

    @abstractmethod
    def settled(self, services: "Services") -> TopicOutcomes:
        """The outcomes, once the wait is over."""


class UncommittedBatches(UncommittedProduce):
    """A request with any batches. `wait.errors` has an item for each of `waiting`, in their order.

    The outcomes of the others are known already.
    """

    __slots__ = ("_answers", "_waiting")

    def __init__(
        self, answers: TopicOutcomes, waiting: Sequence[ProduceOutcome], wait: CommitWait
    ) -> None:
        self.wait = wait
        self.size_bytes = WAITING_BATCH_BYTES * sum(len(partitions) for _, partitions in answers)
        self._answers = answers
        self._waiting = waiting

    @property
    def committed_outcomes(self) -> list[Outcome] | None:
        return None if any(self.wait.errors) else native_outcomes(self._answers)

    def settled(self, services: "Services") -> TopicOutcomes:
        for produced, error in zip(self._waiting, self.wait.errors, strict=True):
            if error is not None:
                refused(produced, error, services)
        return self._answers


class UncommittedBatch(UncommittedProduce):
    """A request with one batch, which was appended together with others (`joint`).

    They share one wait, for the end of the joint append.
    """

    __slots__ = ("_first_offset", "_index", "_joint", "_key")

    def __init__(
        self, key: TopicKey, index: int, first_offset: int, joint: Unacknowledged, wait: CommitWait
    ) -> None:
        self.wait = wait
        self.size_bytes = WAITING_BATCH_BYTES
        self._key = key
        self._index = index
        self._first_offset = first_offset
        self._joint = joint

    @property
    def committed_outcomes(self) -> list[Outcome] | None:
        if self.wait.errors[0] is not None:
            return None
        return [(self._first_offset, self._joint.appended.start_offset)]

    def settled(self, services: "Services") -> TopicOutcomes:
        replica, joint = self._joint
        appended = joint._replace(first_offset=self._first_offset)
        produced = ProduceOutcome(self._index, replica, appended)
        error = self.wait.errors[0]
        if error is not None:
            refused(produced, error, services)
        return [(self._key, [produced])]


def begin_wait(answers: TopicOutcomes, timeout_ms: int) -> UncommittedBatches:
    """Waits up to `timeout_ms` until all appended batches are committed."""
    waiting, appends = [], []
    for produced in every(answers):
        append = produced.unacknowledged
        if append is not None:
            waiting.append(produced)
            appends.append(append)
    return UncommittedBatches(answers, waiting, CommitWait(appends, timeout_ms))


def native_outcomes(answers: TopicOutcomes) -> list[Outcome] | None:
    """The offsets of all batches, if the native encoder can answer with them."""
    outcomes = []
    for produced in every(answers):
        appended = produced.appended
        if (
            appended is None
            or produced.error is not None
            or appended.log_append_time_ms != NO_TIMESTAMP
        ):
            return None
        outcomes.append((appended.first_offset, appended.start_offset))
    return outcomes
