"""The topics that a query names: whether they exist, and what of them it reads."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from ottla.cli.shared.name_suggestions import no_such_topic
from ottla.cli.shared.offset_lookup import chosen_partitions, offsets_at
from ottla.cli.shared.offsets_spec import Place
from ottla.client.admin.cluster import Admin
from ottla.client.routing.router import Router
from ottla.client.routing.topology import Topic
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.offset_spec import OffsetSpec
from ottla.spark.offsets import to_json_offsets


class Extent(NamedTuple):
    """What of each topic is read."""

    start: Place
    end: Place
    isolation: Isolation


class Part(NamedTuple):
    """A part of a topic: how a source reads it, and how many offsets that are."""

    options: dict[str, str]
    offsets: int


async def parts_of(router: Router, names: Sequence[str], extent: Extent) -> dict[str, Part]:
    """What is read of each topic: up to an end that is fixed now. Failure if one is missing.

    So a topic that stands in a query twice is the same records both times.
    """
    existing = {topic.name: topic for topic in await Admin(router).list_topics()}
    for name in names:
        if name not in existing:
            raise no_such_topic(name, existing)
    return {name: await _part(router, existing[name], extent) for name in names}


async def _part(router: Router, topic: Topic, extent: Extent) -> Part:
    partitions = chosen_partitions(topic, None)
    isolation = extent.isolation
    firsts = await offsets_at(router, partitions, OffsetSpec.EARLIEST, isolation)
    lasts = await offsets_at(router, partitions, OffsetSpec.LATEST, isolation)
    starts = await offsets_at(router, partitions, extent.start, isolation)
    ends = await offsets_at(router, partitions, extent.end, isolation)
    # Places that a partition does not have are at its edges; an end before its start is there.
    ends = {each: min(max(ends[each], firsts[each]), lasts[each]) for each in partitions}
    starts = {each: min(max(starts[each], firsts[each]), ends[each]) for each in partitions}
    # Where nothing else is asked for, what is deleted before Spark looks is no loss.
    is_from_first = extent.start is OffsetSpec.EARLIEST
    options = {
        "startingOffsets": "earliest" if is_from_first else json.dumps(to_json_offsets(starts)),
        "endingOffsets": json.dumps(to_json_offsets(ends)),
        "kafka.isolation.level": isolation.name.lower(),
    }
    return Part(options, sum(ends.values()) - sum(starts.values()))
