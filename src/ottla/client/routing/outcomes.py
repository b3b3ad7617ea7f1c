"""Outcomes of requests per partition, and the partitions to retry. Does no I/O."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from ottla.client.errors import ClientError, Refused
from ottla.client.routing.retries import is_retriable
from ottla.client.routing.topology import Broker, Topology
from ottla.errors import ErrorCode
from ottla.protocol.topic_partition import TopicPartition

T = TypeVar("T")

# The result of each partition, or its last error.
Outcomes = dict[TopicPartition, T | ClientError]


def unwrap(outcome: T | ClientError) -> T:
    """The result of an outcome. Raises its ClientError."""
    if isinstance(outcome, ClientError):
        raise outcome
    return outcome


def missing_in_response(partition: TopicPartition) -> Refused:
    """The error for a partition that is missing in the response."""
    return Refused(ErrorCode.UNKNOWN_SERVER_ERROR, f"{partition}", "the answer lacks it")


class PendingPartitions(Generic[T]):
    """The partitions of a request that goes to their leaders, in rounds.

    Each round: group the partitions `by_leader`, report each leader's response (`answer`) or error
    (`fail`), and keep the partitions to retry (`end_round`).
    """

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        self.outcomes: Outcomes[T] = {}
        self._left = list(dict.fromkeys(partitions))
        self._asked_in_all = len(self._left)

    @property
    def topics(self) -> set[str]:
        """The topics of the remaining partitions."""
        return {partition.topic for partition in self._left}

    @property
    def has_every_outcome(self) -> bool:
        """Whether each partition has a result or an error."""
        return len(self.outcomes) == self._asked_in_all

    def by_leader(self, topology: Topology) -> dict[Broker, list[TopicPartition]]:
        """The remaining partitions by leader. A partition without a leader gets an error."""
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
        """Takes a leader's response. Partitions that are missing in it get an error."""
        for partition in asked:
            self.outcomes[partition] = answers.get(partition, missing_in_response(partition))

    def fail(self, asked: Sequence[TopicPartition], error: ClientError) -> None:
        """Takes the error of a request to a leader."""
        self.outcomes.update(dict.fromkeys(asked, error))

    def end_round(self) -> ClientError | None:
        """The first retriable error; None if no partition is left to retry."""
        retriable = {
            partition: outcome
            for partition in self._left
            if isinstance(outcome := self.outcomes[partition], ClientError)
            and is_retriable(outcome)
        }
        self._left = list(retriable)
        return next(iter(retriable.values()), None)
