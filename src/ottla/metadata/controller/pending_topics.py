"""Topics that are decided on, one after another, before any of them is committed. No I/O."""

from ottla.metadata.image import Image
from ottla.metadata.records import DeletedName, EpochFloor, Record, Topic
from ottla.metadata.topic_names import metric_name

# Of how many deleted topics the names are remembered, so that topics of other names begin at leader
# epoch 0.
DELETED_NAMES_MAX = 10_000


class Draft:
    """An image, and what was decided on it but is not committed yet: all of one entry."""

    __slots__ = ("_deleted_names", "_metric_names", "_names", "epoch_floor", "image", "partitions")

    def __init__(self, image: Image) -> None:
        self.image = image
        # How many there are, with those to come.
        self.partitions = image.partition_count
        self.epoch_floor = image.epoch_floor
        self._names: set[str] = set()
        self._metric_names: dict[str, str] = {}
        # Copied when something is deleted.
        self._deleted_names: dict[str, int] | None = None

    def has_topic(self, name: str) -> bool:
        return name in self._names or self.image.topic(name) is not None

    def colliding_topic(self, name: str) -> str | None:
        """A topic of another name whose metrics could not be told from this one's."""
        other = self._metric_names.get(metric_name(name))
        return self.image.colliding_topic(name) if other is None else other

    def add_topic(self, name: str, partitions: int) -> None:
        self._names.add(name)
        self._metric_names[metric_name(name)] = name
        self.partitions += partitions

    def retire(self, topic: Topic) -> list[Record]:
        """Raises the first epoch of a topic's name above every leader epoch of its partitions.

        If that is one name too many to remember, the floor rises to the lowest remembered epoch
        instead: every new topic then begins there, whether its name was forgotten or not.
        """
        if self._deleted_names is None:
            self._deleted_names = dict(self.image.deleted_names)
        names = self._deleted_names
        epochs = [partition.leader_epoch for partition in self.image.partitions(topic.topic_id)]
        first_epoch = 1 + max(epochs, default=-1)
        if first_epoch <= max(self.epoch_floor, names.get(topic.name, 0)):
            return []
        names[topic.name] = first_epoch
        if len(names) <= DELETED_NAMES_MAX:
            return [DeletedName(topic.name, first_epoch)]
        self.epoch_floor = floor = min(names.values())
        self._deleted_names = {name: epoch for name, epoch in names.items() if epoch > floor}
        if first_epoch == floor:
            return [EpochFloor(floor)]
        return [EpochFloor(floor), DeletedName(topic.name, first_epoch)]
