"""A ConsumerGroupHeartbeat request, and the checks that do not depend on its group."""

from collections.abc import Hashable, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.coordinators.group.consumer.regex import TopicMatcher
from ottla.coordinators.group.consumer.topics import Topics
from ottla.coordinators.group.records import Partitions
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

# From this version on clients generate their member ids (KIP-1082).
_CLIENT_MEMBER_IDS_SINCE = 1
_NOT_SET = -1
# The total length of the topic names of one member's subscription.
SUBSCRIPTION_CHARACTERS_MAX = 1 << 20


class SpecialEpoch(IntEnum):
    """Values of the member epoch with a special meaning."""

    JOIN = 0
    LEAVE = -1
    # A static member leaves temporarily: it keeps its partitions until its session expires.
    LEAVE_STATIC = -2


class Heartbeat(NamedTuple):
    """One heartbeat, its client, and the time and topics for its decision."""

    request: ConsumerGroupHeartbeatRequest
    # The request's member id, or one that the broker generated for a request without.
    member_id: str
    client_id: str
    client_host: str
    ticket: Hashable
    now_ms: int
    topics: Topics
    match_topics: TopicMatcher

    @property
    def owned(self) -> Partitions | None:
        """The partitions that the member reports to own; None if it does not report them."""
        reported = self.request.topic_partitions
        if reported is None:
            return None
        return {each.topic_id: each.partitions for each in reported}

    @property
    def is_full(self) -> bool:
        """Whether all fields are set, as after a failure: then the answer has the assignment."""
        request = self.request
        return (
            request.rebalance_timeout_ms != _NOT_SET
            and request.topic_partitions is not None
            and (
                request.subscribed_topic_names is not None
                or request.subscribed_topic_regex is not None
            )
        )


def check_heartbeat(
    request: ConsumerGroupHeartbeatRequest, version: int, assignors: Sequence[str]
) -> None:
    """INVALID_REQUEST or UNSUPPORTED_ASSIGNOR if no group could accept the request."""
    joins = request.member_epoch == SpecialEpoch.JOIN
    if not request.member_id and (version >= _CLIENT_MEMBER_IDS_SINCE or not joins):
        raise _invalid("MemberId can't be empty.")
    if not request.group_id:
        raise _invalid("GroupId can't be empty.")
    if request.instance_id == "":
        raise _invalid("InstanceId can't be empty.")
    if request.rack_id == "":
        raise _invalid("RackId can't be empty.")
    if sum(map(len, request.subscribed_topic_names or ())) > SUBSCRIPTION_CHARACTERS_MAX:
        raise _invalid("SubscribedTopicNames are too long.")
    if joins:
        _check_join(request)
    elif request.member_epoch == SpecialEpoch.LEAVE_STATIC and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif request.member_epoch < SpecialEpoch.LEAVE_STATIC:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise PeerError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported."
            f" Supported assignors: {', '.join(assignors)}.",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == _NOT_SET:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    # A joining member owns nothing and must report that.
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null"
            " when (re-)joining."
        )


def _invalid(message: str) -> PeerError:
    return PeerError(ErrorCode.INVALID_REQUEST, message)
