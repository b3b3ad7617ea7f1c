"""The offsets of an offset spec in the partitions of a topic."""

from collections.abc import Sequence

from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.offsets_spec import Offset, Position, Time
from ottla.client.reading.offsets import list_offsets
from ottla.client.routing.outcomes import unwrap
from ottla.client.routing.router import Router
from ottla.client.routing.topology import Topic
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.topic_partition import TopicPartition


def chosen_partitions(topic: Topic, numbers: Sequence[int] | None) -> list[TopicPartition]:
    """All partitions, or the given ones. Failure if one does not exist."""
    for number in numbers or ():
        if number >= len(topic.partitions):
            raise Failure(
                f"topic {topic.name} has no partition {number}",
                why=f"it has {len(topic.partitions)}, numbered from 0",
                exit_code=ExitCode.NOT_FOUND,
            )
    wanted = dict.fromkeys(numbers or (each.number for each in topic.partitions))
    return [TopicPartition(topic.name, number) for number in wanted]


async def offsets_at(
    router: Router,
    partitions: Sequence[TopicPartition],
    spec: Position,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    """The offset of a spec in each partition; a time after the last record is the end."""
    match spec:
        case Offset(offset):
            return dict.fromkeys(partitions, offset)
        case Time(timestamp_ms):
            found = await _listed(router, partitions, timestamp_ms, isolation)
            late = [partition for partition, offset in found.items() if offset < 0]
            return found | await _listed(router, late, OffsetSpec.LATEST, isolation)
        case OffsetSpec():
            return await _listed(router, partitions, spec, isolation)


async def _listed(
    router: Router, partitions: Sequence[TopicPartition], spec: int, isolation: Isolation
) -> dict[TopicPartition, int]:
    outcomes = await list_offsets(router, dict.fromkeys(partitions, spec), isolation)
    return {partition: unwrap(outcome).offset for partition, outcome in outcomes.items()}
