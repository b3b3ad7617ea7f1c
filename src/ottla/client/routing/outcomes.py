"""What became of questions about partitions, and which are to be asked again. Does no I/O."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from ottla.client.errors import ClientError, Refused
from ottla.client.routing.retries import is_passing
from ottla.client.routing.topology import Broker, Topology
from ottla.errors import ErrorCode
from ottla.protocol.topic_partition import TopicPartition

T = TypeVar("T")

# What became of each partition: an answer, or the last error after which it was given up.
Outcomes = dict[TopicPartition, T | ClientError]


def answered(outcome: T | ClientError) -> T:
    """The answer, for those who cannot go on without it. ClientError."""
    if isinstance(outcome, ClientError):
        raise outcome
    return outcome


def lacking(partition: TopicPartition) -> Refused:
    """The error for a partition that was asked about and that the answer does not have."""
    return Refused(ErrorCode.UNKNOWN_SERVER_ERROR, f"{partition}", "the answer lacks it")


class Questions(Generic[T]):
    """One question about each of some partitions, for whoever leads it.

    They are asked in rounds: `by_leader` says whom to ask about what, `answer` and `fail` take what
    came of it, and `end_round` keeps what is worth another round.
    """

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        self.outcomes: Outcomes[T] = {}
        self._left = list(dict.fromkeys(partitions))
        self._asked_in_all = len(self._left)

    @property
    def topics(self) -> set[str]:
        """The topics of what is left to be asked."""
        return {partition.topic for partition in self._left}

    @property
    def has_every_outcome(self) -> bool:
        """Whether something is known of each partition, be it a failure."""
        return len(self.outcomes) == self._asked_in_all

    def by_leader(self, topology: Topology) -> dict[Broker, list[TopicPartition]]:
        """What is left, by its leaders; that nobody leads a partition is an outcome as well."""
        led: dict[Broker, list[TopicPartition]] = {}
        for partition in self._left:
            leader = topology.leader_of(partition)
            if leader is None:
                self.outcomes[partition] = topology.why_not_led(partition)
            else:
                led.setdefault(leader, []).append(partition)
        return led

    def answer(
        self,
        asked: Sequence[TopicPartition],
        answers: Mapping[TopicPartition, T | ClientError],
    ) -> None:
        """A leader has answered: what it leaves out is an error."""
        for partition in asked:
            self.outcomes[partition] = answers.get(partition, lacking(partition))

    def fail(self, asked: Sequence[TopicPartition], error: ClientError) -> None:
        """A leader has not answered."""
        self.outcomes.update(dict.fromkeys(asked, error))

    def end_round(self) -> ClientError | None:
        """The first failure that may pass; None if nothing is left to be asked again."""
        passing = {
            partition: outcome
            for partition in self._left
            if isinstance(outcome := self.outcomes[partition], ClientError) and is_passing(outcome)
        }
        self._left = list(passing)
        return next(iter(passing.values()), None)
