"""AlterReplicaLogDirs (34) v1-2. Each partition has its own answer. Moves run in the background; a
later request replaces an earlier one. Gaps: none.
"""

from ottla.broker.requests.authorization import CLUSTER
from ottla.broker.requests.call import Call
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    PartitionResult,
    TopicResult,
)
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.lookup import find_replica
from ottla.storage.directory.directories import LogDirectories
from ottla.storage.directory.directory import LogDirectory

# The limit of partitions that this broker has no replica of, and that are to be created in a given
# log directory.
PREFERRED_MAX = 10_000


def handle(request: AlterReplicaLogDirsRequest, call: Call) -> AlterReplicaLogDirsResponse:
    call.require(CLUSTER)
    results: dict[str, list[PartitionResult]] = {}
    for log_dir in request.dirs:
        for topic in log_dir.topics:
            results.setdefault(topic.name, []).extend(
                PartitionResult(
                    partition_index=index,
                    error_code=_code(log_dir.path, TopicPartition(topic.name, index), call),
                )
                for index in topic.partitions
            )
    return AlterReplicaLogDirsResponse(
        results=tuple(
            TopicResult(topic_name=name, partitions=tuple(partitions))
            for name, partitions in results.items()
        )
    )


def _code(path: str, name: TopicPartition, call: Call) -> ErrorCode:
    try:
        _move(path, name, call)
    except PeerError as error:
        call.count_refusal(error.code)
        return error.code
    return ErrorCode.NONE


def _move(path: str, name: TopicPartition, call: Call) -> None:
    partitions = call.services.partitions
    directories = partitions.replicas.directories
    directory = _online(directories, path)
    try:
        replica = find_replica(partitions.replicas, call.services.image, *name)
    except PeerError as error:
        if error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
            raise
        replica = None
    if replica is not None and replica.log is not None:
        if replica.log.offline is not None:
            raise PeerError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {name} is offline")
        partitions.log_moves.request(replica, directory)
        return
    # The first append creates the log.
    if len(directories.preferred) >= PREFERRED_MAX and name not in directories.preferred:
        raise PeerError(ErrorCode.POLICY_VIOLATION, "too many partitions wait for their creation")
    directories.preferred[name] = path
    if replica is None:
        raise PeerError(ErrorCode.REPLICA_NOT_AVAILABLE, f"there is no replica of {name} here")


def _online(directories: LogDirectories, path: str) -> LogDirectory:
    for directory in directories.directories:
        if directory.path == path and directory.offline is None:
            return directory
    if path in directories.failed or any(each.path == path for each in directories.directories):
        raise PeerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path} is offline")
    raise PeerError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is none of the log directories")
