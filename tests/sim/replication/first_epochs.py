"""The leader epochs at which topics begin whose names were used before (invariant 13)."""

from dataclasses import dataclass, field

from ottla.metadata.records import Partition, Record, Topic, TopicDeleted
from ottla.protocol.primitives import Uuid


@dataclass(slots=True)
class FirstEpochs:
    """Follows the metadata log. A record that nobody has seen is no reason to complain."""

    _names: dict[Uuid, str] = field(default_factory=dict)
    # By topic: the highest leader epoch of its partitions.
    _highest: dict[Uuid, int] = field(default_factory=dict)
    # By name: the highest leader epoch of its deleted topics.
    _deleted: dict[str, int] = field(default_factory=dict)

    def why_wrong(self, record: Record) -> str | None:
        match record:
            case Topic():
                self._names[record.topic_id] = record.name
            case Partition():
                return self._take(record)
            case TopicDeleted():
                highest = self._highest.pop(record.topic_id, -1)
                self._deleted[record.name] = max(self._deleted.get(record.name, -1), highest)
        return None

    def _take(self, record: Partition) -> str | None:
        topic_id, epoch = record.topic_id, record.leader_epoch
        self._highest[topic_id] = max(self._highest.get(topic_id, -1), epoch)
        name = self._names.get(topic_id, "")
        before = self._deleted.get(name, -1)
        if epoch <= before:
            return (
                f"{name} {topic_id} has leader epoch {epoch}, and a deleted topic of that name had"
                f" {before}"
            )
        return None
