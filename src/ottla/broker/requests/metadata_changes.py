"""Changes of the metadata that requests ask for, as few commits as there are entries to fill."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller import topic_changes
from ottla.metadata.controller.entry_packing import decide_entry, in_entries
from ottla.metadata.controller.pending_topics import PendingTopics
from ottla.metadata.controller.topic_changes import CreatedTopic, NewTopic
from ottla.metadata.image import Image
from ottla.metadata.records import Partition, Record
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.seams.entropy import Entropy

if TYPE_CHECKING:
    from ottla.broker.requests.services import Services

Wish = TypeVar("Wish")
Reply = TypeVar("Reply")

# Placement goes round by it; that it is not the same for every topic is all that matters.
_STARTS = 1 << 16


async def commit_each(
    services: "Services",
    wishes: Sequence[Wish],
    decide: Callable[[PendingTopics, Wish], tuple[list[Record], Reply]],
    *,
    validate_only: bool = False,
) -> list[Reply | PeerError]:
    """What became of each wish, in their order. As few commits as there are entries to fill."""
    outcomes: list[Reply | PeerError] = []
    while len(outcomes) < len(wishes):
        left = wishes[len(outcomes) :]

        def decide_some(
            image: Image, left: Sequence[Wish] = left
        ) -> tuple[list[Record], list[Reply | PeerError]]:
            return decide_entry(left, partial(decide, PendingTopics(image)))

        if validate_only:
            outcomes += decide_some(services.image)[1]
        else:
            outcomes += await _commit_or_refuse(services, decide_some, len(left))
        # What is refused takes time as well.
        await asyncio.sleep(0)
    return outcomes


async def _commit_or_refuse(
    services: "Services",
    decide: Callable[[Image], tuple[list[Record], list[Reply | PeerError]]],
    wishes: int,
) -> list[Reply | PeerError]:
    """If the controller or its disk refuses the entry, all that is left is refused."""
    try:
        return await services.controller.commit(decide)
    except PeerError as error:
        return [error] * wishes


async def create_topics(
    services: "Services", wishes: Sequence[NewTopic], *, validate_only: bool = False
) -> list[CreatedTopic | PeerError]:
    """Topics, or what they would be; a PeerError for each that cannot be made."""

    def decide(pending: PendingTopics, wish: NewTopic) -> tuple[list[Record], CreatedTopic]:
        topic_id, start = new_topic_id(services.entropy), placement_start(services.entropy)
        return topic_changes.create_topic(pending, wish, services.settings, topic_id, start)

    return await commit_each(services, wishes, decide, validate_only=validate_only)


class Outcome(NamedTuple):
    """What became of one partition that was to be changed."""

    partition_index: int
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


async def change_partitions(
    services: "Services", indexes: Iterable[int], change: Callable[[Image, int], Partition | None]
) -> list[Outcome]:
    """Changes partitions of one topic, each by itself; no index may be given twice."""
    outcomes: list[Outcome] = []
    for portion in in_entries(indexes):
        outcomes += await services.controller.commit(partial(_changes, portion, change))
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
