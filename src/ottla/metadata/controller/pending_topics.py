"""Changes of topics that are decided but not yet committed. No I/O."""

from ottla.metadata.image import Image
from ottla.metadata.records import DeletedName, EpochFloor, Record, Topic
from ottla.metadata.topic_names import metric_name

# Remembered names of deleted topics; topics of other names start at leader epoch 0.
DELETED_NAMES_MAX = 10_000


class PendingTopics:
    """An image with the topic changes of one entry that is not committed yet."""

    __slots__ = ("_deleted_names", "_metric_names", "_names", "epoch_floor", "image", "partitions")

    def __init__(self, image: Image) -> None:
        self.image = image
        # How many partitions there are, with the new ones.
        self.partitions = image.partition_count
        self.epoch_floor = image.epoch_floor
        self._names: set[str] = set()
        self._metric_names: dict[str, str] = {}
        # Copied from the image at the first deletion.
        self._deleted_names: dict[str, int] | None = None

    def has_topic(self, name: str) -> bool:
        return name in self._names or self.image.topic(name) is not None

    def colliding_topic(self, name: str) -> str | None:
        """A topic of another name that has the same name in metrics."""
        other = self._metric_names.get(metric_name(name))
        return self.image.colliding_topic(name) if other is None else other

    def add_topic(self, name: str, partitions: int) -> None:
        self._names.add(name)
        self._metric_names[metric_name(name)] = name
        self.partitions += partitions

    def raise_first_epoch(self, topic: Topic) -> list[Record]:
        """Raises the first epoch of a topic's name above every leader epoch of its partitions.

        If too many names would be remembered, the floor rises to the lowest remembered epoch, and
        names at or below it are forgotten: every new topic then starts at or above the floor.
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
