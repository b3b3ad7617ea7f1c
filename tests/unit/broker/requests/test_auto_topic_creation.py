"""The pending topics of auto creation are bounded."""

from collections.abc import Coroutine
from typing import Any, cast

from ottla.broker.requests.auto_topic_creation import PENDING_TOPICS_MAX, AutoTopicCreation
from ottla.broker.requests.services import Services
from ottla.settings.broker import BrokerSettings


class Idle:
    """The services that `begin` needs, with a task that never runs."""

    def __init__(self) -> None:
        self.settings = BrokerSettings()
        self.tasks = self
        self.spawned: list[str] = []

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        self.spawned.append(name)
        work.close()


def test_pending_topics_are_bounded_for_all_clients_together() -> None:
    creation, services = AutoTopicCreation(), Idle()

    for number in range(100):
        names = [f"{number}-{index}" for index in range(10_000)]
        creation.begin(names, cast("Services", services))
        assert len(creation.pending) == min(100 * (number + 1), PENDING_TOPICS_MAX)

    assert services.spawned == ["create topics"]
    assert creation.pending[:101] == [*(f"0-{index}" for index in range(100)), "1-0"]
