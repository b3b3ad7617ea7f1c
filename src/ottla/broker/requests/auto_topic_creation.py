"""Topics that are made because a client asked for them by name, in the background.

The client is told that the topic is missing, and asks again. So are those that ask for more than is
made at once: what was not begun is begun then.
"""

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from ottla.broker.requests import metadata_changes
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.topic_changes import NewTopic
from ottla.settings.table.replicas import AUTO_CREATE_REQUEST_TOPICS_MAX

if TYPE_CHECKING:
    from ottla.broker.requests.services import Services

# How many topics may wait to be made, whoever asked for them.
PENDING_TOPICS_MAX = 1_000


class AutoCreation:
    """One task makes them, all that wait with one commit where they fit one entry."""

    def __init__(self) -> None:
        # A dict for its order.
        self._pending: dict[str, None] = {}
        self._is_running = False

    @property
    def pending(self) -> list[str]:
        """The topics that wait to be made, or are being made."""
        return list(self._pending)

    def begin(self, names: Iterable[str], services: "Services") -> None:
        """Begins to make the topics, as many as one request may ask for."""
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
    outcomes = await metadata_changes.create_topics(
        services, [NewTopic(name=name) for name in names]
    )
    for name, outcome in zip(names, outcomes, strict=True):
        # Others may have asked for it at the same time.
        if isinstance(outcome, PeerError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            services.logger.warning(
                "topic not created", repeats_of=outcome.code.name, topic=name, error=str(outcome)
            )
