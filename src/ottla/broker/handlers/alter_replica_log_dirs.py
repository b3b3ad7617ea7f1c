"""AlterReplicaLogDirs (34) v1-2. Each partition has its own answer. Gaps: logs do not move between
directories, such a request is refused with UNSUPPORTED_VERSION.
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
        _require_in_directory(path, name, call)
    except PeerError as error:
        call.count_refusal(error.code)
        return error.code
    return ErrorCode.NONE


def _require_in_directory(path: str, name: TopicPartition, call: Call) -> None:
    """PeerError unless the partition's log is in this directory, or can only be created there."""
    services = call.services
    directories = services.partitions.replicas.directories
    directory = _online(directories, path)
    replica = find_replica(services.partitions.replicas, services.image, *name)
    is_there = name in directory.logs
    if replica.log is None:
        # The first append creates the log.
        is_there = directories.directories == [directory] and not directories.failed
    if not is_there:
        raise PeerError(ErrorCode.UNSUPPORTED_VERSION, "logs do not move between directories")


def _online(directories: LogDirectories, path: str) -> LogDirectory:
    for directory in directories.directories:
        if directory.path == path and directory.offline is None:
            return directory
    if path in directories.failed or any(each.path == path for each in directories.directories):
        raise PeerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path} is offline")
    raise PeerError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is none of the log directories")
