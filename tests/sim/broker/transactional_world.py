"""What the clients of the transactional simulation share besides the `World` of all simulations."""

from dataclasses import dataclass, field

from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.broker.history import PartitionHistory
from tests.sim.broker.transactional_history import CommittedView, TransactionalHistory
from tests.sim.broker.world import MAIN_PARTITIONS, MAIN_TOPIC, World

SIDE_TOPIC = "side"
# Is deleted and made again and again.
FLEETING_TOPIC = "fleeting"
GROUP = "group"

LASTING_PLACES = (
    *(TopicPartition(MAIN_TOPIC, index) for index in range(MAIN_PARTITIONS)),
    TopicPartition(SIDE_TOPIC, 0),
)
FLEETING_PLACE = TopicPartition(FLEETING_TOPIC, 0)
# Of which the group commits offsets: of the first one often, of the second one seldom.
COMMITTED_PLACES = (LASTING_PLACES[0], LASTING_PLACES[-1])


@dataclass(slots=True)
class TransactionalWorld:
    """What all clients know, and what their operations are held against."""

    base: World
    history: TransactionalHistory
    # The ids of now, as far as anybody knows.
    topic_ids: dict[str, Uuid] = field(default_factory=dict)
    # The names of all ids that ever were.
    topic_names: dict[Uuid, str] = field(default_factory=dict)
    producers_left: int = 0
    # How often all producers have crashed that had a request under way.
    crashes: int = 0
    # Producers that are about to end a transaction: the moment to kill the broker.
    ending: int = 0

    def know(self, topic: str, topic_id: Uuid) -> None:
        self.topic_ids[topic] = topic_id
        self.topic_names[topic_id] = topic

    def topic_id(self, topic: str) -> Uuid:
        return self.topic_ids.get(topic, ZERO_UUID)

    def partition(self, place: TopicPartition) -> PartitionHistory | None:
        """None if its topic may be gone."""
        if place not in LASTING_PLACES:
            return None
        return self.base.history.partition(self.topic_id(place.topic), place.partition)

    def view(self, place: TopicPartition) -> CommittedView:
        """Of a partition that lasts."""
        partition = self.partition(place)
        assert partition is not None
        return self.history.views.setdefault(place, CommittedView(partition))
