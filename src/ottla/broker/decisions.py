"""Handlers' way to the controller: what is decided, committed, and applied on this broker."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeVar

from ottla.broker.services import Services
from ottla.errors import ErrorCode, PeerError
from ottla.metadata import controller
from ottla.metadata.controller import CreatedTopic, NewTopic
from ottla.metadata.image import Image
from ottla.metadata.records import Partition, Record
from ottla.metadata.restart import RECORDS_AN_ENTRY_MAX
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.seams.entropy import Entropy

Reply = TypeVar("Reply")

# Placement goes round by it; that it is not the same for every topic is all that matters.
_STARTS = 1 << 16


async def commit(
    services: Services, decide: Callable[[Image], tuple[Sequence[Record], Reply]]
) -> Reply:
    """The reply of a decision that is committed. PeerError if it was refused, by the disk too."""
    try:
        return await services.publisher.commit(decide)
    except OSError as error:
        # Nothing was written, and the next attempt may find room.
        raise PeerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error


async def create_topic(
    services: Services, wish: NewTopic, *, validate_only: bool = False
) -> CreatedTopic:
    """A topic, or what it would be. PeerError if it cannot be made."""
    topic_id, start = new_topic_id(services.entropy), placement_start(services.entropy)

    def decide(image: Image) -> tuple[Sequence[Record], CreatedTopic]:
        return controller.create_topic(image, wish, services.settings, topic_id, start)

    if validate_only:
        return decide(services.image)[1]
    return await commit(services, decide)


class Outcome(NamedTuple):
    """What became of one partition that was to be changed."""

    partition_index: int
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


async def change_partitions(
    services: Services, indexes: Iterable[int], change: Callable[[Image, int], Partition | None]
) -> list[Outcome]:
    """Changes partitions of one topic, each by itself; no index may be given twice."""
    outcomes: list[Outcome] = []
    left = iter(indexes)
    while portion := list(islice(left, RECORDS_AN_ENTRY_MAX)):
        outcomes += await commit(services, partial(_changes, portion, change))
    return outcomes


def _changes(
    indexes: Sequence[int], change: Callable[[Image, int], Partition | None], image: Image
) -> tuple[list[Record], list[Outcome]]:
    records: list[Record] = []
    outcomes: list[Outcome] = []
    for index in indexes:
        try:
            changed = change(image, index)
        except PeerError as error:
            outcomes.append(Outcome(index, error.code, str(error)))
            continue
        outcomes.append(Outcome(index))
        if changed is not None:
            records.append(changed)
    return records, outcomes


def placement_start(entropy: Entropy) -> int:
    """Where the placement of new partitions begins."""
    return entropy.below(_STARTS)


def new_topic_id(entropy: Entropy) -> Uuid:
    """An id that no topic has, and that no command line takes for an option."""
    while True:
        topic_id = Uuid(entropy.token(16))
        if topic_id != ZERO_UUID and not str(topic_id).startswith("-"):
            return topic_id
