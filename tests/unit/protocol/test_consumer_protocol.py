"""What consumers of the classic protocol say to each other, byte by byte."""

import struct

import pytest

from ottla.protocol.consumer_protocol import (
    decode_partitions,
    decode_subscription,
    encode_assignment,
    encode_partitions,
    encode_subscription,
    subscribed_topics,
    version_of,
)
from ottla.protocol.primitives import DecodeError
from ottla.protocol.topic_partition import TopicPartition

PARTITIONS = [TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)]


TWO_TOPICS = b"\x00\x01\x00\x00\x00\x02\x00\x01a\x00\x02bc" + b"\xff" * 4


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def test_an_assignment_has_kafkas_bytes() -> None:
    written = encode_partitions(PARTITIONS)
    assert written == b"".join(
        (
            struct.pack(">hi", 0, 2),
            text("a") + struct.pack(">iii", 2, 0, 2),
            text("b") + struct.pack(">ii", 1, 1),
            struct.pack(">i", -1),
        )
    )
    assert decode_partitions(written) == PARTITIONS


def test_a_subscription_has_kafkas_bytes() -> None:
    written = encode_subscription(["a", "b"])
    assert written == struct.pack(">hi", 0, 2) + text("a") + text("b") + struct.pack(">i", -1)
    assert decode_subscription(written).topics == ("a", "b")


def test_what_a_later_version_adds_is_passed_over() -> None:
    subscription = struct.pack(">hi", 9, 1) + text("a") + struct.pack(">i", -1)
    subscription += struct.pack(">ii", 0, 5) + text("rack") + b"whatever comes"
    assert decode_subscription(subscription).topics == ("a",)
    assert decode_partitions(struct.pack(">hii", 9, 0, -1) + b"whatever comes") == []


def test_a_member_without_an_assignment_owns_nothing() -> None:
    assert decode_partitions(b"") == []


@pytest.mark.parametrize(
    "raw", [b"\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\5", b"\0\1\0\0\0\1\0\3ab"]
)
def test_what_is_no_assignment_is_refused(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_partitions(raw)


@pytest.mark.parametrize(("first", "version"), [(b"\0\0", 0), (b"\0\3", 3), (b"\0\x09", 3)])
def test_a_member_is_answered_in_a_version_that_it_reads(first: bytes, version: int) -> None:
    assert version_of(first + TWO_TOPICS[2:]) == version
    written = encode_assignment({"a": (0, 2), "b": [1]}, version=version)
    assert written[:2] == version.to_bytes(2)
    assert decode_partitions(written) == PARTITIONS


def test_an_assignment_names_no_more_than_its_reader_allows() -> None:
    subscription = encode_subscription(["a", "b", "c"])
    assert decode_subscription(subscription, elements_max=3).topics == ("a", "b", "c")
    with pytest.raises(DecodeError):
        decode_subscription(subscription, elements_max=2)


def test_the_topics_of_a_subscription_are_told_whatever_follows_them() -> None:
    assert subscribed_topics(TWO_TOPICS) == {"a", "bc"}
    assert subscribed_topics(TWO_TOPICS[:-4]) == {"a", "bc"}
    assert subscribed_topics(b"\xff\xff" + TWO_TOPICS[2:]) == {"a", "bc"}


@pytest.mark.parametrize("size", range(len(TWO_TOPICS) - 4))
def test_cut_metadata_tells_no_topics(size: int) -> None:
    assert subscribed_topics(TWO_TOPICS[:size]) is None


def test_metadata_that_lies_about_lengths_tells_no_topics() -> None:
    assert subscribed_topics(b"\x00\x00\x00\x00\x00\x01\xff\xff") is None
    assert subscribed_topics(b"\x00\x00\x00\x00\x00\x01\x00\x01\xff") is None
    assert subscribed_topics(b"\x00\x00\xff\xff\xff\xff") == frozenset()
