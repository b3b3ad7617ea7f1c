"""What consumers of the classic protocol say to each other, byte by byte."""

import struct

import pytest

from ottla.client.consumer.embedded_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.protocol.primitives import DecodeError
from ottla.protocol.topic_partition import TopicPartition

PARTITIONS = [TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)]


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def test_an_assignment_has_kafkas_bytes() -> None:
    written = encode_assignment(PARTITIONS)
    assert written == b"".join(
        (
            struct.pack(">hi", 0, 2),
            text("a") + struct.pack(">iii", 2, 0, 2),
            text("b") + struct.pack(">ii", 1, 1),
            struct.pack(">i", -1),
        )
    )
    assert decode_assignment(written) == PARTITIONS


def test_a_subscription_has_kafkas_bytes() -> None:
    written = encode_subscription(["a", "b"])
    assert written == struct.pack(">hi", 0, 2) + text("a") + text("b") + struct.pack(">i", -1)
    assert decode_subscription(written) == ["a", "b"]


def test_what_a_later_version_adds_is_passed_over() -> None:
    subscription = struct.pack(">hi", 9, 1) + text("a") + struct.pack(">i", -1)
    subscription += struct.pack(">ii", 0, 5) + text("rack") + b"whatever comes"
    assert decode_subscription(subscription) == ["a"]
    assert decode_assignment(struct.pack(">hii", 9, 0, -1) + b"whatever comes") == []


def test_a_member_without_an_assignment_owns_nothing() -> None:
    assert decode_assignment(b"") == []


@pytest.mark.parametrize(
    "raw", [b"\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\5", b"\0\1\0\0\0\1\0\3ab"]
)
def test_what_is_no_assignment_is_refused(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_assignment(raw)
