"""What the clients of a transactional simulation share, on one broker or on a cluster."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.errors import ErrorCode
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.broker.history import PartitionHistory
from tests.sim.broker.transactional_history import CommittedView, TransactionalHistory
from tests.sim.broker.transactional_route import BrokerRoute, Route
from tests.sim.broker.world import MAIN_PARTITIONS, MAIN_TOPIC, World
from tests.sim.seams.entropy import SimEntropy

SIDE_TOPIC = "side"
# Is deleted and made again and again.
FLEETING_TOPIC = "fleeting"
GROUP = "group"

LASTING_PLACES = (
    *(TopicPartition(MAIN_TOPIC, index) for index in range(MAIN_PARTITIONS)),
    TopicPartition(SIDE_TOPIC, 0),
)
FLEETING_PLACE = TopicPartition(FLEETING_TOPIC, 0)

# Nothing has happened; the same request may succeed later.
REFUSED_FOR_NOW = frozenset(
    {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
RETRIED = REFUSED_FOR_NOW | {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.KAFKA_STORAGE_ERROR,
}


@dataclass(slots=True, kw_only=True)
class TransactionalWorld(ABC):
    """What all clients know, and what their operations are held against."""

    history: TransactionalHistory
    # The partitions that clients write to and read.
    places: tuple[TopicPartition, ...]
    # A producer writes there now and then, and it may be gone.
    fleeting_place: TopicPartition | None = None
    # The ids of now, as far as anybody knows.
    topic_ids: dict[str, Uuid] = field(default_factory=dict)
    # The names of all ids that ever were.
    topic_names: dict[Uuid, str] = field(default_factory=dict)
    producers_left: int = 0
    # How often all producers have crashed that had a request under way.
    crashes: int = 0
    # Producers that are about to end a transaction: the moment to kill the broker.
    ending: int = 0
    # After these codes a request is repeated.
    retried: frozenset[ErrorCode] = RETRIED

    @property
    @abstractmethod
    def is_calm(self) -> bool: ...

    @property
    @abstractmethod
    def lives(self) -> int:
        """The number of the broker's present life: requests of earlier ones are over."""

    @property
    @abstractmethod
    def losses(self) -> int:
        """How often promised things may have been lost."""

    @property
    @abstractmethod
    def may_read_stale(self) -> bool:
        """Whether a read of a coordinator may show an earlier state: it may have been deposed."""

    @abstractmethod
    def fork(self, name: str) -> SimEntropy: ...

    @abstractmethod
    def wall_ms(self) -> int: ...

    @abstractmethod
    def route(self, host: str, transactional_id: str = "") -> Route:
        """The route of a client's requests."""

    @abstractmethod
    def partition_history(self, place: TopicPartition) -> PartitionHistory: ...

    @property
    def committed_places(self) -> tuple[TopicPartition, TopicPartition]:
        """Of which the group commits offsets: of the first one often, of the second one seldom."""
        return self.places[0], self.places[-1]

    def know(self, topic: str, topic_id: Uuid) -> None:
        self.topic_ids[topic] = topic_id
        self.topic_names[topic_id] = topic

    def topic_id(self, topic: str) -> Uuid:
        return self.topic_ids.get(topic, ZERO_UUID)

    def partition(self, place: TopicPartition) -> PartitionHistory | None:
        """None if its topic may be gone."""
        return self.partition_history(place) if place in self.places else None

    def acknowledge(self, place: TopicPartition, base_offset: int, values: list[bytes]) -> None:
        """A producer heard that its batch is there."""
        self.partition_history(place).acknowledge(base_offset, values)

    def view(self, place: TopicPartition) -> CommittedView:
        """Of a partition that lasts."""
        return self.history.views.setdefault(place, CommittedView(self.partition_history(place)))

    def show(
        self,
        place: TopicPartition,
        offsets: range,
        shown: Mapping[int, bytes],
        *,
        is_committed: bool,
        is_current: bool = True,
    ) -> None:
        """Holds what a consumer was shown against what was shown before, and to others.

        `is_committed`: it reads with read_committed. Not `is_current`: before a loss of power.
        """
        view = self.view(place)
        for offset, value in shown.items():
            view.partition.see(offset, value, is_current=is_current)
        if not is_committed:
            return
        for offset, value in shown.items():
            self.history.see(place, offset, value)
        for offset in offsets:
            if is_current or offset < view.partition.acknowledged_end:
                view.see(offset, shown.get(offset))


@dataclass(slots=True, kw_only=True)
class OneBrokerWorld(TransactionalWorld):
    """The world of a single broker."""

    base: World
    places: tuple[TopicPartition, ...] = LASTING_PLACES
    fleeting_place: TopicPartition | None = FLEETING_PLACE

    @property
    def is_calm(self) -> bool:
        return self.base.is_calm

    @property
    def lives(self) -> int:
        return self.base.machine.lives

    @property
    def losses(self) -> int:
        return self.base.machine.power_losses

    @property
    def may_read_stale(self) -> bool:
        return False

    def fork(self, name: str) -> SimEntropy:
        return self.base.entropy.fork(name)

    def wall_ms(self) -> int:
        return self.base.machine.clock.wall_ms()

    def route(self, host: str, transactional_id: str = "") -> Route:
        return BrokerRoute(self.base.machine, host)

    def partition_history(self, place: TopicPartition) -> PartitionHistory:
        return self.base.history.partition(self.topic_id(place.topic), place.partition)
