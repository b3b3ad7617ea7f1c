"""The topics of an image as a group sees them, and their hash."""

from ottla.coordinators.group.consumer.topics import ImageTopics, TopicShape, shapes, shapes_hash
from ottla.metadata.image import Image
from ottla.metadata.records import Topic
from tests.support.metadata.sample_records import partition, topic_id


def test_the_hash_of_topics_changes_with_every_change() -> None:
    logs = TopicShape(topic_id(1), 3)
    one = shapes_hash({"logs": logs})
    others = [
        {},
        {"logs": logs._replace(partition_count=4)},
        {"logs": logs._replace(topic_id=topic_id(2))},
        {"slog": logs},
        {"logs": logs, "more": logs},
    ]
    assert one not in [shapes_hash(each) for each in others]
    assert shapes_hash({}) == 0
    assert -(2**63) <= one < 2**63


def test_the_topics_of_an_image_have_their_ids_and_partition_counts() -> None:
    image = Image()
    for record in (Topic("logs", topic_id(1)), partition(), partition(index=1)):
        image.apply(record)
    topics = ImageTopics(image)
    assert topics.shape("logs") == TopicShape(topic_id(1), 2)
    assert topics.name(topic_id(1)) == "logs"
    assert topics.shape("gone") is None
    assert topics.name(topic_id(2)) is None
    assert list(shapes({"gone", "logs"}, topics)) == ["logs"]
