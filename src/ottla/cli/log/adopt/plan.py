"""Decides which topics are adopted, from a survey and the existing metadata."""

from collections import defaultdict
from dataclasses import dataclass, field

from ottla.cli.log.adopt.survey import DirectorySurvey, SurveyedPartition
from ottla.cli.shared.output import Row
from ottla.metadata.image import Image
from ottla.protocol.primitives import Uuid


@dataclass(frozen=True, slots=True)
class AdoptedTopic:
    """A new topic with all its partitions."""

    name: str
    topic_id: Uuid
    # By index, without gaps.
    partitions: tuple[SurveyedPartition, ...]
    is_compacted: bool

    def row(self) -> Row:
        return {
            "kind": "topic",
            "topic": self.name,
            "action": "adopt",
            "topic_id": str(self.topic_id),
            "partitions": len(self.partitions),
            "bytes": sum(one.size_bytes for one in self.partitions),
            "offsets": sum(one.end_offset - one.start_offset for one in self.partitions),
            "compacted": self.is_compacted,
        }


@dataclass(slots=True)
class Plan:
    adopted: list[AdoptedTopic] = field(default_factory=list)
    # Topics and directories that stay as they are, by name, with the reason.
    known: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def rows(self) -> list[Row]:
        rows = [topic.row() for topic in self.adopted]
        rows += [
            {"kind": "skipped", "name": name, "action": "none", "why": "it exists already"}
            for name in self.known
        ]
        rows += [
            {"kind": "skipped", "name": name, "action": "skip", "why": why}
            for name, why in self.skipped.items()
        ]
        return rows


def plan_adoption(survey: DirectorySurvey, image: Image) -> Plan:
    """A topic is adopted as a whole or not at all."""
    plan = Plan(skipped=dict(survey.skipped))
    topics: dict[str, list[SurveyedPartition]] = defaultdict(list)
    for partition, one in sorted(survey.partitions.items()):
        topics[partition.topic].append(one)
    for name in sorted({*topics, *(broken.topic for broken in survey.broken)}):
        partitions = topics[name]
        known = image.topic(name)
        why = _why_not(survey, name, partitions)
        if known is not None and partitions and known.topic_id == partitions[0].topic_id:
            plan.known.append(name)
        elif known is not None:
            plan.skipped[name] = f"another topic of this name exists, with id {known.topic_id}"
        elif why is not None:
            plan.skipped[name] = why
        else:
            cleaned = any(one.partition in survey.cleaned_offsets for one in partitions)
            topic_id = partitions[0].topic_id
            plan.adopted.append(AdoptedTopic(name, topic_id, tuple(partitions), cleaned))
    return plan


def _why_not(survey: DirectorySurvey, name: str, partitions: list[SurveyedPartition]) -> str | None:
    """The reason why a topic cannot be adopted; None if it can."""
    broken = [why for partition, why in sorted(survey.broken.items()) if partition.topic == name]
    if broken:
        return broken[0]
    indexes = [one.partition.partition for one in partitions]
    missing = set(range(max(indexes) + 1)).difference(indexes)
    if missing:
        return f"partition {min(missing)} is missing: it was on another broker"
    if len({one.topic_id for one in partitions}) > 1:
        return "its partitions have different topic ids"
    return None
