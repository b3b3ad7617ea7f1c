"""TxnOffsetCommit (28) v0-5. The offsets take effect if the transaction is committed. v3 adds the
group's member (KIP-447), v5 adds the group to the transaction (KIP-890). Gaps: none.
"""

from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from ottla.broker.requests.authorization import group_resource, transactional_id_resource
from ottla.broker.requests.call import Call
from ottla.broker.requests.requested_commits import RequestedCommits, requested_commits, topics_for
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.machine import CommitRequest
from ottla.coordinators.runtime.decision import Answered
from ottla.coordinators.txn.verification import Verification
from ottla.errors import ErrorCode, PeerError
from ottla.native import commit as native_commit
from ottla.protocol.messages.txn_offset_commit import (
    PartitionResult,
    TopicResult,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from ottla.protocol.producer_epoch import ProducerIdAndEpoch
from ottla.replication.replica import Replica

if TYPE_CHECKING:
    import asyncio

    from ottla.coordinators.group.coordinator import GroupShard

LOADING_SINCE = 2
ABORTABLE_SINCE = 4
ADDS_SINCE = 5
NO_RETENTION_MS = -1

# Kafka's codes for errors of the transaction's coordinator and of the log.
_CODES: Mapping[ErrorCode, ErrorCode] = MappingProxyType(
    {
        ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    }
)


async def handle(request: TxnOffsetCommitRequest, call: Call) -> TxnOffsetCommitResponse:
    call.require(transactional_id_resource(request.transactional_id))
    call.require(group_resource(request.group_id))
    asked = _requested(request, call)
    if not asked.commits:
        return _response(request, asked.codes)
    try:
        _check_request(request)
        shard = call.services.coordinators.groups.of(request.group_id)
        if _has_open_transaction(shard.replica, _producer(request)):
            committing = _commit(shard, request, call)
        else:
            committing = await _verify_and_commit(shard, request, call)
        return _response(request, await committing)
    except PeerError as error:
        code = _response_code(error.code, call.version)
        call.count_refusal(code)
        return _response(request, asked.with_codes([code] * len(asked.commits)))


def _check_request(request: TxnOffsetCommitRequest) -> None:
    if not request.group_id:
        raise PeerError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    if not request.transactional_id:
        raise PeerError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    if request.producer_id < 0:
        raise PeerError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"producer {request.producer_id}")
    if request.producer_epoch < 0:
        raise PeerError(ErrorCode.INVALID_PRODUCER_EPOCH, f"epoch {request.producer_epoch}")


def _has_open_transaction(replica: Replica, producer: ProducerIdAndEpoch) -> bool:
    """Whether an earlier batch of the transaction, which was verified, is in the log."""
    entry = None if replica.log is None else replica.log.producers.get(producer.producer_id)
    return (
        entry is not None and entry.has_open_transaction and entry.epoch == producer.producer_epoch
    )


async def _verify_and_commit(
    shard: "GroupShard", request: TxnOffsetCommitRequest, call: Call
) -> "asyncio.Future[Sequence[ErrorCode]]":
    """Commits if the transaction is open at its coordinator. PeerError if it is not.

    The guard is invalid if a marker was written while the coordinator was asked. The transaction
    is then over, and no marker would end the one that this commit would begin.
    """
    verifications = shard.replica.verifications
    producer = _producer(request)
    guard = verifications.begin(*producer, base_sequence=0, leader_epoch=shard.leader_epoch)
    try:
        verification = Verification(
            request.transactional_id,
            *producer,
            partitions=(shard.replica.name,),
            adds=call.version >= ADDS_SINCE,
            coordinator_epoch=shard.replica.coordinator_epoch_of(producer.producer_id),
        )
        codes = await call.services.coordinators.verifier.verify(verification)
        code = codes.get(shard.replica.name, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if code is not ErrorCode.NONE:
            raise PeerError(code, "the transaction could not be verified")
        if not verifications.is_valid(guard):
            raise PeerError(ErrorCode.INVALID_TXN_STATE, "the transaction has ended")
        return _commit(shard, request, call)
    finally:
        verifications.end(guard, is_retried=False)


def _commit(
    shard: "GroupShard", request: TxnOffsetCommitRequest, call: Call
) -> "asyncio.Future[Sequence[ErrorCode]]":
    """Decides the commit. The result has the code of each partition of the request."""
    # Not as of the request's arrival: a topic may have been deleted since.
    asked = _requested(request, call)
    commit_request = CommitRequest(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        call.version,
        NO_RETENTION_MS,
        asked.commits,
    )

    def decide(ticket: Hashable, now_ms: int) -> Decision:
        records, codes, timers = shard.machine.commit_in_transaction(commit_request, now_ms)
        return Decision(
            tuple(records),
            (Answered(ticket, asked.with_codes(codes)),),
            timers,
            transaction=_producer(request),
        )

    return cast("asyncio.Future[Sequence[ErrorCode]]", shard.ask(decide))


def _requested(request: TxnOffsetCommitRequest, call: Call) -> RequestedCommits:
    topics: list[native_commit.Topic] = [
        (
            topic.name,
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
    return requested_commits(topics, topics_for(call.session, call.services))


def _producer(request: TxnOffsetCommitRequest) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(request.producer_id, request.producer_epoch)


def _response_code(code: ErrorCode, version: int) -> ErrorCode:
    """The error code of this version of the response."""
    code = _CODES.get(code, code)
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code


def _response(
    request: TxnOffsetCommitRequest, codes: Sequence[ErrorCode]
) -> TxnOffsetCommitResponse:
    coming = iter(codes)
    return TxnOffsetCommitResponse(
        topics=tuple(
            TopicResult(
                name=topic.name,
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
