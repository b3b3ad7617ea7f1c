"""Commits the metadata changes of a request, with as few metadata entries as possible."""

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

Change = TypeVar("Change")
Result = TypeVar("Result")

# The range of random starts for the round-robin placement of replicas.
_PLACEMENT_STARTS = 1 << 16


async def commit_each(
    services: "Services",
    changes: Sequence[Change],
    decide: Callable[[PendingTopics, Change], tuple[list[Record], Result]],
    *,
    validate_only: bool = False,
) -> list[Result | PeerError]:
    """The outcome of each change, in their order. Each commit fills one metadata entry."""
    outcomes: list[Result | PeerError] = []
    while len(outcomes) < len(changes):
        left = changes[len(outcomes) :]

        def decide_some(
            image: Image, left: Sequence[Change] = left
        ) -> tuple[list[Record], list[Result | PeerError]]:
            return decide_entry(left, partial(decide, PendingTopics(image)))

        if validate_only:
            outcomes += decide_some(services.image)[1]
        else:
            outcomes += await _commit_or_refuse(services, decide_some, len(left))
        # Also without a commit: decisions that refuse take time as well.
        await asyncio.sleep(0)
    return outcomes


async def _commit_or_refuse(
    services: "Services",
    decide: Callable[[Image], tuple[list[Record], list[Result | PeerError]]],
    change_count: int,
) -> list[Result | PeerError]:
    """Commits one entry. If that fails, all remaining changes have its error."""
    try:
        return await services.controller.commit(decide)
    except PeerError as error:
        return [error] * change_count


async def create_topics(
    services: "Services", topics: Sequence[NewTopic], *, validate_only: bool = False
) -> list[CreatedTopic | PeerError]:
    """Creates topics, or only validates them; a PeerError for each that is refused."""

    def decide(pending: PendingTopics, topic: NewTopic) -> tuple[list[Record], CreatedTopic]:
        topic_id, start = new_topic_id(services.entropy), placement_start(services.entropy)
        return topic_changes.create_topic(pending, topic, services.settings, topic_id, start)

    return await commit_each(services, topics, decide, validate_only=validate_only)


class PartitionOutcome(NamedTuple):
    """The outcome of a change of one partition."""

    partition_index: int
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


async def change_partitions(
    services: "Services", indexes: Iterable[int], change: Callable[[Image, int], Partition | None]
) -> list[PartitionOutcome]:
    """Changes or refuses each partition of a topic by itself. The indexes must be distinct."""
    outcomes: list[PartitionOutcome] = []
    for portion in in_entries(indexes):
        outcomes += await services.controller.commit(partial(_changes, portion, change))
    return outcomes


def _changes(
    indexes: Sequence[int], change: Callable[[Image, int], Partition | None], image: Image
) -> tuple[list[Record], list[PartitionOutcome]]:
    records: list[Record] = []
    outcomes: list[PartitionOutcome] = []
    for index in indexes:
        try:
            changed = change(image, index)
        except PeerError as error:
            outcomes.append(PartitionOutcome(index, error.code, str(error)))
            continue
        outcomes.append(PartitionOutcome(index))
        if changed is not None:
            records.append(changed)
    return records, outcomes


def placement_start(entropy: Entropy) -> int:
    """A random start for the placement of new partitions."""
    return entropy.below(_PLACEMENT_STARTS)


def new_topic_id(entropy: Entropy) -> Uuid:
    """A random topic id. Does not begin with `-`, which command lines take for an option."""
    while True:
        topic_id = Uuid(entropy.token(16))
        if topic_id != ZERO_UUID and not str(topic_id).startswith("-"):
            return topic_id
