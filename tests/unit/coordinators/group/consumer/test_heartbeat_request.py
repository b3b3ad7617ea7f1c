"""Heartbeats that no group could accept."""

from typing import Any

import pytest

from ottla.coordinators.group.consumer.heartbeat_request import (
    SUBSCRIPTION_CHARACTERS_MAX,
    SpecialEpoch,
    check_heartbeat,
)
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
