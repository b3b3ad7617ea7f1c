"""The lookup of topics by name, all in one request. Does no I/O."""

from collections.abc import Iterable

from ottla.client.errors import Refused
from ottla.client.options import ClientOptions
from ottla.client.routing.retries import is_retriable, retry_timeout_ms
from ottla.client.routing.topology import Topic, Topology

# Each topic, or its last error.
FoundTopics = dict[str, Topic | Refused]


class TopicLookup:
    """Looks up topics until each has leaders for all its partitions, or is given up."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(dict.fromkeys(names))
        self._outcomes: FoundTopics = {}

    @property
    def left(self) -> list[str]:
        """The names for the next request."""
        return [name for name in self._names if not isinstance(self._outcomes.get(name), Topic)]

    @property
    def outcomes(self) -> FoundTopics:
        """In the order of the names."""
        return {name: self._outcomes[name] for name in self._names}

    def is_outcome(self, error: Refused) -> bool:
        """Whether an error belongs to one of the topics, and not to the whole request."""
        return any(outcome is error for outcome in self._outcomes.values())

    def take(self, topology: Topology, options: ClientOptions) -> Refused | None:
        """Takes new metadata; returns the retriable error with the longest retry time, if any."""
        for name in self.left:
            try:
                self._outcomes[name] = topology.topic_with_leaders(name)
            except Refused as refused:
                self._outcomes[name] = refused
        failures = [each for each in self._outcomes.values() if isinstance(each, Refused)]
        retriable = [each for each in failures if is_retriable(each)]
        return max(retriable, key=lambda each: retry_timeout_ms(each, options), default=None)
