"""The offsets of a commit request: the existing partitions, and the error codes of all others."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.requests.authorization import may, topic_resource
from ottla.coordinators.group.offsets import PartitionCommit
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.image import Image
from ottla.metadata.values import AclOperation
from ottla.native import commit as native_commit
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.replication.lookup import topic_name
from ottla.tuples import maker

if TYPE_CHECKING:
    from ottla.broker.net.session import Session
    from ottla.broker.requests.services import Services

# Module globals: the lookup of an enum member takes ten times as long.
_NONE = ErrorCode.NONE
_UNKNOWN_TOPIC_OR_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

_commit = maker(PartitionCommit)


class RequestedCommits(NamedTuple):
    """The commits of a request, and the error code of each of its partitions."""

    commits: list[PartitionCommit]
    # In the request's order; NONE for each of the commits.
    codes: list[ErrorCode]

    def with_codes(self, committed: Sequence[ErrorCode]) -> Sequence[ErrorCode]:
        """The code of each partition of the request, given the codes of the commits."""
        if len(self.commits) == len(self.codes):
            return committed
        coming = iter(committed)
        return [code or next(coming) for code in self.codes]

    def refused(self, error: PeerError) -> Sequence[ErrorCode]:
        """The same if all commits fail with one error."""
        return self.with_codes([error.code] * len(self.commits))


_new_requested_commits = maker(RequestedCommits)


class _CommitTopic(NamedTuple):
    """A topic to commit to, and the error code of partitions that it does not have."""

    name: str
    topic_id: Uuid
    partition_count: int
    unknown: ErrorCode


class CommitTopics(dict[str | bytes, _CommitTopic]):
    """Topics by name or id. A cache, since many commits are of the same few topics."""

    def __init__(self, image: Image, may_read: Callable[[str], bool] | None = None) -> None:
        """`may_read` authorizes a topic by name; None allows all topics."""
        super().__init__()
        self._image = image
        self._may_read = may_read

    def __missing__(self, key: str | bytes) -> _CommitTopic:
        if isinstance(key, str):
            topic, unknown = self._image.topic(key), _UNKNOWN_TOPIC_OR_PARTITION
        else:
            topic, unknown = self._image.topic_by_id(Uuid(key)), ErrorCode.UNKNOWN_TOPIC_ID
        name = topic_name(self._image, key)
        if name is not None and self._may_read is not None and not self._may_read(name):
            commit_topic = _CommitTopic("", ZERO_UUID, 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        elif topic is None:
            commit_topic = _CommitTopic("", ZERO_UUID, 0, unknown)
        else:
            count = len(self._image.partitions(topic.topic_id))
            commit_topic = _CommitTopic(
                topic.name, topic.topic_id, count, _UNKNOWN_TOPIC_OR_PARTITION
            )
        self[key] = commit_topic
        return commit_topic


def topics_for(session: "Session", services: "Services") -> CommitTopics:
    """The topics that a client is authorized for."""
    if services.authorizer is None:
        return CommitTopics(services.image)
    return CommitTopics(
        services.image,
        lambda name: may(services, session, AclOperation.READ, topic_resource(name)),
    )


def requested_commits(
    topics: list[native_commit.Topic], commit_topics: CommitTopics
) -> RequestedCommits:
    commits: list[PartitionCommit] = []
    codes: list[ErrorCode] = []
    for key, partitions in topics:
        name, topic_id, partition_count, unknown = commit_topics[key]
        for index, offset, leader_epoch, metadata in partitions:
            if 0 <= index < partition_count:
                codes.append(_NONE)
                commits.append(_commit((name, topic_id, index, offset, leader_epoch, metadata)))
            else:
                codes.append(unknown)
    return _new_requested_commits((commits, codes))
