"""Topics that are looked for by name, all in one request. Does no I/O."""

from collections.abc import Iterable

from ottla.client.errors import Refused
from ottla.client.options import ClientOptions
from ottla.client.routing.retries import is_passing, patience_ms
from ottla.client.routing.topology import Topic, Topology

# What became of each topic: found, or the last error after which it was given up.
FoundTopics = dict[str, Topic | Refused]


class TopicLookup:
    """Some topics, until each is there with all its partitions led, or is not worth waiting for."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(dict.fromkeys(names))
        self._outcomes: FoundTopics = {}

    @property
    def left(self) -> list[str]:
        """The names to ask about next."""
        return [name for name in self._names if not isinstance(self._outcomes.get(name), Topic)]

    @property
    def outcomes(self) -> FoundTopics:
        """In the order of the names."""
        return {name: self._outcomes[name] for name in self._names}

    def is_outcome(self, error: Refused) -> bool:
        """Whether an error is that of one of the topics, and not of the question as a whole."""
        return any(outcome is error for outcome in self._outcomes.values())

    def take(self, topology: Topology, options: ClientOptions) -> Refused | None:
        """Takes an answer; of the failures that may pass, the one that is waited for longest."""
        for name in self.left:
            try:
                self._outcomes[name] = topology.led_topic(name)
            except Refused as refused:
                self._outcomes[name] = refused
        failures = [each for each in self._outcomes.values() if isinstance(each, Refused)]
        passing = [each for each in failures if is_passing(each)]
        return max(passing, key=lambda each: patience_ms(each, options), default=None)
