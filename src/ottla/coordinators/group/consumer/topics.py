"""The ids and partition counts of topics, and a hash that shows whether they have changed."""

from collections.abc import Collection, Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple, Protocol

from ottla.metadata.image import Image
from ottla.protocol.primitives import Uuid

NO_TOPICS_HASH = 0


class TopicShape(NamedTuple):
    topic_id: Uuid
    partition_count: int


class Topics(Protocol):
    """The topics of the cluster at one version of the metadata."""

    @property
    def version(self) -> int:
        """Changes whenever a topic changes, and maybe also when none does."""
        ...

    @property
    def names(self) -> Collection[str]: ...

    def shape(self, name: str) -> TopicShape | None:
        """None if the topic does not exist."""
        ...

    def name(self, topic_id: Uuid) -> str | None: ...


class NoTopics:
    """An empty cluster."""

    version = 0
    names: Collection[str] = ()

    def shape(self, name: str) -> TopicShape | None:  # noqa: ARG002 - the face of Topics
        return None

    def name(self, topic_id: Uuid) -> str | None:  # noqa: ARG002 - the face of Topics
        return None


class ImageTopics:
    """The topics of a metadata image."""

    __slots__ = ("_image",)

    def __init__(self, image: Image) -> None:
        self._image = image

    @property
    def version(self) -> int:
        return self._image.offset

    @property
    def names(self) -> Collection[str]:
        return self._image.topic_names

    def shape(self, name: str) -> TopicShape | None:
        topic = self._image.topic(name)
        if topic is None:
            return None
        return TopicShape(topic.topic_id, len(self._image.partitions(topic.topic_id)))

    def name(self, topic_id: Uuid) -> str | None:
        topic = self._image.topic_by_id(topic_id)
        return None if topic is None else topic.name


def shapes(names: Iterable[str], topics: Topics) -> dict[str, TopicShape]:
    """The shapes of the topics that exist, by name."""
    return {name: shape for name in sorted(names) if (shape := topics.shape(name)) is not None}


def shapes_hash(known: Mapping[str, TopicShape]) -> int:
    """A hash that is the same on every broker; an int64, as in the group's record."""
    if not known:
        return NO_TOPICS_HASH
    digest = blake2b(digest_size=8)
    for name, shape in sorted(known.items()):
        encoded = name.encode()
        digest.update(len(encoded).to_bytes(4) + encoded)
        digest.update(shape.topic_id + shape.partition_count.to_bytes(4))
    return int.from_bytes(digest.digest(), signed=True)
