"""OffsetCommit (8) v2-10. Partitions that do not exist are refused by themselves. Gaps: none."""

import asyncio
from collections.abc import Awaitable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from ottla.broker.requests.authorization import group_resource, may
from ottla.broker.requests.call import Call
from ottla.broker.requests.commit_fast_path import OFFSET_COMMIT_NAME
from ottla.broker.requests.requested_commits import (
    CommitTopics,
    RequestedCommits,
    requested_commits,
    topics_for,
)
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.machine import CommitRequest, GroupMachine
from ottla.coordinators.runtime.decision import Answered
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.values import AclOperation
from ottla.native import commit as native_commit
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    PartitionResult,
    TopicResult,
)
from ottla.tuples import maker

if TYPE_CHECKING:
    from ottla.broker.requests.commit_fast_path import GatheredCommit
    from ottla.broker.requests.services import Services
    from ottla.coordinators.group.coordinator import GroupShard

# No retention time of its own: the broker's setting counts.
NO_RETENTION_MS = -1

_commit_request = maker(CommitRequest)
_decision = maker(Decision)


# A single request


def handle(
    request: OffsetCommitRequest, call: Call
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    call.require(group_resource(request.group_id))
    commit_topics = topics_for(call.session, call.services)
    asked = requested_commits(_plain_topics(request, call.version), commit_topics)
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
            try:
                records, codes, timers = shard.machine.commit(commit_request, now_ms)
            except PeerError as error:
                call.count_refusal(error.code)
                refused = _response(request, asked.refused(error))
                return Decision(answers=(Answered(ticket, refused),))
            response = _response(request, asked.with_codes(codes))
            return Decision(tuple(records), (Answered(ticket, response),), timers)

        return cast(Awaitable[OffsetCommitResponse], shard.ask(decide))
    except PeerError as error:
        call.count_refusal(error.code)
        return _response(request, asked.refused(error))


def _plain_topics(request: OffsetCommitRequest, version: int) -> list[native_commit.Topic]:
    """The topics in the form of the native decoder."""
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


# Gathered requests


class CommitOutcome:
    """One of the gathered requests, and its outcome."""

    __slots__ = ("asked", "codes", "committed", "group_id", "request", "session")

    def __init__(self, gathered: "GatheredCommit", commit_topics: "CommitTopics") -> None:
        connection, request = gathered
        self.request = request
        self.session = session = connection.session
        _, _, session.client_id, self.group_id, _, _, _, topics = request
        self.asked = requested_commits(topics, commit_topics)
        # For each partition, in the request's order.
        self.codes: Sequence[ErrorCode] = self.asked.codes
        # Done when the decision is committed; a PeerError if that fails. None: nothing was decided.
        self.committed: asyncio.Future[object] | None = None

    def commit_request(self) -> CommitRequest:
        version, _, _, _, generation, member_id, instance_id, _ = self.request
        return _commit_request(
            (
                *(self.group_id, member_id, instance_id, generation),
                *(version, NO_RETENTION_MS, self.asked.commits),
            )
        )


def handle_gathered(
    requests: "Sequence[GatheredCommit]", services: "Services"
) -> list[CommitOutcome]:
    """Decides each commit by itself. The records of a shard share one append and one wait."""
    if services.authorizer is None:
        commit_topics = CommitTopics(services.image)
        joint = [CommitOutcome(each, commit_topics) for each in requests]
    else:
        joint = [_allowed(each, services) for each in requests]
    by_shard: dict[GroupShard, list[CommitOutcome]] = {}
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


def _allowed(gathered: "GatheredCommit", services: "Services") -> CommitOutcome:
    """The commit, refused as far as the client is not authorized."""
    session = gathered.connection.session
    commit = CommitOutcome(gathered, topics_for(session, services))
    if not may(services, session, AclOperation.READ, group_resource(commit.group_id)):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        services.metrics.request_refused(OFFSET_COMMIT_NAME, code.name)
        commit.asked = RequestedCommits([], [code] * len(commit.codes))
        commit.codes = commit.asked.codes
    return commit


def _commit_together(
    shard: "GroupShard", together: list[CommitOutcome], services: "Services"
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
    machine: GroupMachine, together: list[CommitOutcome], now_ms: int, services: "Services"
) -> Iterator[Decision]:
    for each in together:
        try:
            records, codes, timers = machine.commit(each.commit_request(), now_ms)
        except PeerError as error:
            _refuse(each, error, services)
        else:
            each.codes = each.asked.with_codes(codes)
            # Without an answer: the requests wait for the append of the turn.
            yield _decision((tuple(records), (), timers, (), None))


def _refuse(each: CommitOutcome, error: PeerError, services: "Services") -> None:
    services.metrics.request_refused(OFFSET_COMMIT_NAME, error.code.name)
    each.codes = each.asked.refused(error)
