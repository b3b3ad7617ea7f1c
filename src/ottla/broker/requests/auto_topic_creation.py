"""Creates the missing topics that Metadata requests name, in the background.

The response says that the topic is missing, and the client asks again. Topics beyond the limits are
created when the client asks again.
"""

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from ottla.broker.inter_broker.controller_channel import ControllerIsHere
from ottla.broker.inter_broker.own_requests import TopicOutcome
from ottla.broker.requests import metadata_changes
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.topic_changes import NewTopic
from ottla.protocol.messages.create_topics import Topic
from ottla.settings.table.replicas import (
    AUTO_CREATE_REQUEST_TOPICS_MAX,
    DEFAULT_REPLICATION_FACTOR,
    NUM_PARTITIONS,
)

if TYPE_CHECKING:
    from ottla.broker.requests.services import Services

# The limit of all clients together.
PENDING_TOPICS_MAX = 1_000


class AutoTopicCreation:
    """One task creates all pending topics, in one commit if they fit one metadata entry."""

    def __init__(self) -> None:
        # A dict for its order.
        self._pending: dict[str, None] = {}
        self._is_running = False

    @property
    def pending(self) -> list[str]:
        """The topics that are being created or are queued for it."""
        return list(self._pending)

    def begin(self, names: Iterable[str], services: "Services") -> None:
        """Queues topics for creation, up to the limit per request."""
        room = min(
            services.settings[AUTO_CREATE_REQUEST_TOPICS_MAX],
            PENDING_TOPICS_MAX - len(self._pending),
        )
        new = (name for name in names if name not in self._pending)
        self._pending.update(dict.fromkeys(islice(new, max(0, room))))
        if self._pending and not self._is_running:
            self._is_running = True
            services.tasks.spawn(self._run(services), "create topics")

    async def _run(self, services: "Services") -> None:
        try:
            while self._pending:
                names = self.pending
                await _create(names, services)
                for name in names:
                    del self._pending[name]
        finally:
            self._is_running = False


async def _create(names: list[str], services: "Services") -> None:
    """Creates the topics, here or on the controller, and reports those that are refused."""
    try:
        refusals = await _create_remotely(names, services)
    except ControllerIsHere:
        refusals = await _create_locally(names, services)
    for name, code, message in refusals:
        # Another request may have created it at the same time.
        if code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            services.logger.warning(
                "topic not created", repeats_of=code.name, topic=name, error=message
            )


async def _create_locally(names: list[str], services: "Services") -> list[TopicOutcome]:
    outcomes = await metadata_changes.create_topics(
        services, [NewTopic(name=name) for name in names]
    )
    return [
        TopicOutcome(name, outcome.code, str(outcome))
        for name, outcome in zip(names, outcomes, strict=True)
        if isinstance(outcome, PeerError)
    ]


async def _create_remotely(names: list[str], services: "Services") -> list[TopicOutcome]:
    """One request for all topics. ControllerIsHere."""
    if services.inter_broker is None:
        raise ControllerIsHere
    topics = [
        Topic(
            name=name,
            num_partitions=services.settings[NUM_PARTITIONS],
            replication_factor=services.settings[DEFAULT_REPLICATION_FACTOR],
            assignments=(),
            configs=(),
        )
        for name in names
    ]
    try:
        outcomes = await services.inter_broker.own_requests.create_topics(topics)
    except PeerError as error:
        return [TopicOutcome(name, error.code, str(error)) for name in names]
    return [each for each in outcomes if each.code is not ErrorCode.NONE]
