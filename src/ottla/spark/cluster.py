"""The partitions that a source reads, and their offsets, queried from the brokers."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.blocking.client import BlockingClient
from ottla.client.errors import Refused
from ottla.client.routing.topology import Topic
from ottla.errors import ErrorCode
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.failures import SourceFailed, explain_errors, report_data_loss
from ottla.spark.offsets import AtOffsets, AtTime, AtTimes, Edge, Offsets
from ottla.spark.option_table import NoMatchStrategy
from ottla.spark.options import AssignedPartitions, SourceOptions, TopicNames, TopicPattern

# The number of partitions that an error names.
SHOWN_PARTITIONS_MAX = 10
# How often topics may be recreated while their offsets are queried.
METADATA_ATTEMPTS_MAX = 10

_GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class Subscribed(NamedTuple):
    """The existing partitions, and the ids of their topics."""

    partitions: tuple[TopicPartition, ...]
    topic_ids: Mapping[str, Uuid]


class TopicEnds(NamedTuple):
    """The end offsets of partitions, and the ids of the topics that they belong to."""

    ends: Offsets
    topic_ids: Mapping[str, Uuid]


class Cluster:
    """Queries the cluster for planning. Connects on the first query; must be closed."""

    def __init__(self, options: SourceOptions, client: BlockingClient | None = None) -> None:
        self._options = options
        self._client = client or BlockingClient(options.bootstrap_servers, options.client)
        # What the last look has shown.
        self._seen: Subscribed | None = None

    def close(self) -> None:
        self._client.close()

    def subscribed(self, *, may_lack: bool = False) -> Subscribed:
        """The existing partitions of the subscription. With `may_lack`, deleted topics are left
        out."""
        wanted = self._options.subscription
        with explain_errors(self._options):
            match wanted:
                case TopicNames():
                    topics = self._existing(wanted.topics, may_lack)
                case TopicPattern():
                    topics = self._matching(wanted.pattern)
                case AssignedPartitions():
                    names = dict.fromkeys(each.topic for each in wanted.partitions)
                    topics = self._existing(names, may_lack)
        partitions = [
            TopicPartition(topic.name, each.number) for topic in topics for each in topic.partitions
        ]
        if isinstance(wanted, AssignedPartitions):
            lacking = sorted(set(wanted.partitions) - set(partitions))
            if lacking and not may_lack:
                raise SourceFailed(
                    f"there is no {_listed(lacking)} at {self._options.bootstrap_servers}: "
                    "correct the option assign"
                )
            partitions = [each for each in wanted.partitions if each not in lacking]
        self._seen = Subscribed(
            tuple(sorted(partitions)), {topic.name: topic.topic_id for topic in topics}
        )
        return self._seen

    def standing(self, *, may_lack: bool) -> TopicEnds:
        """Consistent end offsets and topic ids, although a topic may be recreated at any time.

        End offsets fetched between two Metadata responses with the same ids belong to these ids.
        The last batch's response serves as the first of the two.
        """
        before = self._seen or self.subscribed(may_lack=may_lack)
        for _ in range(METADATA_ATTEMPTS_MAX):
            ends = self._ends_unless_gone(before.partitions)
            after = self.subscribed(may_lack=may_lack)
            if ends is not None and after == before:
                return TopicEnds(ends, before.topic_ids)
            before = after
        raise SourceFailed("topics are deleted and created faster than their offsets can be read")

    def beginnings(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The beginning offset of each partition."""
        return self._at(partitions, OffsetSpec.EARLIEST)

    def ends(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The end offset of each partition at the isolation level of the options."""
        return self._at(partitions, OffsetSpec.LATEST)

    def starting(self) -> Offsets:
        """The offsets of the starting option."""
        partitions = self.subscribed().partitions
        options = self._options
        match options.starting:
            case AtTime() | AtTimes() as by_time:
                found = self._by_time(partitions, by_time, "startingOffsetsByTimestamp")
                late = [each for each, offset in found.items() if offset is None]
                if late and options.on_no_match is NoMatchStrategy.ERROR:
                    raise SourceFailed(
                        f"{_listed(late)} has no record as late as the starting timestamp: give an "
                        "earlier one, or set startingOffsetsByTimestampStrategy to latest"
                    )
                return self._or_end(found)
            case place:
                return self._by_place(partitions, place, "startingOffsets")

    def ending(self) -> Offsets:
        """The offsets of the ending option of a batch, for the partitions that it starts in."""
        partitions = (self._seen or self.subscribed()).partitions
        match self._options.ending:
            case AtTime() | AtTimes() as by_time:
                return self._or_end(self._by_time(partitions, by_time, "endingOffsetsByTimestamp"))
            case place:
                return self._by_place(partitions, place, "endingOffsets")

    def first_since(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, int | None]:
        """The offset of each partition's first record at or after a time; None if there is none."""
        times = dict.fromkeys(partitions, timestamp_ms)
        with explain_errors(self._options):
            return self._client.offsets_for_times(times, self._options.isolation)

    def commit(self, group_id: str, offsets: Offsets) -> None:
        """Commits offsets to a group. Raises ClientError unchanged."""
        self._client.commit_group_offsets(group_id, offsets)

    def _ends_unless_gone(self, partitions: Iterable[TopicPartition]) -> Offsets | None:
        try:
            return self.ends(partitions)
        except SourceFailed as error:
            refused = error.__cause__
            if isinstance(refused, Refused) and refused.code in _GONE:
                return None
            raise

    def _existing(self, names: Iterable[str], may_lack: bool) -> list[Topic]:
        topics = []
        for found in self._client.find_topics(names).values():
            if isinstance(found, Topic):
                topics.append(found)
            elif not may_lack or found.code not in _GONE:
                raise found
        return topics

    def _matching(self, pattern: str) -> list[Topic]:
        return [
            topic
            for topic in self._client.topics()
            if not topic.is_internal and re.fullmatch(pattern, topic.name)
        ]

    def _at(self, partitions: Iterable[TopicPartition], at: OffsetSpec) -> Offsets:
        places = dict.fromkeys(partitions, int(at))
        if not places:
            return {}
        with explain_errors(self._options):
            return self._client.offsets(places, self._options.isolation)

    def _by_time(
        self, partitions: tuple[TopicPartition, ...], place: AtTime | AtTimes, option: str
    ) -> dict[TopicPartition, int | None]:
        if isinstance(place, AtTime):
            return self.first_since(partitions, place.timestamp_ms)
        _require_all(partitions, place.timestamps_ms, option)
        with explain_errors(self._options):
            return self._client.offsets_for_times(place.timestamps_ms, self._options.isolation)

    def _or_end(self, found: Mapping[TopicPartition, int | None]) -> Offsets:
        ends = self.ends(each for each, offset in found.items() if offset is None)
        return ends | {each: offset for each, offset in found.items() if offset is not None}

    def _by_place(
        self, partitions: tuple[TopicPartition, ...], place: Edge | AtOffsets, option: str
    ) -> Offsets:
        if place is Edge.EARLIEST:
            return self.beginnings(partitions)
        if place is Edge.LATEST:
            return self.ends(partitions)
        _require_all(partitions, place.offsets, option)
        beginnings, ends = self.beginnings(partitions), self.ends(partitions)
        found: Offsets = {}
        for each, offset in place.offsets.items():
            first, end = beginnings[each], ends[each]
            if offset in (OffsetSpec.EARLIEST, OffsetSpec.LATEST):
                found[each] = first if offset == OffsetSpec.EARLIEST else end
            else:
                found[each] = min(max(offset, first), end)
                if found[each] != offset:
                    report_data_loss(
                        self._options,
                        f"the option {option} is {offset} for {each}, which has {first} to {end}",
                        f"{found[each]} is taken",
                    )
        return found


def _require_all(
    partitions: tuple[TopicPartition, ...], named: Mapping[TopicPartition, int], option: str
) -> None:
    """Requires an offset for each partition and no other, as Spark's Kafka connector does."""
    lacking, besides = set(partitions) - named.keys(), named.keys() - set(partitions)
    if lacking:
        raise SourceFailed(
            f"the option {option} lacks {_listed(lacking)}: name every partition, "
            "with -2 for earliest and -1 for latest offsets"
        )
    if besides:
        raise SourceFailed(
            f"the option {option} names {_listed(besides)}, which is not read: leave it out"
        )


def _listed(partitions: Iterable[TopicPartition]) -> str:
    names = [str(each) for each in sorted(partitions)]
    more = len(names) - SHOWN_PARTITIONS_MAX
    shown = ", ".join(names[:SHOWN_PARTITIONS_MAX])
    return f"{shown} and {more} more" if more > 0 else shown
