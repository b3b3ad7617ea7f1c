"""The embedded protocol of classic consumers in JoinGroup and SyncGroup."""

import pytest

from ottla.coordinators.group.embedded_protocol import (
    MalformedProtocol,
    by_topic_id,
    read_assignment,
    read_subscription,
    write_assignment,
)
from ottla.protocol.consumer_protocol import TopicPartitions
from tests.support.coordinators.consumer_clients import FakeTopics, topic_id

# Version, one topic, no user data; then the fields that each version adds.
V0 = b"\x00\x00" + b"\x00\x00\x00\x01\x00\x04logs" + b"\xff\xff\xff\xff"
OWNED = b"\x00\x00\x00\x01\x00\x04logs\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03"
V3 = b"\x00\x03" + V0[2:] + OWNED + b"\x00\x00\x00\x07" + b"\x00\x02eu"


def test_every_version_is_read() -> None:
    assert read_subscription(V0).topics == ("logs",)
    assert read_subscription(V0).owned_partitions == ()
    newest = read_subscription(V3)
    assert newest.owned_partitions == (TopicPartitions(topic="logs", partitions=(0, 3)),)
    assert (newest.generation_id, newest.rack_id) == (7, "eu")


def test_a_newer_version_is_read_as_the_last_known_one() -> None:
    assert read_subscription(b"\x00\x09" + V3[2:] + b"more") == read_subscription(V3)


@pytest.mark.parametrize("raw", [b"", b"\x00", b"\xff\xff" + V0[2:], V0[:-1], V3[:-1]])
def test_other_bytes_are_refused_as_a_subscription(raw: bytes) -> None:
    with pytest.raises(MalformedProtocol):
        read_subscription(raw)


def test_an_assignment_is_written_in_the_members_version_without_deleted_topics() -> None:
    topics = FakeTopics(logs=4)
    given = {topic_id(1): (1, 2), topic_id(9): (0,)}
    raw = write_assignment(given, topics, V3)
    assert raw[:2] == b"\x00\x03"
    read = read_assignment(raw)
    assert read.user_data is None
    assert by_topic_id(read.assigned_partitions, topics) == {topic_id(1): (1, 2)}
    assert read_assignment(b"").assigned_partitions == ()
