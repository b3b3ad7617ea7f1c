"""A heartbeat as a client sends it, and what is wrong with one whatever the group is."""

from collections.abc import Hashable, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.coordinators.group.consumer.regex import TopicMatcher
from ottla.coordinators.group.consumer.topics import Topics
from ottla.coordinators.group.records import Partitions
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

# From this version on members name themselves (KIP-1082).
_MEMBERS_NAME_THEMSELVES_SINCE = 1
_NOT_SAID = -1
# Of the names of topics that one member subscribes to, together.
SUBSCRIPTION_CHARACTERS_MAX = 1 << 20


class SpecialEpoch(IntEnum):
    """What a member says in the place of its epoch."""

    JOIN = 0
    LEAVE = -1
    # A static member that wants to come back: its partitions stay its own until its session ends.
    STEP_ASIDE = -2


class Heartbeat(NamedTuple):
    """One heartbeat and its circumstances."""

    request: ConsumerGroupHeartbeatRequest
    # The request's, or the one that the broker gives to who has none.
    member_id: str
    client_id: str
    client_host: str
    ticket: Hashable
    now_ms: int
    topics: Topics
    match_topics: TopicMatcher

    @property
    def owned(self) -> Partitions | None:
        """What the member reports to own; None if it does not say."""
        reported = self.request.topic_partitions
        if reported is None:
            return None
        return {each.topic_id: each.partitions for each in reported}

    @property
    def is_full(self) -> bool:
        """Whether it says everything, as after a failure: so that everything is to be answered."""
        request = self.request
        return (
            request.rebalance_timeout_ms != _NOT_SAID
            and request.topic_partitions is not None
            and (
                request.subscribed_topic_names is not None
                or request.subscribed_topic_regex is not None
            )
        )


def check_heartbeat(
    request: ConsumerGroupHeartbeatRequest, version: int, assignors: Sequence[str]
) -> None:
    """INVALID_REQUEST or UNSUPPORTED_ASSIGNOR if no group could take it."""
    joins = request.member_epoch == SpecialEpoch.JOIN
    if not request.member_id and (version >= _MEMBERS_NAME_THEMSELVES_SINCE or not joins):
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
    elif request.member_epoch == SpecialEpoch.STEP_ASIDE and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif request.member_epoch < SpecialEpoch.STEP_ASIDE:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise PeerError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported."
            f" Supported assignors: {', '.join(assignors)}.",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == _NOT_SAID:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    # Whoever joins owns nothing, and must say so.
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null"
            " when (re-)joining."
        )


def _invalid(message: str) -> PeerError:
    return PeerError(ErrorCode.INVALID_REQUEST, message)
