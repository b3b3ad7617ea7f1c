"""Heartbeats that no group could accept, the hash of topics, and patterns."""

from typing import Any

import pytest

from ottla.coordinators.group.consumer import regex
from ottla.coordinators.group.consumer.heartbeat_request import (
    SUBSCRIPTION_CHARACTERS_MAX,
    SpecialEpoch,
    check_heartbeat,
)
from ottla.coordinators.group.consumer.topics import TopicShape, shapes_hash
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from tests.support.coordinators.consumer_clients import topic_id

EITHER_MUST_BE_SAID = (
    "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
)
ASSIGNORS = ("uniform", "range")


def beat(**said: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        **{"group_id": "g", "member_id": "m", "member_epoch": 2} | said
    )


def join(**said: Any) -> ConsumerGroupHeartbeatRequest:
    ordinary = {
        "member_epoch": 0,
        "rebalance_timeout_ms": 1_000,
        "subscribed_topic_names": ("logs",),
        "topic_partitions": (),
    }
    return beat(**ordinary | said)


OWNED = (TopicPartitions(topic_id=topic_id(1), partitions=(0,)),)


@pytest.mark.parametrize("request_", [join(), beat(), join(subscribed_topic_names=())])
def test_valid_heartbeats_pass(request_: ConsumerGroupHeartbeatRequest) -> None:
    check_heartbeat(request_, 1, ASSIGNORS)


def test_only_in_version_0_the_broker_generates_the_member_id() -> None:
    nameless = join(member_id="")
    check_heartbeat(nameless, 0, ASSIGNORS)
    for request_, version in ((nameless, 1), (beat(member_id=""), 0)):
        with pytest.raises(PeerError, match=r"MemberId can't be empty\.") as refused:
            check_heartbeat(request_, version, ASSIGNORS)
        assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (beat(group_id=""), "GroupId can't be empty."),
        (beat(instance_id=""), "InstanceId can't be empty."),
        (beat(rack_id=""), "RackId can't be empty."),
        (
            join(rebalance_timeout_ms=-1),
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (
            join(topic_partitions=None),
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            join(topic_partitions=OWNED),
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            join(subscribed_topic_names=None),
            EITHER_MUST_BE_SAID,
        ),
        (beat(member_epoch=SpecialEpoch.LEAVE_STATIC), "InstanceId can't be null."),
        (beat(member_epoch=-3), "MemberEpoch is invalid."),
        (
            join(subscribed_topic_names=("x" * 30_000,) * 40),
            "SubscribedTopicNames are too long.",
        ),
    ],
)
def test_invalid_heartbeats_are_refused_with_kafkas_messages(
    request_: ConsumerGroupHeartbeatRequest, message: str
) -> None:
    with pytest.raises(PeerError) as refused:
        check_heartbeat(request_, 1, ASSIGNORS)
    assert (refused.value.code, str(refused.value)) == (ErrorCode.INVALID_REQUEST, message)
    assert SUBSCRIPTION_CHARACTERS_MAX < 30_000 * 40


def test_an_unsupported_assignor_is_refused_with_the_supported_ones() -> None:
    with pytest.raises(PeerError) as refused:
        check_heartbeat(join(server_assignor="nope"), 1, ASSIGNORS)
    assert refused.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert str(refused.value) == (
        "ServerAssignor nope is not supported. Supported assignors: uniform, range."
    )


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


def test_a_pattern_matches_whole_names() -> None:
    names = {"logs", "logs-eu", "old-logs"}
    assert regex.match_topics("logs.*", names) == ("logs", "logs-eu")
    assert regex.match_topics("(^logs$)", names) == ("logs",)


@pytest.mark.parametrize("pattern", ["(", "a{1000}{1000}", "(?=x)", "x" * 5_000])
def test_an_invalid_or_too_large_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(PeerError) as refused:
        regex.match_topics(pattern, ["logs"])
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "is not a valid regular expression" in str(refused.value)
