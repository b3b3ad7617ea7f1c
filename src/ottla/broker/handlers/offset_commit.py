"""OffsetCommit (8) v2-10. Partitions that do not exist are refused by themselves. Gaps: none."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from ottla.broker.requests.authorization import group_resource, may, topic_resource
from ottla.broker.requests.call import Call
from ottla.broker.requests.gathered_commits import NAME
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.machine import CommitRequest, GroupMachine
from ottla.coordinators.group.offsets import PartitionCommit
from ottla.coordinators.runtime.decision import Answered
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.image import Image
from ottla.metadata.values import AclOperation
from ottla.native import commit as native_commit
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    PartitionResult,
    TopicResult,
)
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.replication.lookup import topic_name
from ottla.tuples import maker

if TYPE_CHECKING:
    from ottla.broker.net.session import Session
    from ottla.broker.requests.gathered_commits import Gathered
    from ottla.broker.requests.services import Services
    from ottla.coordinators.group.coordinator import GroupShard

# What an ordinary commit says of how long offsets are kept.
NO_RETENTION_MS = -1

# A member of an enum is found in ten times the time of a module's name: not for every commit.
_NONE = ErrorCode.NONE
_UNKNOWN_TOPIC_OR_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

_commit = maker(PartitionCommit)
_commit_request = maker(CommitRequest)
_decision = maker(Decision)


class _Asked(NamedTuple):
    """What is to be committed, and for each partition of the request why it cannot be."""

    commits: list[PartitionCommit]
    # In the request's order; NONE for each of the commits.
    codes: list[ErrorCode]

    def with_codes(self, committed: Sequence[ErrorCode]) -> Sequence[ErrorCode]:
        """For each partition of the request what became of it, given that of the commits."""
        if len(self.commits) == len(self.codes):
            return committed
        coming = iter(committed)
        return [code or next(coming) for code in self.codes]

    def refused(self, error: PeerError) -> Sequence[ErrorCode]:
        """The same if none of them is committed."""
        return self.with_codes([error.code] * len(self.commits))


_new_asked = maker(_Asked)


# One request by itself


def handle(
    request: OffsetCommitRequest, call: Call
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    call.require(group_resource(request.group_id))
    places = _places_of(call.session, call.services)
    asked = _asked(_plain_topics(request, call.version), places)
    if not asked.commits:
        return _response(request, asked.codes)
    commit_request = CommitRequest(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        call.version,
        request.retention_time_ms,
        asked.commits,
    )
    try:
        shard = call.services.coordinators.groups.of(request.group_id)

        def decide(ticket: Hashable, now_ms: int) -> Decision:
            records, codes, timers = shard.machine.commit(commit_request, now_ms)
            response = _response(request, asked.with_codes(codes))
            return Decision(tuple(records), (Answered(ticket, response),), timers)

        return cast(Awaitable[OffsetCommitResponse], shard.ask(decide))
    except PeerError as error:
        call.count_refusal(error.code)
        return _response(request, asked.refused(error))


def _plain_topics(request: OffsetCommitRequest, version: int) -> list[native_commit.Topic]:
    """As they are read natively."""
    return [
        (
            topic.topic_id if version >= native_commit.TOPIC_IDS_SINCE else topic.name,
            [
                (
                    partition.partition_index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata,
                )
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]


def _response(request: OffsetCommitRequest, codes: Sequence[ErrorCode]) -> OffsetCommitResponse:
    coming = iter(codes)
    return OffsetCommitResponse(
        topics=tuple(
            TopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    PartitionResult(
                        partition_index=partition.partition_index, error_code=next(coming)
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


# Many at once


class JointCommit:
    """One request of many that are handled together, and what became of it."""

    __slots__ = ("asked", "codes", "committed", "group_id", "request", "session")

    def __init__(self, gathered: "Gathered", places: "_Places") -> None:
        connection, self.request = gathered
        self.session = connection.session
        _, _, _, self.group_id, _, _, _, topics = self.request
        self.asked = _asked(topics, places)
        # For each partition, in the request's order.
        self.codes: Sequence[ErrorCode] = self.asked.codes
        # Comes once what was decided is committed, or is refused by a PeerError. None: nothing was.
        self.committed: asyncio.Future[object] | None = None

    def commit_request(self) -> CommitRequest:
        version, _, _, _, generation, member_id, instance_id, _ = self.request
        return _commit_request(
            (
                *(self.group_id, member_id, instance_id, generation),
                *(version, NO_RETENTION_MS, self.asked.commits),
            )
        )


def handle_joint(requests: "Sequence[Gathered]", services: "Services") -> list[JointCommit]:
    """Each is decided by itself; what is decided is written at once, and waited for once."""
    if services.authorizer is None:
        places = _Places(services.image)
        joint = [JointCommit(each, places) for each in requests]
    else:
        joint = [_allowed(each, services) for each in requests]
    by_shard: dict[GroupShard, list[JointCommit]] = {}
    for each in joint:
        if each.asked.commits:
            try:
                shard = services.coordinators.groups.of(each.group_id)
            except PeerError as error:
                _refuse(each, error, services)
            else:
                by_shard.setdefault(shard, []).append(each)
    for shard, together in by_shard.items():
        _commit_together(shard, together, services)
    return joint


def _allowed(gathered: "Gathered", services: "Services") -> JointCommit:
    """The same of what the client may commit."""
    session = gathered.connection.session
    commit = JointCommit(gathered, _places_of(session, services))
    if not may(services, session, AclOperation.READ, group_resource(commit.group_id)):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        services.metrics.request_refused(NAME, code.name)
        commit.asked = _Asked([], [code] * len(commit.codes))
        commit.codes = commit.asked.codes
    return commit


def _commit_together(
    shard: "GroupShard", together: list[JointCommit], services: "Services"
) -> None:
    try:
        shard.apply_all(lambda now_ms: _decided(shard.machine, together, now_ms, services))
        committed = shard.append_turn()
    except PeerError as error:
        for each in together:
            _refuse(each, error, services)
        return
    for each in together:
        each.committed = committed


def _decided(
    machine: GroupMachine, together: list[JointCommit], now_ms: int, services: "Services"
) -> Iterator[Decision]:
    for each in together:
        try:
            records, codes, timers = machine.commit(each.commit_request(), now_ms)
        except PeerError as error:
            _refuse(each, error, services)
        else:
            each.codes = each.asked.with_codes(codes)
            # Nobody waits for this one alone.
            yield _decision((tuple(records), (), timers, ()))


def _refuse(each: JointCommit, error: PeerError, services: "Services") -> None:
    services.metrics.request_refused(NAME, error.code.name)
    each.codes = each.asked.refused(error)


# Parts of both


class _Place(NamedTuple):
    """A topic as far as commits go, and what is said of a partition that it does not have."""

    name: str
    topic_id: Uuid
    partition_count: int
    unknown: ErrorCode


class _Places(dict[str | bytes, _Place]):
    """By name or id: each is looked up once, since many commits are of the same few topics."""

    def __init__(self, image: Image, may_read: Callable[[str], bool] | None = None) -> None:
        """`may_read` is asked of each topic's name; None: all may be read."""
        super().__init__()
        self._image = image
        self._may_read = may_read

    def __missing__(self, key: str | bytes) -> _Place:
        if isinstance(key, str):
            topic, unknown = self._image.topic(key), _UNKNOWN_TOPIC_OR_PARTITION
        else:
            topic, unknown = self._image.topic_by_id(Uuid(key)), ErrorCode.UNKNOWN_TOPIC_ID
        name = topic_name(self._image, key)
        if name is not None and self._may_read is not None and not self._may_read(name):
            place = _Place("", ZERO_UUID, 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        elif topic is None:
            place = _Place("", ZERO_UUID, 0, unknown)
        else:
            count = len(self._image.partitions(topic.topic_id))
            place = _Place(topic.name, topic.topic_id, count, _UNKNOWN_TOPIC_OR_PARTITION)
        self[key] = place
        return place


def _places_of(session: "Session", services: "Services") -> _Places:
    """Topics as one client sees them."""
    if services.authorizer is None:
        return _Places(services.image)
    return _Places(
        services.image,
        lambda name: may(services, session, AclOperation.READ, topic_resource(name)),
    )


def _asked(topics: list[native_commit.Topic], places: _Places) -> _Asked:
    commits: list[PartitionCommit] = []
    codes: list[ErrorCode] = []
    for key, partitions in topics:
        name, topic_id, partition_count, unknown = places[key]
        for index, offset, leader_epoch, metadata in partitions:
            if 0 <= index < partition_count:
                codes.append(_NONE)
                commits.append(_commit((name, topic_id, index, offset, leader_epoch, metadata)))
            else:
                codes.append(unknown)
    return _new_asked((commits, codes))
