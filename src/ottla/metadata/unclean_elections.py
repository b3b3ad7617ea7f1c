"""Elections among replicas that may have lost records, while this broker is the controller.

`metadata.controller.unclean_election` decides. The partitions without a leader are known from the
metadata log. Their candidates are asked whenever something changes that may add one: a broker, a
setting, the partition itself. They are asked again, with a growing backoff, while an answer is
missing.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.configs import topic_configs
from ottla.metadata.controller.entry_packing import in_entries
from ottla.metadata.controller.unclean_election import (
    LogEnd,
    NoEligibleReplica,
    Question,
    elected_by_answers,
    has_live_replica,
    questions,
)
from ottla.metadata.image import Image
from ottla.metadata.publisher import Publisher
from ottla.metadata.records import Broker, Config, Partition, Record, Topic, TopicDeleted
from ottla.metadata.store import Entry
from ottla.metadata.values import Incarnation, PartitionId
from ottla.settings.broker import BrokerSettings
from ottla.settings.table.replicas import UNCLEAN_LEADER_ELECTION_ENABLE

# Also the most partitions of one request to a broker.
PARTITIONS_PER_ROUND = 250
ASK_TIMEOUT_S = 5.0
BACKOFF_S = 0.1
BACKOFF_S_MAX = 5.0

Outcome = PeerError | None
_OPEN = PeerError(ErrorCode.REQUEST_TIMED_OUT, "A replica does not tell the end of its log.")


class ToldLogEnds(NamedTuple):
    """The answer of a broker: its incarnation, and the ends of the logs that it can read."""

    incarnation: Incarnation
    ends: Mapping[PartitionId, LogEnd]


class AskLogEnds(Protocol):
    """Asks a broker, which may be this one, for the ends of its logs."""

    async def __call__(self, broker_id: int, partitions: Sequence[PartitionId]) -> ToldLogEnds:
        """PeerError if there is no answer."""
        ...


async def no_answer(broker_id: int, partitions: Sequence[PartitionId]) -> ToldLogEnds:  # noqa: ARG001
    """For a controller that knows no way to other brokers."""
    raise PeerError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker {broker_id} cannot be asked.")


class UncleanElections:
    """`run` elects by itself what the rules allow, `elect` what an operator asks for."""

    def __init__(
        self,
        publisher: Publisher,
        current_settings: Callable[[], BrokerSettings],
        ask: AskLogEnds = no_answer,
    ) -> None:
        self._publisher = publisher
        self._current_settings = current_settings
        self._ask = ask
        # Partitions without a leader, while `run` runs.
        self._leaderless: dict[PartitionId, None] = {}
        self._changed = asyncio.Event()

    def follow(self, image: Image, entry: Entry) -> None:  # noqa: ARG002 - a subscriber's signature
        """Follows the metadata log."""
        for record in entry.records:
            if isinstance(record, Partition):
                self._note(record)
            elif isinstance(record, TopicDeleted):
                self._forget(record)
            elif isinstance(record, Broker) or _allows_unclean(record):
                self._changed.set()

    async def run(self) -> None:
        """Elects leaders for partitions without one; does not end. NotController."""
        self._leaderless = dict.fromkeys(_leaderless(self._publisher.image))
        backoff_s = BACKOFF_S
        while True:
            self._changed.clear()
            try:
                is_open = await self._elect_all()
            except OSError:
                # Nothing was written: the disk of the metadata may be full.
                is_open = True
            try:
                async with asyncio.timeout(backoff_s if is_open else None):
                    await self._changed.wait()
                backoff_s = BACKOFF_S
            except TimeoutError:
                backoff_s = min(2 * backoff_s, BACKOFF_S_MAX)

    async def elect(
        self, partitions: Sequence[PartitionId], timeout_ms: int
    ) -> dict[PartitionId, Outcome]:
        """Elects the live replica that has lost the least, of each partition without a leader.

        None where somebody leads in the end. Else PeerError: REQUEST_TIMED_OUT if a candidate has
        not answered in time, ELIGIBLE_LEADERS_NOT_AVAILABLE if no replica is live. Raises PeerError
        if the metadata cannot be changed here or now.
        """
        left = dict.fromkeys(partitions)
        outcomes: dict[PartitionId, Outcome] = {}
        backoff_s = BACKOFF_S
        try:
            async with asyncio.timeout(timeout_ms / 1e3):
                while True:
                    for portion in in_entries(tuple(left), PARTITIONS_PER_ROUND):
                        asked = questions(self._publisher.image, portion, _always)
                        await self._elect(asked, _always, set())
                        for where in portion:
                            outcome = _forced_outcome(self._publisher.image, where)
                            if outcome is not _OPEN:
                                outcomes[where] = outcome
                                del left[where]
                    if not left:
                        return outcomes
                    await asyncio.sleep(backoff_s)
                    backoff_s = min(2 * backoff_s, BACKOFF_S_MAX)
        except OSError as error:
            if not isinstance(error, TimeoutError):
                raise PeerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
            return {**outcomes, **dict.fromkeys(left, _OPEN)}

    async def _elect_all(self) -> bool:
        """Whether a candidate has not answered."""
        is_open = False
        silent: set[Incarnation] = set()
        for portion in in_entries(tuple(self._leaderless), PARTITIONS_PER_ROUND):
            asked = questions(self._publisher.image, portion, self._is_allowed)
            elected = await self._elect(asked, self._is_allowed, silent)
            is_open = is_open or len(elected) < len(asked)
        return is_open

    async def _elect(
        self,
        asked: Sequence[Question],
        is_allowed: Callable[[Image, Topic], bool],
        silent: set[Incarnation],
    ) -> set[PartitionId]:
        """The partitions that have a new leader. Adds to `silent` who does not answer."""
        if not asked:
            return set()
        ends = await self._ask_all(asked, silent)

        def decide(image: Image) -> tuple[Sequence[Record], set[PartitionId]]:
            records = elected_by_answers(image, asked, ends, is_allowed)
            return records, {PartitionId(each.topic_id, each.index) for each in records}

        return await self._publisher.commit(decide)

    async def _ask_all(
        self, asked: Iterable[Question], silent: set[Incarnation]
    ) -> dict[Incarnation, Mapping[PartitionId, LogEnd]]:
        """The answers of all candidates that give one; those of one round are asked at once."""
        by_candidate: dict[Incarnation, list[PartitionId]] = {}
        for question in asked:
            for candidate in question.candidates:
                by_candidate.setdefault(candidate, []).append(question.where)
        told: dict[Incarnation, Mapping[PartitionId, LogEnd]] = {}

        async def ask(candidate: Incarnation, partitions: list[PartitionId]) -> None:
            try:
                async with asyncio.timeout(ASK_TIMEOUT_S):
                    answer = await self._ask(candidate.broker_id, partitions)
            except (PeerError, TimeoutError):
                silent.add(candidate)
                return
            # The incarnation that answers: the one that was meant may have restarted.
            told[answer.incarnation] = answer.ends

        async with asyncio.TaskGroup() as group:
            for candidate, partitions in by_candidate.items():
                if candidate not in silent:
                    name = f"ask broker {candidate.broker_id} for log ends"
                    group.create_task(ask(candidate, partitions), name=name)
        return told

    def _is_allowed(self, image: Image, topic: Topic) -> bool:
        configs = topic_configs(image, topic.name, self._current_settings())
        return configs[UNCLEAN_LEADER_ELECTION_ENABLE]

    def _note(self, partition: Partition) -> None:
        where = PartitionId(partition.topic_id, partition.index)
        if partition.leader is None:
            self._leaderless[where] = None
            self._changed.set()
        else:
            self._leaderless.pop(where, None)

    def _forget(self, deleted: TopicDeleted) -> None:
        self._leaderless = {
            where: None for where in self._leaderless if where.topic_id != deleted.topic_id
        }


def _leaderless(image: Image) -> Iterator[PartitionId]:
    for name in sorted(image.topic_names):
        topic = image.topic(name)
        for partition in () if topic is None else image.partitions(topic.topic_id):
            if partition.leader is None:
                yield PartitionId(partition.topic_id, partition.index)


def _allows_unclean(record: Record) -> bool:
    return isinstance(record, Config) and record.key == UNCLEAN_LEADER_ELECTION_ENABLE.name


def _always(_image: Image, _topic: Topic) -> bool:
    return True


def _forced_outcome(image: Image, where: PartitionId) -> Outcome:
    """The outcome so far; `_OPEN` while a replica is live and nobody leads."""
    partition = image.partition(*where)
    if partition is None:
        return PeerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition was deleted.")
    if partition.leader is not None:
        return None
    return _OPEN if has_live_replica(partition, image.brokers) else NoEligibleReplica()
