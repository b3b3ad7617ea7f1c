"""Produce requests that wait for other replicas only: their batches are appended or refused."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.broker.requests.produce_outcomes import ProduceOutcome, TopicOutcomes, every, refused
from ottla.native.produce import Outcome
from ottla.protocol.primitives import NO_TIMESTAMP
from ottla.replication.append.acknowledgement import CommitWait

if TYPE_CHECKING:
    from ottla.broker.requests.services import Services

# The memory of a batch that waits: its outcome, its part of the request, its place in a queue.
WAITING_BATCH_BYTES = 2_000


class UncommittedProduce:
    """`wait.errors` has one item for each outcome of `waiting`, in their order."""

    __slots__ = ("_answers", "_waiting", "wait")

    def __init__(
        self, answers: TopicOutcomes, waiting: Sequence[ProduceOutcome], wait: CommitWait
    ) -> None:
        self._answers = answers
        self._waiting = waiting
        self.wait = wait

    @property
    def size_bytes(self) -> int:
        return WAITING_BATCH_BYTES * sum(len(partitions) for _, partitions in self._answers)

    def settled(self, services: "Services") -> TopicOutcomes:
        """The outcomes, once `wait.future` is done."""
        for produced, error in zip(self._waiting, self.wait.errors, strict=True):
            if error is not None:
                refused(produced, error, services)
        return self._answers


def begin_wait(answers: TopicOutcomes, timeout_ms: int) -> UncommittedProduce:
    """Waits up to `timeout_ms` until all appended batches are committed."""
    waiting, appends = [], []
    for produced in every(answers):
        append = produced.unacknowledged
        if append is not None:
            waiting.append(produced)
            appends.append(append)
    return UncommittedProduce(answers, waiting, CommitWait(appends, timeout_ms))


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
