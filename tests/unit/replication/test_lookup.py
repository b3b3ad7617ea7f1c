"""Which partition a client means."""

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.replication.lookup import TopicKey, UnknownPartition
from tests.support.replication.partitions import OTHER, Partitions, topic_id


def test_by_name_and_by_id_the_same_partition_is_found() -> None:
    partitions = Partitions()
    partitions.create("first")
    replica = partitions.create("second", 3)
    assert partitions.find("second") is replica
    assert partitions.find(topic_id(2)) is replica
    assert partitions.find(topic_id(2), 2).name.partition == 2


@pytest.mark.parametrize(
    ("topic", "index", "code"),
    [
        ("missing", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (topic_id(99), 0, ErrorCode.UNKNOWN_TOPIC_ID),
        ("events", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("events", -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (topic_id(1), 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_is_not_there_is_told_by_kafkas_codes(
    topic: TopicKey, index: int, code: ErrorCode
) -> None:
    partitions = Partitions()
    partitions.create("events")
    with pytest.raises(UnknownPartition) as caught:
        partitions.find(topic, index)
    assert caught.value.code is code


def test_what_another_broker_has_is_known_and_not_here() -> None:
    partitions = Partitions()
    with pytest.raises(PeerError) as caught:
        partitions.create("theirs", isr=(OTHER,), leader=OTHER)
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not isinstance(caught.value, UnknownPartition)
