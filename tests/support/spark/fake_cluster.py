"""A cluster of a few topics in memory, with the client interface that the source uses."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ottla.client.blocking.client import BlockingClient
from ottla.client.errors import Refused
from ottla.client.routing.topic_lookup import FoundTopics
from ottla.client.routing.topology import Partition, Topic
from ottla.errors import ErrorCode
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition


@dataclass
class FakeTopic:
    """Where each partition begins and ends; each making of a topic has a number of its own."""

    number: int
    ends: list[int]
    beginnings: dict[int, int] = field(default_factory=dict)
    # The ms of each record, the same in all partitions.
    times: list[int] = field(default_factory=list)


class FakeClient(BlockingClient):
    """Responds from memory; `before_offsets` runs before each query for offsets."""

    def __init__(self) -> None:
        self.held: dict[str, FakeTopic] = {}
        self.groups: dict[str, dict[TopicPartition, int]] = {}
        self.group_error: Refused | None = None
        self.before_offsets: Callable[[], None] = lambda: None
        self.commits = 0
        # How often topics were asked about.
        self.looks = 0
        self.is_closed = False
        self._made = 0

    def make(self, name: str, *ends: int) -> FakeTopic:
        self._made += 1
        self.held[name] = FakeTopic(self._made, list(ends))
        return self.held[name]

    def close(self) -> None:
        self.is_closed = True

    def topics(self) -> list[Topic]:
        self.looks += 1
        return [self._topic(name) for name in sorted(self.held)]

    def find_topics(self, names: Iterable[str]) -> FoundTopics:
        self.looks += 1
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return {
            name: self._topic(name) if name in self.held else Refused(unknown, f"topic {name}")
            for name in names
        }

    def _topic(self, name: str) -> Topic:
        topic = self.held[name]
        partitions = tuple(
            Partition(number, 1, 0, (1,), (1,), ()) for number in range(len(topic.ends))
        )
        topic_id = Uuid(topic.number.to_bytes(16, "big"))
        return Topic(name, topic_id, name.startswith("__"), partitions)

    def offsets(
        self,
        places: Mapping[TopicPartition, int],
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, int]:
        self.before_offsets()
        found = {}
        for each, place in places.items():
            topic = self.held.get(each.topic)
            if topic is None or each.partition >= len(topic.ends):
                raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{each}")
            beginning = topic.beginnings.get(each.partition, 0)
            found[each] = beginning if place == OffsetSpec.EARLIEST else topic.ends[each.partition]
        return found

    def offsets_for_times(
        self,
        times_ms: Mapping[TopicPartition, int],
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, int | None]:
        return {
            each: next(
                (
                    offset
                    for offset, time in enumerate(self.held[each.topic].times)
                    if time >= time_ms
                ),
                None,
            )
            for each, time_ms in times_ms.items()
        }

    def commit_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        self.commits += 1
        if self.group_error:
            raise self.group_error
        self.groups[group_id] = dict(offsets)
