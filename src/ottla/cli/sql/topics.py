"""The topics of a query: their existence and the offsets to read."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from ottla.cli.shared.name_suggestions import no_such_topic
from ottla.cli.shared.offset_lookup import chosen_partitions, offsets_at
from ottla.cli.shared.offsets_spec import Position
from ottla.client.admin.cluster import Admin
from ottla.client.routing.router import Router
from ottla.client.routing.topology import Topic
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.offset_spec import OffsetSpec
from ottla.spark.offsets import to_json_offsets


class QueryRange(NamedTuple):
    """The range of each topic that a query reads."""

    start: Position
    end: Position
    isolation: Isolation


class TopicSource(NamedTuple):
    """The source options of a topic's range, and its number of offsets."""

    options: dict[str, str]
    offsets: int


async def topic_sources(
    router: Router, names: Sequence[str], query_range: QueryRange
) -> dict[str, TopicSource]:
    """The source of each topic, with an end that is fixed now. Failure if a topic is missing.

    With a fixed end, a topic that a query names twice has the same records both times.
    """
    existing = {topic.name: topic for topic in await Admin(router).list_topics()}
    for name in names:
        if name not in existing:
            raise no_such_topic(name, existing)
    return {name: await _topic_source(router, existing[name], query_range) for name in names}


async def _topic_source(router: Router, topic: Topic, query_range: QueryRange) -> TopicSource:
    partitions = chosen_partitions(topic, None)
    isolation = query_range.isolation
    firsts = await offsets_at(router, partitions, OffsetSpec.EARLIEST, isolation)
    lasts = await offsets_at(router, partitions, OffsetSpec.LATEST, isolation)
    starts = await offsets_at(router, partitions, query_range.start, isolation)
    ends = await offsets_at(router, partitions, query_range.end, isolation)
    # Clamped to the partition, and the start to the end.
    ends = {each: min(max(ends[each], firsts[each]), lasts[each]) for each in partitions}
    starts = {each: min(max(starts[each], firsts[each]), ends[each]) for each in partitions}
    # With `earliest`, records that are deleted before Spark reads them are not a data loss.
    is_from_first = query_range.start is OffsetSpec.EARLIEST
    options = {
        "startingOffsets": "earliest" if is_from_first else json.dumps(to_json_offsets(starts)),
        "endingOffsets": json.dumps(to_json_offsets(ends)),
        "kafka.isolation.level": isolation.name.lower(),
    }
    return TopicSource(options, sum(ends.values()) - sum(starts.values()))
