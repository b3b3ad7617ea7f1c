"""The decision which topics are adopted, from a survey and the existing metadata."""

import pytest

from ottla.cli.log.adopt.plan import plan_adoption
from ottla.cli.log.adopt.survey import DirectorySurvey, SurveyedPartition
from ottla.metadata.image import Image
from ottla.metadata.records import Topic
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.directory.checkpoint_files import MetaProperties

OURS, OTHER = Uuid(b"a" * 16), Uuid(b"b" * 16)


def surveyed(topic: str, index: int, topic_id: Uuid = OURS) -> SurveyedPartition:
    return SurveyedPartition(
        TopicPartition(topic, index),
        f"/kafka/{topic}-{index}",
        topic_id,
        size_bytes=10,
        start_offset=0,
        end_offset=5,
        leader_epoch=0,
    )


def survey_of(*partitions: SurveyedPartition) -> DirectorySurvey:
    return DirectorySurvey(
        "/kafka",
        MetaProperties("cluster", 1, "directory"),
        is_clean=True,
        recovery_points={},
        start_offsets={},
        cleaned_offsets={},
        partitions={each.partition: each for each in partitions},
    )


def image_with(topic_id: Uuid) -> Image:
    image = Image()
    image.apply(Topic("orders", topic_id))
    return image


def test_a_new_topic_is_adopted_with_all_its_partitions() -> None:
    survey = survey_of(surveyed("orders", 1), surveyed("orders", 0))
    survey.cleaned_offsets[TopicPartition("orders", 1)] = 3
    plan = plan_adoption(survey, Image())
    (topic,) = plan.adopted
    assert [each.partition.partition for each in topic.partitions] == [0, 1]
    assert (topic.name, topic.topic_id, topic.is_compacted) == ("orders", OURS, True)
    assert (plan.known, plan.skipped) == ([], {})


@pytest.mark.parametrize(
    ("partitions", "reason"),
    [
        ([surveyed("orders", 1)], "partition 0 is missing: it was on another broker"),
        (
            [surveyed("orders", 0), surveyed("orders", 1, OTHER)],
            "its partitions have different topic ids",
        ),
    ],
)
def test_an_incomplete_topic_is_skipped(partitions: list[SurveyedPartition], reason: str) -> None:
    plan = plan_adoption(survey_of(*partitions), Image())
    assert (plan.adopted, plan.skipped) == ([], {"orders": reason})


def test_a_topic_with_an_unreadable_partition_is_skipped() -> None:
    survey = survey_of(surveyed("orders", 0))
    survey.broken[TopicPartition("orders", 1)] = "it is damaged"
    assert plan_adoption(survey, Image()).skipped == {"orders": "it is damaged"}


def test_an_adopted_topic_is_known_and_another_of_its_name_is_skipped() -> None:
    survey = survey_of(surveyed("orders", 0))
    assert plan_adoption(survey, image_with(OURS)).known == ["orders"]
    plan = plan_adoption(survey, image_with(OTHER))
    assert plan.skipped == {"orders": f"another topic of this name exists, with id {OTHER}"}
    assert plan.adopted == []
