"""DescribeLogDirs (35) v1-5. Gaps: none."""

from collections.abc import Callable, Iterable
from itertools import groupby

from ottla.broker.requests.authorization import CLUSTER
from ottla.broker.requests.call import Call
from ottla.errors import ErrorCode
from ottla.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDir,
    Partition,
    RequestedTopic,
    Topic,
)
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.replicas import Replicas
from ottla.storage.directory.directory import LogDirectory

# Kafka's value for a log that is no replica of this broker (any more).
NO_LAG_KNOWN = -1

IsAskedFor = Callable[[TopicPartition], bool]


def handle(request: DescribeLogDirsRequest, call: Call) -> DescribeLogDirsResponse:
    """This broker's log directories, with the requested partitions, their sizes and lags.

    The lag of a follower is the number of committed offsets that it lacks. A partition without a
    log has no directory yet. It is listed with the first directory.
    """
    call.require(CLUSTER)
    replicas = call.services.partitions.replicas
    asked_for = _asked_for(request.topics)
    unwritten = [
        replica.name for replica in replicas if replica.log is None and not replica.is_unusable
    ]
    results = []
    for directory in replicas.directories.directories:
        if directory.offline is not None:
            results.append(_offline(directory.path))
            continue
        results.append(_online(directory, unwritten, replicas, asked_for))
        unwritten = []
    results.extend(_offline(path) for path in sorted(replicas.directories.failed))
    return DescribeLogDirsResponse(error_code=ErrorCode.NONE, results=tuple(results))


def _asked_for(topics: Iterable[RequestedTopic] | None) -> IsAskedFor:
    if topics is None:
        return lambda _: True
    named = {(topic.topic, index) for topic in topics for index in topic.partitions}
    return lambda partition: partition in named


def _online(
    directory: LogDirectory,
    unwritten: Iterable[TopicPartition],
    replicas: Replicas,
    asked_for: IsAskedFor,
) -> LogDir:
    try:
        total_bytes = directory.files.total_bytes(directory.path)
        usable_bytes = directory.files.free_bytes(directory.path)
    except OSError:
        # The directory has failed. The background checks will notice soon.
        return _offline(directory.path)
    sizes = {name: log.size_bytes for name, log in directory.logs.items() if asked_for(name)}
    sizes.update((name, 0) for name in unwritten if asked_for(name))
    return LogDir(
        error_code=ErrorCode.NONE,
        log_dir=directory.path,
        topics=tuple(
            Topic(
                name=topic,
                partitions=tuple(
                    _partition(name, sizes[name], _lag(replicas, name)) for name in names
                ),
            )
            for topic, names in groupby(sorted(sizes), key=lambda name: name.topic)
        ),
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )


def _lag(replicas: Replicas, name: TopicPartition) -> int:
    replica = replicas.by_key.get(name)
    return NO_LAG_KNOWN if replica is None else replica.partition.lag


def _partition(name: TopicPartition, size_bytes: int, lag: int) -> Partition:
    # Logs do not move between directories, so there are no future logs.
    return Partition(
        partition_index=name.partition,
        partition_size=size_bytes,
        offset_lag=lag,
        is_future_key=False,
    )


def _offline(path: str) -> LogDir:
    return LogDir(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path, topics=())
