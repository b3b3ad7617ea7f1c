"""Throttled replication (KIP-73): which replicas are throttled, and how many bytes they may use.

An operator throttles the replicas that a reassignment moves, so that clients keep their share of
the network. A leader and a follower have a rate each. A replica that is in sync is never throttled:
it would fall behind.
"""

from collections.abc import Callable, Iterable

from ottla.metadata.configs import topic_configs
from ottla.metadata.image import Image
from ottla.metadata.records import Config, TopicDeleted
from ottla.metadata.store import Entry
from ottla.metadata.values import ResourceKind
from ottla.protocol.topic_partition import TopicPartition
from ottla.settings.broker import BrokerSettings
from ottla.settings.kinds import ALL_REPLICAS
from ottla.settings.table.replicas import (
    FOLLOWER_REPLICATION_THROTTLED_RATE,
    FOLLOWER_REPLICATION_THROTTLED_REPLICAS,
    LEADER_REPLICATION_THROTTLED_RATE,
    LEADER_REPLICATION_THROTTLED_REPLICAS,
    UNTHROTTLED,
)

# An idle replication may save up this much of its rate.
BURST_S = 1.0


def throttled_partitions(replicas: Iterable[str], broker_id: int) -> frozenset[int] | None:
    """The partitions of a topic that are throttled on a broker; None for all.

    `replicas` are `partition:broker`, or `*`.
    """
    listed = tuple(replicas)
    if listed == (ALL_REPLICAS,):
        return None
    pairs = (each.split(":") for each in listed)
    return frozenset(int(partition) for partition, broker in pairs if int(broker) == broker_id)


class ReplicationThrottle:
    """The throttle of one direction. Its rate may be overdrawn: a fetch is charged when it is read.

    Without throttled replicas, or without a rate, it is idle and allows everything.
    """

    __slots__ = ("_level", "_rate", "_since_ns", "_steady_ns", "_throttled", "is_idle")

    def __init__(self, steady_ns: Callable[[], int]) -> None:
        self._steady_ns = steady_ns
        self._rate = UNTHROTTLED
        self._level = 0.0
        self._since_ns = steady_ns()
        # By topic: the throttled partitions, None for all. Topics without any are left out.
        self._throttled: dict[str, frozenset[int] | None] = {}
        # Nothing is throttled: nearly always, which callers check first.
        self.is_idle = True

    @property
    def bytes_per_second(self) -> int:
        return self._rate

    def set_rate(self, bytes_per_second: int) -> None:
        """Takes effect at once: what was overdrawn or saved up under the old rate is forgotten."""
        if bytes_per_second != self._rate:
            self._rate = bytes_per_second
            self._level = bytes_per_second * BURST_S
            self._since_ns = self._steady_ns()
            self._update_is_idle()

    def set_topic(self, topic: str, partitions: frozenset[int] | None) -> None:
        """The throttled partitions of a topic; None for all."""
        if partitions is None or partitions:
            self._throttled[topic] = partitions
        else:
            self._throttled.pop(topic, None)
        self._update_is_idle()

    def _update_is_idle(self) -> None:
        self.is_idle = self._rate == UNTHROTTLED or not self._throttled

    def is_throttled(self, name: TopicPartition) -> bool:
        """Whether the bytes of this partition count, if the replica is not in sync."""
        if self._rate == UNTHROTTLED or name.topic not in self._throttled:
            return False
        partitions = self._throttled[name.topic]
        return partitions is None or name.partition in partitions

    def allows(self, name: TopicPartition, *, is_in_sync: bool) -> bool:
        """Whether records of this partition may be sent, or fetched, now."""
        if is_in_sync or not self.is_throttled(name):
            return True
        self._refill()
        return self._level > 0

    def charge(self, name: TopicPartition, size_bytes: int, *, is_in_sync: bool) -> None:
        """Counts the bytes of a fetch of this partition."""
        if not is_in_sync and self.is_throttled(name):
            self._refill()
            self._level -= size_bytes

    @property
    def wait_s(self) -> float:
        """The time until throttled replicas may go on; infinite with a rate of 0."""
        self._refill()
        if self._level > 0:
            return 0.0
        return -self._level / self._rate if self._rate else float("inf")

    def _refill(self) -> None:
        now_ns = self._steady_ns()
        gained = (now_ns - self._since_ns) / 1e9 * self._rate
        self._since_ns = now_ns
        self._level = min(self._level + gained, self._rate * BURST_S)


class ReplicationThrottles:
    """The throttles of both directions. They follow the settings and the metadata log."""

    def __init__(
        self, broker_id: int, steady_ns: Callable[[], int], settings: BrokerSettings
    ) -> None:
        self.leader = ReplicationThrottle(steady_ns)
        self.follower = ReplicationThrottle(steady_ns)
        self._broker_id = broker_id
        self.apply_settings(settings)

    def apply_settings(self, settings: BrokerSettings) -> None:
        self.leader.set_rate(settings[LEADER_REPLICATION_THROTTLED_RATE])
        self.follower.set_rate(settings[FOLLOWER_REPLICATION_THROTTLED_RATE])
        self._settings = settings

    def load(self, image: Image) -> None:
        """Takes the throttled replicas of all topics."""
        for kind, name in image.configured:
            if kind is ResourceKind.TOPIC:
                self._load_topic(image, name)

    def follow(self, image: Image, entry: Entry) -> None:
        """Follows the metadata log."""
        for record in entry.records:
            if isinstance(record, Config) and record.kind is ResourceKind.TOPIC:
                if record.key in _KEYS:
                    self._load_topic(image, record.name)
            elif isinstance(record, TopicDeleted):
                self._load_topic(image, record.name)

    def _load_topic(self, image: Image, topic: str) -> None:
        configs = topic_configs(image, topic, self._settings)
        leading = configs[LEADER_REPLICATION_THROTTLED_REPLICAS]
        following = configs[FOLLOWER_REPLICATION_THROTTLED_REPLICAS]
        self.leader.set_topic(topic, throttled_partitions(leading, self._broker_id))
        self.follower.set_topic(topic, throttled_partitions(following, self._broker_id))


_KEYS = (
    LEADER_REPLICATION_THROTTLED_REPLICAS.name,
    FOLLOWER_REPLICATION_THROTTLED_REPLICAS.name,
)
